"""`make bench-operator`: what the operator costs with many objects, on a real API server and a real PostgreSQL.

`--objects 10000` is what it is sized for. Times depend on the machine and on what else runs there; memory and the
numbers of requests hardly do.
"""

import argparse
import copy
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from formulary_catalog.loading.files import starter_catalog
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quantiles import p50_and_p95
from support.asking import finds
from support.cluster import OperatorAccount, apply_many, disagreements, install_kinds, new_operator_account
from support.control_plane import ControlPlane, control_plane
from support.manifest import workflow
from support.operator_process import Daemon, operator, server

CRDS = Path(__file__).parents[1] / "crds"
FLEET, SINGLE = "fleet", "single"
"""The namespaces of the many objects and of those that are applied one by one."""
APPLIED_TOGETHER = 500
APPLIED_SINGLY = 50
TAKEOVERS = 3
WARM_SECONDS = 15
"""How long a standby has been there when the leader ends: it loads the model meanwhile."""
REST_SECONDS = 90
"""How long the operator is left alone before its memory at rest is read."""
_PATIENCE = 3600.0
_console = Console(width=100)
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of the operator, until it is ready. Memory is in MB, `peak_mb` that of the process so far."""

    seconds: float
    embeddings: int
    status_patches: int
    events: int
    ready_mb: int
    peak_mb: int


def fleet(size: int) -> Iterator[dict[str, Any]]:
    """Workflows as long as real ones, each with a text of its own to embed."""
    originals = [yaml.safe_load(file.read_text()) for file in sorted(starter_catalog().glob("*.yaml"))]
    for number, original in enumerate(islice(cycle(originals), size)):
        document = copy.deepcopy(original)
        document["metadata"]["name"] += f"-{number}"
        document["spec"]["description"]["what"] += f" For cell {number} of the fleet."
        yield document


def apply_fleet(cluster: ControlPlane, size: int) -> float:
    """Seconds that kubectl took."""
    documents = list(fleet(size))
    started = time.monotonic()
    for first in range(0, size, APPLIED_TOGETHER):
        apply_many(cluster, documents[first : first + APPLIED_TOGETHER], namespace=FLEET)
    return time.monotonic() - started


def measure_start(cluster: ControlPlane, *, account: OperatorAccount, daemon: Daemon) -> Start:
    """Start the operator and wait until it has brought everything in step."""
    before = _written(cluster, account=account)
    started = time.monotonic()
    daemon.start()
    while not daemon.is_ready():
        if time.monotonic() - started > _PATIENCE:
            raise SystemExit(f"the operator is not ready after {_PATIENCE:.0f} s")
        time.sleep(_POLL_SECONDS)
    seconds = time.monotonic() - started
    after = _written(cluster, account=account)
    return Start(
        seconds=seconds,
        embeddings=int(daemon.metric("formulary_embeddings_total", outcome="ok")),
        status_patches=after[0] - before[0],
        events=after[1] - before[1],
        ready_mb=memory(daemon, "VmRSS"),
        peak_mb=memory(daemon, "VmHWM"),
    )


def measure_apply(cluster: ControlPlane, name: str, *, url: str) -> float:
    """Seconds from the start of `kubectl apply` until a search finds the workflow."""
    started = time.monotonic()
    cluster.apply(workflow(name), namespace=SINGLE)
    while not finds(url, name):
        if time.monotonic() - started > _PATIENCE:
            raise SystemExit(f"{name} is not found after {_PATIENCE:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - started


def measure_takeover(
    cluster: ControlPlane, name: str, *, dsn: str, account: OperatorAccount, url: str, kill: bool
) -> float:
    """Seconds from the end of a leader until a search finds what is applied then, with a standby beside it."""

    def replica(role: str) -> AbstractContextManager[Daemon]:
        lease = {"lease_namespace": account.namespace, "pod_name": f"{name}-{role}"}
        return operator(dsn=dsn, kubeconfig=account.kubeconfig, **lease)

    with replica("leader") as leader, replica("standby") as standby:
        leader.start().wait_ready(seconds=_PATIENCE)
        standby.start().wait_ready()
        time.sleep(WARM_SECONDS)
        assert leader.process is not None
        started = time.monotonic()
        leader.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        return time.monotonic() - started + measure_apply(cluster, name, url=url)


def memory(daemon: Daemon, field: str) -> int:
    """`VmRSS` or `VmHWM` of a process, in MB: what is resident, and the most that ever was."""
    assert daemon.process is not None
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    kilobytes = next(line for line in lines if line.startswith(f"{field}:")).split()[1]
    return int(kilobytes) // 1024


def _written(cluster: ControlPlane, *, account: OperatorAccount) -> tuple[int, int]:
    """How many statuses and Events the operator has written so far, by the audit log of the API server."""
    requests = cluster.requests(user=account.user, verbs=["patch", "create"])
    statuses = sum((request.verb, request.subresource) == ("patch", "status") for request in requests)
    events = sum((request.verb, request.resource) == ("create", "events") for request in requests)
    return statuses, events


def _percentiles(seconds: Sequence[float]) -> str:
    return "{:.2f} s / {:.2f} s".format(*p50_and_p95(seconds))


def report(starts: dict[str, Start]) -> None:
    """Print what the starts of the operator cost."""
    table = Table("operator", "until ready", "embedded", "status patches", "events", "MB then", "MB peak")
    for name, start in starts.items():
        counts = (start.embeddings, start.status_patches, start.events, start.ready_mb, start.peak_mb)
        table.add_row(name, f"{start.seconds:.1f} s", *map(str, counts))
    _console.print(table)


def measure(objects: int) -> None:
    """Set everything up, measure once, and report."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="formulary-bench-")))
        directory.chmod(0o711)
        dsn = stack.enter_context(EmbeddedPostgres(data_dir=directory / "postgres")).dsn()
        migrate(dsn)
        cluster = stack.enter_context(control_plane())
        install_kinds(cluster, CRDS)
        for namespace in (FLEET, SINGLE):
            cluster.create_namespace(namespace)
        account = new_operator_account(cluster)
        applied = apply_fleet(cluster, objects)

        daemon = stack.enter_context(operator(dsn=dsn, kubeconfig=account.kubeconfig))
        starts = {"first start": measure_start(cluster, account=account, daemon=daemon)}
        if problems := disagreements(cluster, dsn, FLEET):
            raise SystemExit(f"cluster and catalog differ in {len(problems)} places: {problems[0]}")
        daemon.stop()
        starts["restart, nothing changed"] = measure_start(cluster, account=account, daemon=daemon)
        searching = stack.enter_context(server(dsn=dsn)).start()
        searching.wait_ready()
        singles = [measure_apply(cluster, f"single-{number}", url=searching.url) for number in range(APPLIED_SINGLY)]
        time.sleep(REST_SECONDS)
        rest_mb = memory(daemon, "VmRSS")
        after_rest = measure_apply(cluster, "late", url=searching.url)
        daemon.stop()
        takeovers = {
            how: [
                measure_takeover(
                    cluster, f"{how}-{n}", dsn=dsn, account=account, url=searching.url, kill=how == "killed"
                )
                for n in range(TAKEOVERS)
            ]
            for how in ("killed", "stopped")
        }
    report(starts)
    table = Table(f"with {objects:,} workflows", "")
    table.add_row("kubectl apply of all", f"{applied:.1f} s")
    table.add_row("kubectl apply of one → searchable, p50 / p95", _percentiles(singles))
    table.add_row(f"the same after {REST_SECONDS} s of rest", f"{after_rest:.2f} s")
    table.add_row(f"operator after {REST_SECONDS} s of rest", f"{rest_mb} MB")
    for how, seconds in takeovers.items():
        table.add_row(
            f"leader {how} → what is applied then is searchable", ", ".join(f"{each:.1f} s" for each in seconds)
        )
    _console.print(table)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="What the operator costs with many objects.")
    parser.add_argument("--objects", type=int, default=1000, help="workflows in the cluster; default: 1000")
    measure(parser.parse_args().objects)


if __name__ == "__main__":
    main()
