"""How long the tools of the catalog take beside a search, as people and agents call them over REST.

The server and PostgreSQL are processes of their own. Everything is asked in turns, so that noise hits all alike; each
answer is of another workflow or word, so that none is remembered.
"""

import argparse
import json
import tempfile
import time
from asyncio import run
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import httpx2
from rich.console import Console
from rich.table import Table

from bench_console import Times
from bench_mcp import server
from catalogs import LARGEST, Catalog, Planned
from formulary_catalog.embedding import load_embedder
from goals import Goal, goals_table
from scale_database import bench_postgres, catalog_database

GOAL = 2.0
"""Times a search."""
SEARCH, LABELLED = "search", "search with labels"
_WARM_UP = 3
_STRIDE = 7
Ask = Callable[[httpx2.Client], httpx2.Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run, by the tool that the endpoint belongs to."""

    workflows: int
    tools: dict[str, Times]

    def goals(self) -> list[Goal]:
        """What was to be reached: beside the search that ranks the same rows."""
        search = self.tools[LABELLED].p50
        return [
            Goal(what=f"{name} to {LABELLED}, p50", measured=each.p50 / search, limit=GOAL)
            for name, each in self.tools.items()
            if name not in (SEARCH, LABELLED)
        ]


def _asks(workflows: Iterator[Planned]) -> dict[str, Ask]:
    def get(path: str, **parameters: str) -> Ask:
        return lambda client: client.get(f"/api/v1/{path}", params=parameters)

    def of_next(path: str) -> Ask:
        return lambda client: client.get(path.format(_name(next(workflows))))

    def search(**labels: str) -> Ask:
        body = {"query": "OOMKilled critical", **{f"label.{name}": value for name, value in labels.items()}}
        return lambda client: client.post("/api/v1/workflows/search", json=body)

    return {
        SEARCH: search(),
        LABELLED: search(environment="production"),
        "list_workflows": get("workflows", limit="20"),
        "list_workflows, filtered": get("workflows", signal_type="OOMKilled", status="Active", limit="20"),
        "facets": get("facets"),
        "get_workflow_details": of_next("/api/v1/workflows/{}"),
        "related_workflows": of_next("/api/v1/workflows/{}/related"),
        "workflow_impact": of_next("/api/v1/workflows/{}/impact"),
        "find_workflow": lambda client: client.get(
            "/api/v1/names", params={"name": next(workflows).documents[-1]["metadata"]["name"][:12]}
        ),
        "find_workflow, nothing has the name": get("names", name="qzxw-unheard-of"),
        "catalog_stats": get("stats"),
    }


def _name(workflow: Planned) -> str:
    return f"{workflow.namespace}/{workflow.documents[-1]['metadata']['name']}"


def measure(url: str, *, catalog: Catalog, rounds: int) -> Measured:
    """Everything once."""
    largest = [each for each in catalog.workflows() if each.namespace == LARGEST][::_STRIDE]
    asks = _asks(cycle(largest))
    seconds: dict[str, list[float]] = {name: [] for name in asks}
    with httpx2.Client(base_url=url, timeout=60) as client:
        for number in range(_WARM_UP + rounds):
            for name, ask in asks.items():
                started = time.perf_counter()
                ask(client).raise_for_status()
                if number >= _WARM_UP:
                    seconds[name].append(time.perf_counter() - started)
    return Measured(workflows=catalog.size, tools={name: Times.of(each) for name, each in seconds.items()})


def report(measured: Measured) -> None:
    """Print the tables."""
    console = Console(width=100)
    table = Table(f"{measured.workflows:,} workflows", "p50 ms", "p95 ms")
    for name, each in measured.tools.items():
        table.add_row(name, f"{each.p50:.1f}", f"{each.p95:.1f}")
    console.print(table)
    console.print(goals_table(measured.goals(), title="goals"))


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--workflows", type=int, default=100_000, help="size of the catalog (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=40, help="times that each is asked (default: %(default)s)")
    given = parser.parse_args()
    catalog = Catalog(given.workflows)
    with tempfile.TemporaryDirectory(prefix="formulary-tools-") as directory:
        with bench_postgres(Path(directory)) as postgres:
            dsn = run(catalog_database(postgres, catalog=catalog, embedder=load_embedder()))
            with server(dsn) as (url, _):
                measured = measure(url, catalog=catalog, rounds=given.rounds)
    report(measured)
    if given.json is not None:
        numbers = asdict(measured) | {"goals": [asdict(goal) for goal in measured.goals()]}
        given.json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
