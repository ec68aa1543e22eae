"""`make bench`: where the time of a search goes, and what a whole MCP search costs next to a trivial tool call.

Times depend on the machine and on what else runs there; the ratios are taken within one run and are what to compare.
"""

import asyncio
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from bench_server import READY, TRIVIAL_TOOL
from bench_trail import TrailCosts, measure_trail
from rich.console import Console
from rich.table import Table

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.request import search_request
from formulary_catalog.embedding import load_embedder
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.store.embedded import EmbeddedPostgres
from support.databases import migrated_database
from support.serving import catalog, load

WORKFLOWS = Path(__file__).parents[2] / "catalog" / "workflows"
ROUNDS = 300
WARM_UP = 30
QUERY = "OOMKilled critical"
PHASES = ("context", "embed", "sql", "total")
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


class Samples(Metrics):
    """Metrics that keep every observed duration, in seconds by phase."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def observe_phase(self, phase: str, seconds: float) -> None:
        self.seconds[phase].append(seconds)


async def measure_phases(postgres: EmbeddedPostgres) -> dict[str, dict[str, list[float]]]:
    """Seconds by kind of query and phase, in process."""
    embedder = load_embedder()
    measured: dict[str, dict[str, list[float]]] = {}
    for kind, query in (("repeated query", lambda: QUERY), ("new query", _new_query())):
        metrics = Samples()
        async with catalog([WORKFLOWS], postgres=postgres, embedder=embedder, metrics=metrics) as service:
            await _search(service, query=query, rounds=WARM_UP)
            metrics.seconds.clear()
            await _search(service, query=query, rounds=ROUNDS)
        measured[kind] = metrics.seconds
    return measured


async def measure_audit(postgres: EmbeddedPostgres) -> TrailCosts:
    """What recording a search costs, and how fast the record is verified."""
    embedder = load_embedder()
    async with migrated_database(postgres) as dsn:
        await load([WORKFLOWS], dsn=dsn, embedder=embedder)
        return await measure_trail(dsn, embedder=embedder, rounds=ROUNDS, warm_up=WARM_UP)


async def _search(service: CatalogService, *, query: Callable[[], str], rounds: int) -> None:
    for _ in range(rounds):
        request = search_request(query=query(), labels={"environment": ["production"]})
        await service.search(request, caller=Caller(name="bench", access=EVERYTHING))


def _new_query() -> Callable[[], str]:
    numbers = count()
    return lambda: f"{QUERY} checkout pod {next(numbers)} exceeded its memory limit"


def measure_calls(url: str) -> dict[str, list[float]]:
    """Seconds of whole tool calls over one HTTP connection, interleaved so that noise hits all alike."""
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    new_query = _new_query()
    calls: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
        "trivial tool": lambda: (TRIVIAL_TOOL, {}),
        "search, repeated query": lambda: (
            "search_workflow_catalog",
            {"query": QUERY, "label.environment": "production"},
        ),
        "search, new query": lambda: (
            "search_workflow_catalog",
            {"query": new_query(), "label.environment": "production"},
        ),
        "details": lambda: ("get_workflow_details", {"workflow_id": "oom-raise-memory-limit"}),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    for number in range(WARM_UP + ROUNDS):
        for name, call in calls.items():
            tool, arguments = call()
            started = time.perf_counter()
            _call(connection, tool=tool, arguments=arguments)
            if number >= WARM_UP:
                seconds[name].append(time.perf_counter() - started)
    connection.close()
    return seconds


def _call(connection: http.client.HTTPConnection, *, tool: str, arguments: dict[str, Any]) -> None:
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    connection.request("POST", "/mcp", body=body, headers=headers)
    answer = json.loads(connection.getresponse().read())
    if answer["result"].get("isError"):
        raise SystemExit(f"{tool} failed: {answer}")


@contextmanager
def server(data_dir: Path) -> Iterator[str]:
    """The URL of a server in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("bench_server.py")), str(data_dir), str(WORKFLOWS)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise SystemExit("the server did not start")
            yield line.removeprefix(READY).strip()
        finally:
            process.terminate()


def _milliseconds(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p95."""
    ordered = sorted(seconds)
    return statistics.median(ordered) * 1000, ordered[int(len(ordered) * 0.95)] * 1000


def report(*, phases: dict[str, dict[str, list[float]]], calls: dict[str, list[float]], trail: TrailCosts) -> None:
    """Print the tables."""
    console = Console(width=100)
    table = Table("search in process, 51 workflows", "phase", "p50 ms", "p95 ms")
    for kind, by_phase in phases.items():
        for phase in PHASES:
            p50, p95 = _milliseconds(by_phase[phase])
            table.add_row(kind, phase, f"{p50:.2f}", f"{p95:.2f}")
    console.print(table)
    floor, _ = _milliseconds(calls["trivial tool"])
    table = Table("whole MCP call over HTTP", "p50 ms", "p95 ms", "to the trivial tool")
    for name, seconds in calls.items():
        p50, p95 = _milliseconds(seconds)
        table.add_row(name, f"{p50:.2f}", f"{p95:.2f}", f"{p50 / floor:.2f}x")
    console.print(table)
    whole, _ = _milliseconds(calls["search, new query"])
    table = Table("governance and audit", "measured", "")
    table.add_row(
        "event of a search, p50", f"{trail.event * 1000:.2f} ms", f"{trail.event * 1000 / whole:.0%} of a call"
    )
    table.add_row("search in process with it, p50", f"{trail.search * 1000:.2f} ms", f"{trail.share:.0%} is the event")
    table.add_row("verification", f"{trail.verified_each_second:,.0f} events/s", "")
    console.print(table)


def main() -> None:
    """Measure everything once."""
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "phases") as postgres:
            phases = asyncio.run(measure_phases(postgres))
            trail = asyncio.run(measure_audit(postgres))
        with server(Path(directory) / "calls") as url:
            calls = measure_calls(url)
    report(phases=phases, calls=calls, trail=trail)


if __name__ == "__main__":
    main()
