"""How a search grows with the catalog, next to numpy over the same rows and to the shortest round trip there is.

Everything about one size is measured in turns within one run, so that noise hits all alike: compare the ratios. The
searches run as the server's role under row-level security, on one connection.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from catalogs import Catalog
from floor import Floor, Nearest
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.statement import Candidates
from one_thread import on_one_thread
from quantiles import milliseconds
from scale_database import bench_postgres, catalog_database
from scale_report import ClassResult, Times, goals, report, report_all
from scale_subject import WAYS, Asked, Subject, nearest_of, prepared
from workload import SCALE_CLASSES, QueryClass, questions

SIZES = (1_000, 10_000, 100_000)
QUESTIONS, ROUNDS, WARM_UP = 40, 5, 1
_WIDE = 5_000
"""Where a question allows more rows than this, a quarter of the questions is enough."""
_DEADLINE = 60.0


async def measure(
    postgres: EmbeddedPostgres, *, size: int, embedder: Embedder, count: int, rounds: int
) -> list[ClassResult]:
    """All classes of questions to a catalog of this size."""
    catalog = Catalog(size)
    dsn = await catalog_database(postgres, catalog=catalog, embedder=embedder)
    floor = await Floor.of(dsn)
    async with Database.opened(dsn, role=Role.SERVER, size=1, deadline=_DEADLINE) as database:
        process = await database.read(lambda connection: connection.fetchval("select pg_backend_pid()"))
        results = []
        for wanted in SCALE_CLASSES:
            subject = Subject(database, floor=floor, process=process)
            asked = prepared(questions(catalog, wanted, count=count), embedder=embedder)
            results.append(await _measure_class(subject, wanted, asked=asked, rounds=rounds))
        return results


async def _measure_class(subject: Subject, wanted: QueryClass, *, asked: Sequence[Asked], rounds: int) -> ClassResult:
    exact = [subject.exact(each) for each in asked]
    if statistics.median(each.total for each in exact) > _WIDE:
        asked = asked[: max(1, len(asked) // 4)]
    recalls, losses = [], []
    for each, right in zip(asked, exact, strict=False):
        found = await subject.candidates(each)
        if found.total != right.total:
            raise SystemExit(f"{wanted.name}: {found.total} allowed, numpy finds {right.total}: {each.question}")
        recalls.append(_recall(nearest_of(found), right=right))
        losses.append(_lost(found, right=right))
    for _ in range(WARM_UP):
        for each in asked:
            await subject.ask(each)
    subject.seconds.clear()
    subject.processor.clear()
    for _ in range(rounds):
        for each in asked:
            await subject.ask(each)
    return ClassResult(
        name=wanted.name,
        candidates=statistics.median(each.total for each in exact),
        recall=statistics.mean(recalls),
        lost=statistics.mean(losses),
        times={way: _times(subject.seconds[way], processor=subject.processor[way]) for way in WAYS},
    )


def _recall(found: Sequence[str], *, right: Nearest) -> float:
    return len(set(found) & set(right.version_ids)) / len(right.version_ids) if right.version_ids else 1.0


def _lost(found: Candidates, *, right: Nearest) -> float:
    cosines = {each.version_id: each.cosine or 0.0 for each in found.evidence}
    return (sum(right.cosines) - sum(cosines[each] for each in nearest_of(found))) / max(1, len(right.cosines))


def _times(seconds: Sequence[float], *, processor: Sequence[float]) -> Times:
    p50, p95 = milliseconds(seconds)
    return Times(p50=p50, p95=p95, processor=statistics.median(processor) * 1000 if processor else None)


async def run(*, directory: Path, sizes: Sequence[int], count: int, rounds: int) -> dict[int, list[ClassResult]]:
    """Measure each size."""
    embedder = load_embedder()
    results = {}
    with bench_postgres(directory) as postgres:
        for size in sizes:
            results[size] = await measure(postgres, size=size, embedder=embedder, count=count, rounds=rounds)
            report(size, results[size])
    return results


def main() -> None:
    """Measure, print, and write a file if one is wanted."""
    on_one_thread()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of workflows, with commas")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="questions of each class")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="times that each question is asked")
    parser.add_argument("--data-dir", type=Path, help="keep the databases here, and use those that are there")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="formulary-scale-") as temporary:
        directory = given.data_dir or Path(temporary)
        results = asyncio.run(run(directory=directory, sizes=sizes, count=given.questions, rounds=given.rounds))
    report_all(results)
    if given.json:
        measured = {str(size): [asdict(each) for each in classes] for size, classes in results.items()}
        given.json.write_text(
            json.dumps({"sizes": measured, "goals": [asdict(goal) for goal in goals(results)]}, indent=1)
        )


if __name__ == "__main__":
    main()
