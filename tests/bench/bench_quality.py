"""`make bench-quality`: how well searches find the judged answers, next to simple rankings in the same run.

Real database, real model, the whole public service. Every system ranks the same candidates: those that the labels of
the incident allow.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
from quality_baselines import Baselines
from quality_judgements import (
    Judgement,
    allowed_names,
    context_of,
    plan_of,
    ranked_words,
    read_entries,
    read_judgements,
    request_of,
    signal_types,
)
from quality_report import report, report_misses
from quality_summary import OURS, Answered, summarise

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers import SearchAnswer
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.contexts import ContextWriter
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.embedded import EmbeddedPostgres
from support.databases import migrated_database
from support.serving import load

MANIFESTS = Path(__file__).parents[2] / "catalog" / "workflows"
QUERIES = Path(__file__).parent / "judgements"
_CALLER = Caller(name="bench", access=EVERYTHING)


async def measure(
    judgements: Sequence[Judgement], *, manifests: Path, embedder: Embedder, postgres: EmbeddedPostgres
) -> list[Answered]:
    """Ask every system every query."""
    entries = read_entries(manifests)
    async with migrated_database(postgres) as dsn:
        await load([manifests], dsn=dsn, embedder=embedder)
        await _save_incidents(judgements, dsn=dsn)
        service = await CatalogService.create(
            dsn=dsn, settings=Settings(), policy=ContextPolicy.OPTIONAL, metrics=Metrics(), embedder=embedder
        )
        connection = await asyncpg.connect(dsn)
        try:
            baselines = await Baselines.of(entries, embedder=embedder, connection=connection)
            asking = _Asking(service=service, baselines=baselines, entries=entries)
            return [await asking.ask(judgement) for judgement in judgements]
        finally:
            await connection.close()
            await service.close()


class _Asking:
    def __init__(self, *, service: CatalogService, baselines: Baselines, entries: Sequence[CatalogEntry]) -> None:
        self._service = service
        self._baselines = baselines
        self._entries = entries
        self._signals = signal_types(entries)

    async def ask(self, judgement: Judgement) -> Answered:
        """Ask every system one query."""
        plan = plan_of(judgement, signals=self._signals)
        candidates = allowed_names(plan, self._entries)
        answer = await self._service.search(request_of(judgement), caller=_CALLER)
        if answer.total_results != len(candidates):
            raise SystemExit(f"{judgement.id}: the search allows {answer.total_results}, the rules {len(candidates)}")
        baselines = await self._baselines.rank(ranked_words(judgement, plan=plan), among=candidates)
        return Answered(
            judgement=judgement,
            rankings={OURS: _names(answer), **baselines},
            confidences=[hit.confidence for hit in answer.workflows],
            mode=answer.search_mode,
            allowed=len(candidates),
            notes=answer.notes,
        )


def _names(answer: SearchAnswer) -> list[str]:
    """Without the namespace that stands before an ambiguous name."""
    return [hit.workflow_id.rpartition("/")[2] for hit in answer.workflows]


async def _save_incidents(judgements: Sequence[Judgement], *, dsn: str) -> None:
    database = await Database.open(dsn, role=Role.WRITER, deadline=30)
    try:
        for judgement in judgements:
            if (context := context_of(judgement)) is not None:
                await ContextWriter(database).save(context)
    finally:
        await database.close()


def as_json(answered: Answered) -> dict[str, Any]:
    """One query with everything that was answered, for scripts that look further."""
    return {
        **answered.judgement.model_dump(mode="json"),
        "allowed": answered.allowed,
        "mode": answered.mode,
        "notes": list(answered.notes),
        "rankings": {system: list(names) for system, names in answered.rankings.items()},
        "confidences": [{"confidence": given, "right": right} for given, right in answered.judged_confidences],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("held", "tune", "all"), default="held", help="which queries")
    parser.add_argument("--manifests", type=Path, default=MANIFESTS, help="directory of workflows")
    parser.add_argument("--queries", type=Path, default=QUERIES, help="file or directory of judged queries")
    parser.add_argument("--json", type=Path, help="write all numbers and all answers there")
    parser.add_argument("--misses", action="store_true", help="print the queries that ours does not answer first")
    return parser.parse_args()


def main() -> None:
    """Measure once and print."""
    arguments = _arguments()
    judgements = [each for each in read_judgements(arguments.queries) if arguments.part in ("all", each.part)]
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "quality") as postgres:
            answers = asyncio.run(
                measure(judgements, manifests=arguments.manifests, embedder=load_embedder(), postgres=postgres)
            )
    summary = summarise(answers)
    report(summary, title=f"{len(answers)} queries, part: {arguments.part}")
    if arguments.misses:
        report_misses(answers)
    if arguments.json:
        numbers = {"part": arguments.part, **summary.as_json(), "queries": [as_json(each) for each in answers]}
        arguments.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
