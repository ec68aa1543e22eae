"""How long `formulary serve` and `formulary up` take to be ready on a large catalog, and how much memory they have; how
long a client waits for `formulary stdio` to answer `initialize`.

Ready is what `/readyz` calls so: able to rank by meaning too, not degraded. `up` finds the data directory of an earlier
start, and the manifests, a file for each workflow, as they were then: it reads them all to see that nothing changed.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from catalogs import Catalog
from formulary_catalog.edges.calls.readiness import ReadinessState
from formulary_catalog.embedding import load_embedder
from formulary_catalog.store.database.connection import Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from mcp_sessions import KeptConnection
from mcp_stdio import stdio_session
from processes import peak_resident, resident
from scale_database import catalog_database
from support.manifest import text
from support.process import FORMULARY

STARTS = 5
GOAL_MEGABYTES = 300
GOAL_SECONDS = 4.0
GOAL_INITIALIZE = 1.5
_PATIENCE, _LOAD_PATIENCE = 60.0, 3600.0
_LOOK_SECONDS = 0.01
_SAYS_READY = re.compile(r'"message": "ready"|^Formulary is ready')
_ADDRESS = re.compile(r"http://[0-9.]+:[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Seconds from the start of the process, `processor` those it was running; megabytes of its resident set."""

    seconds: tuple[float, ...]
    processor: float
    ready: float

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All commands; `first` are the seconds of the `formulary up` that loaded the manifests, `initialize` those from
    the start of `formulary stdio` to its first answer, median.
    """

    workflows: int
    searches: int
    serve: Starts
    searched: float
    peak: float
    up: Starts
    first: float
    initialize: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that is ready, and the seconds and processor seconds that it took."""

    url: str
    process: psutil.Process
    seconds: float
    processor: float


def measure(*, workflows: int, searches: int) -> Measured:
    """Start it several times, and search in the last one."""
    catalog = Catalog(workflows)
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "data") as postgres:
            dsn = asyncio.run(catalog_database(postgres, catalog=catalog, embedder=load_embedder()))
            command = [FORMULARY, "serve", "--database-url", dsn.replace("//postgres@", f"//{Role.SERVER}@")]
            _starts(command, times=1)  # fills the caches of the system
            serve = _starts(command, times=STARTS)
            with started(command) as running:
                _search(running.url, catalog=catalog, count=searches)
                searched, peak = resident(running.process), peak_resident(running.process)
            initialize = statistics.median(_until_initialized(dsn) for _ in range(STARTS))
        command = [FORMULARY, "up", "--data-dir", f"{directory}/up", "--manifests", f"{directory}/manifests"]
        _write(catalog, directory=Path(directory) / "manifests")
        first = _starts(command, times=1, patience=_LOAD_PATIENCE)
        return Measured(
            workflows=workflows,
            searches=searches,
            serve=serve,
            searched=searched,
            peak=peak,
            up=_starts(command, times=STARTS),
            first=first.median,
            initialize=initialize,
        )


def _until_initialized(dsn: str) -> float:
    """Seconds."""
    command = [FORMULARY, "stdio", "--database-url", dsn]
    with tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        with stdio_session(command, environment={}, log=Path(directory) / "log"):
            return time.perf_counter() - started


def _write(catalog: Catalog, *, directory: Path) -> None:
    directory.mkdir()
    for each in catalog.workflows():
        manifest = directory / f"{each.number:07d}.yaml"
        manifest.write_text(text(dict(each.documents[-1])), encoding="utf-8")


def _starts(command: Sequence[str], *, times: int, patience: float = _PATIENCE) -> Starts:
    """Start it so many times, one after the other."""
    seconds, processor, ready = [], [], []
    for _ in range(times):
        with started(command, patience=patience) as running:
            seconds.append(running.seconds)
            processor.append(running.processor)
            ready.append(resident(running.process))
    return Starts(seconds=tuple(seconds), processor=statistics.median(processor), ready=statistics.median(ready))


@contextmanager
def started(command: Sequence[str], *, patience: float = _PATIENCE) -> Iterator[Served]:
    """A server that was started by the command on a free port, from when `/readyz` says that it is ready."""
    environment = os.environ | {"FORMULARY_REQUEST_CONTEXT": "optional"}
    with tempfile.NamedTemporaryFile() as log:
        begun = time.perf_counter()
        until = begun + patience
        with subprocess.Popen([*command, "--port", "0"], env=environment, stdout=log, stderr=log) as process:
            try:
                url = _address(Path(log.name), until=until, process=process)
                _await_readiness(url, until=until)
                seconds = time.perf_counter() - begun
                running = psutil.Process(process.pid)
                times = running.cpu_times()
                yield Served(url=url, process=running, seconds=seconds, processor=times.user + times.system)
            finally:
                process.terminate()


def _address(log: Path, *, until: float, process: "subprocess.Popen[bytes]") -> str:
    """The address in the line of the log that says it is ready."""
    while time.perf_counter() < until and process.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if _SAYS_READY.search(line) and (found := _ADDRESS.search(line)):
                return found.group()
        time.sleep(_LOOK_SECONDS)
    raise SystemExit(f"{process.args!r} did not get ready:\n{log.read_text(encoding='utf-8')}")


def _await_readiness(url: str, *, until: float) -> None:
    status = ""
    while time.perf_counter() < until:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
                status = json.load(answer)["status"]
        except urllib.error.HTTPError:
            pass
        if status == ReadinessState.READY:
            return
        time.sleep(_LOOK_SECONDS)
    raise SystemExit(f"{url} is not ready: {status or 'it takes no calls'}")


def _search(url: str, *, catalog: Catalog, count: int) -> None:
    """Searches, none twice, that find ever other workflows."""
    connection = KeptConnection(url)
    sentences = cycle(catalog.sentences)
    for number, sentence in enumerate(islice(sentences, count)):
        query = f"{sentence.signals[0]} {sentence.when_to_use[:200]} {number}"
        connection.call("search_workflow_catalog", {"query": query})
    connection.close()


def report(measured: Measured) -> None:
    """Print the table."""
    table = Table(f"{measured.workflows:,} workflows", "", "measured", "goal")
    for name, starts in (("serve", measured.serve), ("up", measured.up)):
        table.add_row(f"formulary {name}", "ready, warm, median", f"{starts.median:.2f} s", f"<= {GOAL_SECONDS:g} s")
        table.add_row("", "processor time until then", f"{starts.processor:.2f} s", "")
        table.add_row("", "memory when ready", f"{starts.ready:.0f} MB", f"<= {GOAL_MEGABYTES} MB")
        if starts is measured.serve:
            after = f"after {measured.searches:,} searches"
            table.add_row("", after, f"{measured.searched:.0f} MB", f"<= {GOAL_MEGABYTES} MB")
            table.add_row("", "at most", f"{measured.peak:.0f} MB", "")
    table.add_row("", "ready, the manifests to be loaded first", f"{measured.first:.0f} s", "")
    stdio = "initialize answered, median"
    table.add_row("formulary stdio", stdio, f"{measured.initialize:.2f} s", f"<= {GOAL_INITIALIZE:g} s")
    Console(width=100).print(table)


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--workflows", type=int, default=10_000, help="in the catalog (default: %(default)s)")
    parser.add_argument("--searches", type=int, default=1000, help="before memory is looked at (default: %(default)s)")
    options = parser.parse_args()
    measured = measure(workflows=options.workflows, searches=options.searches)
    report(measured)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(measured), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
