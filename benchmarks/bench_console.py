"""How long each page of the console takes with a large catalog and a long trail, and what searches feel of it.

The server and PostgreSQL are processes of their own. Pages are loaded in turns; then one is loaded each second, as by
people who look around, while a client searches all the time.
"""

import argparse
import json
import tempfile
import threading
import time
from asyncio import run
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import httpx2
from rich.console import Console
from rich.table import Table

from bench_mcp import server
from catalogs import Catalog
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from goals import Goal, goals_table
from quantiles import milliseconds
from scale_database import bench_postgres, catalog_database
from trail_history import EVENTS, LONG, History, write_history

WORKFLOWS = 10_000
PAGES = {
    "overview": "/console/overview",
    "waiting": "/console/waiting",
    "incidents": "/console/incidents",
    "incidents, failed": "/console/incidents?outcome=failed",
    "incidents, without a run": "/console/incidents?outcome=none",
    "incidents of a namespace": "/console/incidents?namespace=team-003",
    "incident": "/console/incidents/rr-bench-7",
    "incident, 3,000 events": f"/console/incidents/{LONG}",
    "search": "/console/search?query=OOMKilled%20critical",
    "catalog": "/console/catalog",
    "coverage": "/console/coverage",
    "rules": "/console/rules",
    "health": "/console/health",
}
"""Every page that is measured, by what it is called in the table; one that the server does not have is left out."""
SEARCH = ("/api/v1/workflows/search", {"query": "OOMKilled critical checkout", "label.environment": "production"})
PAGE_GOAL, BESIDE_GOAL = 150.0, 1.1
_WARM_UP = 5
_BETWEEN_PAGES = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Milliseconds."""

    p50: float
    p95: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Times":
        return cls(**dict(zip(("p50", "p95"), milliseconds(seconds), strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run."""

    history: History
    pages: dict[str, Times]
    search_alone: Times
    search_beside: Times

    def goals(self) -> list[Goal]:
        """What was to be reached."""
        pages = [
            Goal(what=f"{name}, p95", measured=each.p95, limit=PAGE_GOAL, unit=" ms")
            for name, each in self.pages.items()
        ]
        beside = self.search_beside.p50 / self.search_alone.p50
        return [*pages, Goal(what="search beside pages to search alone, p50", measured=beside, limit=BESIDE_GOAL)]


def measure(url: str, *, history: History, rounds: int, seconds: float) -> Measured:
    """Everything once."""
    with httpx2.Client(base_url=url, timeout=60) as client:
        pages = {name: path for name, path in PAGES.items() if client.get(path).status_code == 200}
        for _ in range(_WARM_UP):
            for path in pages.values():
                client.get(path).raise_for_status()
        times: dict[str, list[float]] = {name: [] for name in pages}
        for _ in range(rounds):
            for name, path in pages.items():
                times[name].append(_seconds(client, "GET", path))
    _searches(url, seconds=2)
    alone, beside = [], []
    for _ in range(4):  # in turns, so that noise hits both alike
        alone += _searches(url, seconds=seconds / 4)
        with _looking_around(url, pages=pages):
            beside += _searches(url, seconds=seconds / 4)
    return Measured(
        history=history,
        pages={name: Times.of(each) for name, each in times.items()},
        search_alone=Times.of(alone),
        search_beside=Times.of(beside),
    )


def _seconds(client: httpx2.Client, method: str, path: str, *, body: Mapping[str, str] | None = None) -> float:
    started = time.perf_counter()
    client.request(method, path, json=body).raise_for_status()
    return time.perf_counter() - started


def _searches(url: str, *, seconds: float) -> list[float]:
    path, body = SEARCH
    times = []
    with httpx2.Client(base_url=url, timeout=60) as client:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            times.append(_seconds(client, "POST", path, body=body))
    return times


@contextmanager
def _looking_around(url: str, *, pages: Mapping[str, str]) -> Iterator[None]:
    """Somebody who loads a page each second, one after the other, meanwhile."""
    over = threading.Event()

    def look() -> None:
        with httpx2.Client(base_url=url, timeout=60) as client:
            for path in cycle(pages.values()):
                client.get(path)
                if over.wait(_BETWEEN_PAGES):
                    return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


async def _filled(
    postgres: EmbeddedPostgres, *, embedder: Embedder, workflows: int, events: int
) -> tuple[str, History]:
    dsn = await catalog_database(postgres, catalog=Catalog(workflows), embedder=embedder)
    return dsn, await write_history(dsn, events=events)


def report(measured: Measured, *, workflows: int) -> None:
    """Print the tables."""
    console = Console(width=100)
    title = f"{workflows:,} workflows, {measured.history.events:,} events"
    table = Table(title, "p50 ms", "p95 ms")
    rows = {**measured.pages, "search alone": measured.search_alone, "search beside pages": measured.search_beside}
    for name, each in rows.items():
        table.add_row(name, f"{each.p50:.1f}", f"{each.p95:.1f}")
    console.print(table)
    console.print(goals_table(measured.goals(), title="goals"))


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--workflows", type=int, default=WORKFLOWS, help="size of the catalog (default: %(default)s)")
    parser.add_argument("--events", type=int, default=EVENTS, help="events of the trail (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=60, help="times that each page is loaded (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=20, help="of searches alone, and beside (default: %(default)s)"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="formulary-console-") as directory:
        with bench_postgres(Path(directory)) as postgres:
            filled = _filled(postgres, embedder=load_embedder(), workflows=given.workflows, events=given.events)
            dsn, history = run(filled)
            with server(dsn) as (url, _):
                measured = measure(url, history=history, rounds=given.rounds, seconds=given.seconds)
    report(measured, workflows=given.workflows)
    if given.json is not None:
        numbers = asdict(measured) | {"goals": [asdict(goal) for goal in measured.goals()]}
        given.json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
