"""`make bench-peers`: other stores of vectors on the same rows, with the same filters and questions, in the same run.

Each question goes to ours and to every one of them in turn. Ours answers as the server does, under row-level security,
with the lexical half and the rows of its page; the others find ten numbers. All but Chroma, whose index is always
approximate, search exactly.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from catalogs import Catalog
from floor import Floor
from formulary_catalog.domain.workflows.labels import WILDCARD
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from one_thread import on_one_thread
from peers import Peers, peers
from quantiles import milliseconds
from scale_database import bench_postgres, catalog_database
from scale_subject import EXACT as EXACT_SEARCH
from scale_subject import SEARCH, Asked, Subject, nearest_of, prepared
from workload import CLASSES, questions

SIZES = (10_000, 100_000)
QUESTIONS, ROUNDS, WARM_UP = 15, 3, 1
OURS, OURS_SEMANTIC = "Formulary, whole search", "Formulary, vectors only"
EXACT = "numpy"
PEERS = (
    *("faiss with a mask", "SQLite, sqlite-vec function", "sqlite-vec vec0", "LanceDB", "Chroma"),
    "qdrant-client local",
)
MOST_ROWS = {"qdrant-client local": 20_000}
"""Where a store would take many minutes for more."""
IN_MEMORY = ("faiss with a mask",)
"""Keeps nothing and has no filter; ours is to be ahead of all others."""
CLASS_SECONDS = 30.0
"""Nobody is asked more questions of a class after having taken so long for them: it is compared over those it was."""
_FLAGS = ("severity", "environment", "priority")
_LEADING = "leading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One store and one class of questions: milliseconds, the share of the exact best ten found, answers counted.

    `ours` are the milliseconds, p50, of our whole search and of our search without words, for the same questions.
    """

    store: str
    question: str
    p50: float
    p95: float
    recall: float
    answers: int
    ours: dict[str, float]


@dataclass(slots=True)
class Tally:
    """What one store did for one class so far."""

    seconds: list[float]
    recalls: list[float]

    def measured(self, *, store: str, question: str, ours: Mapping[str, "Tally"]) -> Measured:
        """The sum of it; all are asked in the same order, so that who stopped early has answered the first ones."""
        p50, p95 = milliseconds(self.seconds)
        answers = len(self.seconds)
        return Measured(
            store=store,
            question=question,
            p50=p50,
            p95=p95,
            recall=statistics.mean(self.recalls),
            answers=answers,
            ours={name: statistics.median(tally.seconds[:answers]) * 1000 for name, tally in ours.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult:
    """Everything about one size; `built` are the seconds that filling each store took."""

    rows: int
    built: dict[str, float]
    measured: list[Measured]


async def measure(
    postgres: EmbeddedPostgres, *, size: int, embedder: Embedder, scratch: Path, count: int, rounds: int
) -> SizeResult:
    """Ours and all peers on a catalog of this size."""
    catalog = Catalog(size)
    dsn = await catalog_database(postgres, catalog=catalog, embedder=embedder)
    floor = await Floor.of(dsn)
    # Custom labels have values without end, which not every peer can filter by.
    asked = {
        wanted.name: prepared(questions(catalog, replace(wanted, custom=False), count=count), embedder=embedder)
        for wanted in CLASSES
    }
    file = scratch / "rows.npz"
    export(floor, [each for group in asked.values() for each in group], file=file)
    with peers(scratch) as stores:
        async with Database.opened(dsn, role=Role.SERVER, size=1, deadline=60) as database:
            built = _build(stores, file=file, rows=len(floor.ids))
            subject = Subject(database, floor=floor)
            measured: list[Measured] = []
            first = 0
            for name, group in asked.items():
                measured += await _ask_all(
                    subject, floor, stores, list(built), asked=group, first=first, question=name, rounds=rounds
                )
                first += len(group)
    return SizeResult(rows=len(floor.ids), built=built, measured=measured)


def export(floor: Floor, asked: Sequence[Asked], *, file: Path) -> None:
    """Write rows and questions as numbers. A label that takes several values becomes a flag for each of them."""
    flags = {_LEADING: floor.leading}
    for label in _FLAGS:
        for value in floor.bits[label]:
            if value != WILDCARD:
                allowing = floor.mask(label, [value, WILDCARD])
                flags[f"{label}_{value}"] = floor.labels[label] & allowing != 0
    np.savez(
        file,
        vectors=floor.vectors,
        tenant=floor.tenant,
        signal=floor.signal,
        flag_names=np.array(list(flags)),
        flags=np.stack(list(flags.values()), axis=1),
        questions=json.dumps([_as_numbers(floor, each) for each in asked]),
        asked=np.stack([each.vector for each in asked]),
    )


def _as_numbers(floor: Floor, asked: Asked) -> dict[str, object]:
    values = asked.question.constraints.values
    signals = (
        [floor.signals[signal] for signal in (*values["signal_type"], WILDCARD, "")] if "signal_type" in values else []
    )
    flags = [f"{label}_{value}" for label in _FLAGS for value in values.get(label, ())]
    return {
        "tenant": floor.tenants[asked.question.namespace],
        "signals": signals,
        "flags": flags if signals else [_LEADING, *flags],
    }


def _build(stores: Peers, *, file: Path, rows: int) -> dict[str, float]:
    stores.call(do="load", file=str(file))
    wanted = [EXACT, *(store for store in PEERS if rows <= MOST_ROWS.get(store, rows))]
    return {store: stores.call(do="build", engine=store) for store in wanted}


async def _ask_all(
    subject: Subject,
    floor: Floor,
    stores: Peers,
    engines: Sequence[str],
    *,
    asked: Sequence[Asked],
    first: int,
    question: str,
    rounds: int,
) -> list[Measured]:
    tallies: dict[str, Tally] = defaultdict(lambda: Tally([], []))
    for turn in range(WARM_UP + rounds):
        if turn == WARM_UP:
            tallies.clear()
        for number, each in enumerate(asked, start=first):
            subject.seconds.clear()
            await subject.ask(each, ways=(SEARCH, EXACT_SEARCH))
            right = subject.exact(each).version_ids
            recall = _share(nearest_of(await subject.candidates(each)), of=right)
            for store, way in ((OURS, SEARCH), (OURS_SEMANTIC, EXACT_SEARCH)):
                tallies[store].seconds += subject.seconds[way]
                tallies[store].recalls.append(recall)
            exact = stores.call(do="search", engine=EXACT, question=number)["found"]
            for store in engines:
                tally = tallies[store]
                if sum(tally.seconds) > CLASS_SECONDS:
                    continue
                answer = stores.call(do="search", engine=store, question=number)
                tally.seconds.append(answer["seconds"])
                tally.recalls.append(_share(answer["found"], of=exact))
            # Ours counts declared labels as well, so that this is 1 only where they are all alike.
            tallies[EXACT].recalls[-1] = _share([floor.ids[row] for row in exact], of=right)
    ours = {store: tallies[store] for store in (OURS, OURS_SEMANTIC)}
    return [tally.measured(store=store, question=question, ours=ours) for store, tally in tallies.items()]


def _share(found: Sequence[object], *, of: Sequence[object]) -> float:
    return len(set(found) & set(of)) / len(of)


def report(size: int, result: SizeResult) -> None:
    """Print p50, p95, recall where it is not whole, and in brackets how the median compares with our whole search."""
    console = Console(width=180)
    names = [wanted.name for wanted in CLASSES]
    found = {(each.store, each.question): each for each in result.measured}
    table = Table("store", *(f"{name}\np50/p95 ms" for name in names), "build s", title=f"{size:,} workflows")
    for store in dict.fromkeys(each.store for each in result.measured):
        cells = [_cell(found[store, name]) for name in names]
        built = result.built.get(store)
        table.add_row(store, *cells, "" if built is None else f"{built:.1f}")
    console.print(table)
    console.print("numpy and faiss keep their rows in memory only, and faiss leaves the filter to numpy.")
    console.print(
        "Recall: of numpy against ours, where declared labels count beside the cosine; of others against numpy."
    )
    for store in PEERS:
        if store not in result.built:
            console.print(f"{store}: not measured above {MOST_ROWS[store]:,} rows, it would take many minutes")
    asked = max(each.answers for each in result.measured)
    for each in result.measured:
        if each.answers < asked:
            console.print(f"{each.store}, {each.question}: stopped after {each.answers} answers, compared over those")
    console.print(verdicts(result))


def verdicts(result: SizeResult) -> Table:
    """Who comes nearest of those that persist and filter, and whether ours is ahead: whole, and without words."""
    title = f"Goal at {result.rows:,} rows: ahead of every store that persists and filters"
    table = Table("question", *(f"{name}: the nearest, how much slower" for name in (OURS, OURS_SEMANTIC)), title=title)
    for question in dict.fromkeys(each.question for each in result.measured):
        rivals = [
            each
            for each in result.measured
            if each.question == question and each.store in PEERS and each.store not in IN_MEMORY
        ]
        table.add_row(question, *(_verdict(rivals, ours=name) for name in (OURS, OURS_SEMANTIC)))
    return table


def _verdict(rivals: Sequence[Measured], *, ours: str) -> str:
    nearest = min(rivals, key=lambda each: each.p50 / each.ours[ours])
    slower = nearest.p50 / nearest.ours[ours]
    return f"{'met' if slower > 1 else 'MISSED'}: {nearest.store}, {slower:.2f}x"


def _cell(measured: Measured) -> str:
    recall = "" if measured.recall > 0.9995 else f" r{measured.recall:.2f}"
    return f"{measured.p50:.2f}/{measured.p95:.1f}{recall} ({measured.p50 / measured.ours[OURS]:.2f}x)"


async def run(
    *, directory: Path, scratch: Path, sizes: Sequence[int], count: int, rounds: int
) -> dict[int, SizeResult]:
    """Measure each size."""
    embedder = load_embedder()
    results = {}
    with bench_postgres(directory) as postgres:
        for size in sizes:
            with tempfile.TemporaryDirectory(dir=scratch) as place:
                results[size] = await measure(
                    postgres, size=size, embedder=embedder, scratch=Path(place), count=count, rounds=rounds
                )
            report(size, results[size])
    return results


def main() -> None:
    """Measure, print, and write a file if one is wanted."""
    on_one_thread()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of workflows, with commas")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="questions of each class")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="times that each question is asked")
    parser.add_argument("--data-dir", type=Path, help="keep our databases here, and use those that are there")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="formulary-peers-") as temporary:
        scratch = Path(temporary)
        directory = given.data_dir or scratch / "ours"
        scratch.chmod(0o711)  # the account that PostgreSQL has under root must reach its data
        results = asyncio.run(
            run(directory=directory, scratch=scratch, sizes=sizes, count=given.questions, rounds=given.rounds)
        )
    if given.json:
        measured = {str(size): asdict(result) for size, result in results.items()}
        given.json.write_text(json.dumps({"sizes": measured}, indent=1))


if __name__ == "__main__":
    main()
