"""`make bench`: where the time of a search goes in process, and what the audit trail and a target take of it.

Times depend on the machine and on what else runs there; the ratios are taken within one run and are what to compare.
"""

import argparse
import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench_trail import TrailCosts, measure_trail
from context_costs import ContextCosts, measure_contexts
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.embedding import load_embedder
from formulary_catalog.metrics import Metrics
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from goals import Goal, goals_table
from quantiles import milliseconds
from support.databases import migrated_database
from support.services import service_on
from support.serving import catalog, load

WORKFLOWS = Path(__file__).parents[1] / "catalog" / "workflows"
ROUNDS = 300
WARM_UP = 30
QUERY = "OOMKilled critical"
MOST_OF_TARGET_MS = 1.0
PHASES = ("context", "embed", "sql", "total")


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
        async with catalog([WORKFLOWS], postgres=postgres, embedder=embedder, metrics=metrics) as parts:
            service = service_on(parts)
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


async def measure_targets(postgres: EmbeddedPostgres) -> ContextCosts:
    """What a search takes with an incident, and with a target whose labels are kept."""
    return await measure_contexts(
        WORKFLOWS, postgres=postgres, embedder=load_embedder(), rounds=ROUNDS, warm_up=WARM_UP
    )


async def _search(service: CatalogService, *, query: Callable[[], str], rounds: int) -> None:
    for _ in range(rounds):
        request = search_request(query=query(), labels={"environment": ["production"]})
        await service.search(request, caller=Caller(name="bench", access=EVERYTHING))


def _new_query() -> Callable[[], str]:
    numbers = count()
    return lambda: f"{QUERY} checkout pod {next(numbers)} exceeded its memory limit"


def report(*, phases: dict[str, dict[str, list[float]]], trail: TrailCosts, contexts: ContextCosts) -> None:
    """Print the tables."""
    console = Console(width=100)
    table = Table("search in process, starter catalog", "phase", "p50 ms", "p95 ms")
    for kind, by_phase in phases.items():
        for phase in PHASES:
            p50, p95 = milliseconds(by_phase[phase])
            table.add_row(kind, phase, f"{p50:.2f}", f"{p95:.2f}")
    console.print(table)
    table = Table("governance and audit", "measured", "")
    table.add_row("event of a search, p50", f"{trail.event * 1000:.2f} ms", "")
    table.add_row("search in process with it, p50", f"{trail.search * 1000:.2f} ms", f"{trail.share:.0%} is the event")
    table.add_row("verification", f"{trail.verified_each_second:,.0f} events/s", "")
    console.print(table)
    table = Table("search by what it names", "p50 ms", "ratio")
    table.add_row("incident", f"{contexts.incident * 1000:.2f}", "1.00")
    table.add_row("target whose labels are kept", f"{contexts.target * 1000:.2f}", f"{contexts.ratio:.2f}")
    console.print(table)
    more = Goal(what="target more than incident", measured=contexts.more * 1000, limit=MOST_OF_TARGET_MS, unit=" ms")
    console.print(goals_table([more], title="constraints of a search"))


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "phases") as postgres:
            phases = asyncio.run(measure_phases(postgres))
            trail = asyncio.run(measure_audit(postgres))
            contexts = asyncio.run(measure_targets(postgres))
    report(phases=phases, trail=trail, contexts=contexts)
    if options.json is not None:
        times = {
            kind: {phase: milliseconds(seconds) for phase, seconds in by_phase.items()}
            for kind, by_phase in phases.items()
        }
        measured = {"milliseconds": times, "trail": asdict(trail), "contexts": asdict(contexts)}
        options.json.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
