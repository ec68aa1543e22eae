"""What a whole MCP search over HTTP costs, next to a tool that does nothing on the same server, and how many it serves.

Clients, server and PostgreSQL are processes of their own. Kinds of call take turns, so that noise hits all alike.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psutil
from rich.console import Console
from rich.table import Table

from bench_server import TRIVIAL_TOOL
from formulary_catalog.embedding import load_embedder
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from mcp_sessions import KeptConnection, SessionEachCall, ToolFailed
from processes import postgres_here, processor_time
from quantiles import milliseconds
from support.announced_address import announced
from support.manifest import analysis, text
from support.serving import load

WORKFLOWS = Path(__file__).parents[1] / "catalog" / "workflows"
REMEDIATION_ID = "rr-bench"
INCIDENT = {"X-Remediation-Id": REMEDIATION_ID}
SEARCH = "search_workflow_catalog"
QUERY = "OOMKilled critical"
NEW_QUERY = "OOMKilled critical checkout pod {} exceeded its memory limit"
WORKFLOW = "oom-raise-memory-limit"
CLIENTS = (1, 8, 32)
GOAL = 2.5
_WARM_UP = 30

Make = Callable[[], tuple[str, dict[str, Any]]]


class Client(Protocol):
    """Who calls tools."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one kind of call takes; times in milliseconds, processor time of the server and of PostgreSQL per call."""

    client: str
    call: str
    p50: float
    p95: float
    server: float
    database: float
    to_trivial: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What the server does for so many clients that call all the time; times in milliseconds."""

    query: str
    clients: int
    a_second: float
    p50: float
    p95: float
    refused: int
    server: float
    database: float
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run."""

    costs: tuple[Cost, ...]
    throughput: tuple[Throughput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A running server with its database."""

    url: str
    server: psutil.Process
    database: psutil.Process


def calls() -> dict[str, Make]:
    """The kinds of call, by what they are called in the tables; the first is what the others are compared with."""
    numbers = count()
    return {
        "trivial tool": lambda: (TRIVIAL_TOOL, {}),
        "search, repeated query": lambda: (SEARCH, {"query": QUERY}),
        "search, new query": lambda: (SEARCH, {"query": NEW_QUERY.format(f"a{next(numbers)}")}),
        "details": lambda: ("get_workflow_details", {"workflow_id": WORKFLOW}),
    }


def measure(subject: Subject, *, rounds: int, seconds: float) -> Measured:
    """Everything once."""
    clients: dict[str, Client] = {
        "one call, kept connection": KeptConnection(subject.url),
        "one call, of an incident": KeptConnection(subject.url, headers=INCIDENT),
        "whole session, as HolmesGPT": SessionEachCall(subject.url, headers=INCIDENT),
    }
    kinds = calls()
    costs = [
        cost for name, client in clients.items() for cost in _costs(subject, name, client, kinds=kinds, rounds=rounds)
    ]
    throughput = [
        _throughput(subject, query, wording=wording, clients=number, seconds=seconds)
        for query, wording in (("repeated query", QUERY), ("new query", NEW_QUERY))
        for number in CLIENTS
    ]
    return Measured(costs=tuple(costs), throughput=tuple(throughput))


def _costs(subject: Subject, name: str, client: Client, *, kinds: Mapping[str, Make], rounds: int) -> Iterator[Cost]:
    for _ in range(_WARM_UP):
        for make in kinds.values():
            seconds_of(client, make())
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, make in kinds.items():
            times[kind].append(seconds_of(client, make()))
    floor, _ = milliseconds(times["trivial tool"])
    for kind, make in kinds.items():
        # Processor time ticks too coarsely for single calls, so it is taken over as many of one kind again.
        with processor_time([subject.server]) as server, processor_time([subject.database]) as database:
            for _ in range(rounds):
                seconds_of(client, make())
        p50, p95 = milliseconds(times[kind])
        yield Cost(
            client=name,
            call=kind,
            p50=p50,
            p95=p95,
            server=server.seconds / rounds * 1000,
            database=database.seconds / rounds * 1000,
            to_trivial=p50 / floor,
        )


def seconds_of(client: Client, call: tuple[str, Mapping[str, Any]]) -> float:
    """What a call takes. One that fails, as they do while the machine stands still, is told and asked again, twice."""
    for left in (2, 1, 0):
        started = time.perf_counter()
        try:
            client.call(*call)
        except ToolFailed as failure:
            print(f"a call failed: {failure}", file=sys.stderr)
            if not left:
                raise
            time.sleep(2)
        else:
            return time.perf_counter() - started
    raise AssertionError


def _throughput(subject: Subject, query: str, *, wording: str, clients: int, seconds: float) -> Throughput:
    told = {
        "url": subject.url,
        "run": f"c{clients}n",
        "wording": wording,
        "headers": INCIDENT,
        "clients": clients,
        "seconds": seconds,
    }
    script = Path(__file__).with_name("load_clients.py")
    with processor_time([subject.server]) as server, processor_time([subject.database]) as database:
        done = subprocess.run([sys.executable, script, json.dumps(told)], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    answered = len(result["times"])
    p50, p95 = milliseconds(result["times"])
    return Throughput(
        query=query,
        clients=clients,
        a_second=answered / result["seconds"],
        p50=p50,
        p95=p95,
        refused=result["outcomes"].get("refused", 0),
        server=server.seconds / answered * 1000,
        database=database.seconds / answered * 1000,
        busy=server.seconds / result["seconds"],
    )


@contextmanager
def subject() -> Iterator[Subject]:
    """A server over the starter catalog and one incident."""
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "data") as postgres:
            dsn = postgres.dsn(database="postgres")
            migrate(dsn)
            incident = Path(directory) / "incident.yaml"
            incident.write_text(text(analysis("bench", remediation_id=REMEDIATION_ID, labels={"team": ["shop"]})))
            asyncio.run(load([WORKFLOWS, incident], dsn=dsn, embedder=load_embedder()))
            with server(dsn) as (url, process):
                yield Subject(url=url, server=process, database=postgres_here())


@contextmanager
def server(dsn: str) -> Iterator[tuple[str, psutil.Process]]:
    """The URL and the process of a server on a database."""
    command = [sys.executable, str(Path(__file__).with_name("bench_server.py")), dsn]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield announced(process.stdout.readline()), psutil.Process(process.pid)
        finally:
            process.terminate()


def report(measured: Measured) -> None:
    """Print the tables."""
    console = Console(width=120)
    table = Table("MCP call over HTTP", "", "p50 ms", "p95 ms", "server ms", "PostgreSQL ms", "to trivial", "goal")
    for cost in measured.costs:
        table.add_row(
            cost.client,
            cost.call,
            f"{cost.p50:.2f}",
            f"{cost.p95:.2f}",
            f"{cost.server:.2f}",
            f"{cost.database:.2f}",
            f"{cost.to_trivial:.2f}x",
            f"<= {GOAL}x" if cost.call == "search, repeated query" else "",
        )
    console.print(table)
    table = Table(
        "clients that search all the time", "", "a second", "p50 ms", "p95 ms", "refused", "server ms",
        "PostgreSQL ms", "server busy",
    )  # fmt: skip
    for each in measured.throughput:
        table.add_row(
            each.query,
            str(each.clients),
            f"{each.a_second:.0f}",
            f"{each.p50:.1f}",
            f"{each.p95:.1f}",
            str(each.refused),
            f"{each.server:.2f}",
            f"{each.database:.2f}",
            f"{each.busy:.0%}",
        )
    console.print(table)


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--rounds", type=int, default=300, help="calls of each kind (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="for each number of clients (default: %(default)s)")
    options = parser.parse_args()
    with subject() as running:
        measured = measure(running, rounds=options.rounds, seconds=options.seconds)
    report(measured)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(measured), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
