"""What searches lose beside clients that run heavy statements over `insight`, all of them on one machine.

Clients, server and PostgreSQL are processes of their own, and compete for the same processors: the worst case. Searches
alone and searches beside that load take turns, so that noise hits both alike.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench_mcp import INCIDENT, NEW_QUERY, QUERY, SEARCH, Make, seconds_of, subject
from goals import Goal, goals_table
from mcp_sessions import KeptConnection
from quantiles import milliseconds

GOAL = 1.1
_FILLED = 500
_BLOCK = 60
_WARM_UP = 1.0
ALONE, BESIDE = "alone", "beside the load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Times of one kind of search in milliseconds, alone or beside the load."""

    query: str
    load: str
    p50: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run. `statements` of the load were answered, ended for what they took, or sent away because others ran."""

    clients: int
    searches: tuple[Measured, ...]
    statements: dict[str, int]

    def goals(self) -> list[Goal]:
        """How much longer a search may take at the 95th percentile."""
        p95 = {(each.query, each.load): each.p95 for each in self.searches}
        return [
            Goal(
                what=f"p95 of a search, {query}: {BESIDE} to {ALONE}",
                measured=p95[query, BESIDE] / p95[query, ALONE],
                limit=GOAL,
            )
            for query, load in p95
            if load == ALONE
        ]


def queries() -> dict[str, Make]:
    """The kinds of searches by name: one that the server remembers, and one that it has to embed."""
    numbers = count()
    return {
        "repeated query": lambda: (SEARCH, {"query": QUERY}),
        "new query": lambda: (SEARCH, {"query": NEW_QUERY.format(f"h{next(numbers)}")}),
    }


def measure(*, clients: int, rounds: int) -> Result:
    """Everything once."""
    kinds = queries()
    times: dict[tuple[str, str], list[float]] = {(kind, load): [] for kind in kinds for load in (ALONE, BESIDE)}
    statements: Counter[str] = Counter()
    with subject() as running:
        client = KeptConnection(running.url, headers=INCIDENT)
        for _ in range(_FILLED):  # statements have something to read
            seconds_of(client, kinds["new query"]())
        seconds_of(client, ("execute_query", {"sql": "select 1"}))  # the server imports the parser, once
        for _ in range(rounds):
            _block(client, kinds, times, load=ALONE)
            with _load(running.url, clients=clients, statements=statements):
                _block(client, kinds, times, load=BESIDE)
    measured = []
    for (kind, load), seconds in times.items():
        p50, p95 = milliseconds(seconds)
        measured.append(Measured(query=kind, load=load, p50=p50, p95=p95))
    return Result(clients=clients, searches=tuple(measured), statements=dict(statements))


def _block(
    client: KeptConnection, kinds: dict[str, Make], times: dict[tuple[str, str], list[float]], *, load: str
) -> None:
    for _ in range(_BLOCK):
        for kind, make in kinds.items():
            times[kind, load].append(seconds_of(client, make()))


@contextmanager
def _load(url: str, *, clients: int, statements: Counter[str]) -> Iterator[None]:
    script = Path(__file__).with_name("heavy_clients.py")
    with subprocess.Popen(
        [sys.executable, script, url, str(clients)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        time.sleep(_WARM_UP)
        yield
        said, _ = process.communicate()
    statements.update(json.loads(said))


def report(result: Result) -> None:
    """Print the tables."""
    console = Console(width=120)
    table = Table("search over MCP", "", "p50 ms", "p95 ms")
    for each in result.searches:
        table.add_row(each.query, each.load, f"{each.p50:.2f}", f"{each.p95:.2f}")
    console.print(table)
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in result.statements.items())
    console.print(f"Statements of {result.clients} clients: {outcomes}.")
    console.print(goals_table(result.goals(), title="goal"))


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--clients", type=int, default=4, help="clients with heavy statements (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="turns of both (default: %(default)s)")
    options = parser.parse_args()
    result = measure(clients=options.clients, rounds=options.rounds)
    report(result)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
