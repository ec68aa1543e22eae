"""`make bench-quality`: how well searches find the judged answers, next to simple rankings in the same run.

Real database, real model, the whole public service. Every system ranks the same candidates: those that the constraints
allow. Each query is asked plain, filtered by its labels, under an incident, and with every right answer excluded.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import yaml

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.kernel.search.planning import plan_search
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from quality_baselines import Baselines
from quality_incidents import Cell, cell, grid, manifests_of_teams
from quality_judgements import (
    STARTER,
    JudgedCatalog,
    Judgement,
    allowed_names,
    ranked_words,
    read_entries,
    read_judgements,
)
from quality_report import report, report_incidents, report_misses
from quality_summary import OURS, Answered, summarise
from quality_variants import Ask, Variant, asks, with_owners
from support.databases import migrated_database
from support.services import open_parts, service_on
from support.serving import load

_WITHOUT_TEAM = (Variant.PLAIN, Variant.FILTERED, Variant.EXCLUDED)
_CALLER = Caller(name="bench", access=EVERYTHING)


async def measure(
    judgements: Sequence[Judgement],
    *,
    manifests: Path,
    embedder: Embedder,
    postgres: EmbeddedPostgres,
    under: Collection[Variant] = tuple(Variant),
) -> list[Answered]:
    """Ask every system every query under these constraints; under an incident, half of the workflows are its team's."""
    with tempfile.TemporaryDirectory(prefix="formulary-team-") as directory:
        owned = Path(directory) / "owned.yaml"
        owned.write_text(yaml.safe_dump_all(with_owners(read_entries(manifests))), encoding="utf-8")
        answers = []
        for root, variants in ((manifests, _WITHOUT_TEAM), (owned, (Variant.INCIDENT,))):
            asked = [
                asks(judgement, variant)
                for variant in variants
                if variant in under
                for judgement in judgements
                if judgement.has_answer or variant is not Variant.EXCLUDED
            ]
            if asked:
                answers += await _measure(asked, manifests=root, embedder=embedder, postgres=postgres)
        return answers


async def _measure(
    asked: Sequence[Ask], *, manifests: Path, embedder: Embedder, postgres: EmbeddedPostgres
) -> list[Answered]:
    entries = read_entries(manifests)
    async with _served([manifests], asked=asked, embedder=embedder, postgres=postgres) as (service, dsn):
        connection = await asyncpg.connect(dsn)
        try:
            baselines = await Baselines.of(entries, embedder=embedder, connection=connection)
            asking = _Asking(service=service, baselines=baselines, entries=entries)
            return [await asking.ask(each) for each in asked]
        finally:
            await connection.close()


async def measure_incidents(
    cells: Iterable[tuple[int, int, Sequence[Ask]]], *, manifests: Path, embedder: Embedder, postgres: EmbeddedPostgres
) -> list[Cell]:
    """Ask ours under generated incidents, in a catalog that holds unrelated workflows of their teams too."""
    with tempfile.TemporaryDirectory(prefix="formulary-teams-") as directory:
        teams = Path(directory) / "teams.yaml"
        teams.write_text(yaml.safe_dump_all(manifests_of_teams()), encoding="utf-8")
        service_of = _served([manifests, teams], asked=[], embedder=embedder, postgres=postgres)
        async with service_of as (service, dsn):
            return [
                cell(labels, owned, await _answers(each, service=service, dsn=dsn)) for labels, owned, each in cells
            ]


async def _answers(
    asked: Sequence[Ask], *, service: CatalogService, dsn: str
) -> list[tuple[Judgement, list[tuple[str, float]]]]:
    await _save_incidents(asked, dsn=dsn)
    answers = [await service.search(each.request, caller=_CALLER) for each in asked]
    return [
        (each.judgement, [*zip(_names(answer), (hit.confidence for hit in answer.workflows), strict=True)])
        for each, answer in zip(asked, answers, strict=True)
    ]


@asynccontextmanager
async def _served(
    roots: Sequence[Path], *, asked: Sequence[Ask], embedder: Embedder, postgres: EmbeddedPostgres
) -> AsyncIterator[tuple[CatalogService, str]]:
    """The read side of a database with these manifests and incidents, and its DSN."""
    async with migrated_database(postgres) as dsn:
        await load(roots, dsn=dsn, embedder=embedder)
        await _save_incidents(asked, dsn=dsn)
        async with open_parts(dsn, embedder=embedder) as parts:
            yield service_on(parts), dsn


class _Asking:
    def __init__(self, *, service: CatalogService, baselines: Baselines, entries: Sequence[CatalogEntry]) -> None:
        self._service = service
        self._baselines = baselines
        self._entries = entries

    async def ask(self, each: Ask) -> Answered:
        """Ask every system one query."""
        plan = plan_search(each.request, context=each.context, strict_keys=frozenset())
        candidates = allowed_names(plan, self._entries)
        answer = await self._service.search(each.request, caller=_CALLER)
        if answer.total_results != len(candidates):
            raise SystemExit(
                f"{each.judgement.id}: the search allows {answer.total_results}, the rules {len(candidates)}"
            )
        by_default = await self._service.search(replace(each.request, top_k=None), caller=_CALLER)
        baselines = await self._baselines.rank(ranked_words(each.judgement, plan=plan), among=candidates)
        return Answered(
            judgement=each.judgement,
            variant=each.variant,
            rankings={OURS: _names(answer), **baselines},
            confidences=[hit.confidence for hit in answer.workflows],
            mode=answer.search_mode,
            allowed=len(candidates),
            notes=answer.notes,
            by_default=_names(by_default),
            caution=answer.workflows[0].caution if answer.workflows else "",
        )


def _names(answer: SearchAnswer) -> list[str]:
    """Without the namespace that an ambiguous name begins with."""
    return [hit.workflow_id.rpartition("/")[2] for hit in answer.workflows]


async def _save_incidents(asked: Iterable[Ask], *, dsn: str) -> None:
    database = await Database.open(dsn, role=Role.WRITER, deadline=30)
    try:
        for each in asked:
            if each.context is not None:
                await ContextWriter(database).save(each.context)
    finally:
        await database.close()


def as_json(answered: Answered) -> dict[str, Any]:
    """One query with everything that was answered, for scripts that look further."""
    return {
        **answered.judgement.model_dump(mode="json"),
        "variant": answered.variant,
        "allowed": answered.allowed,
        "mode": answered.mode,
        "notes": list(answered.notes),
        "by_default": list(answered.by_default),
        "caution": answered.caution,
        "rankings": {system: list(names) for system, names in answered.rankings.items()},
        "confidences": [{"confidence": given, "right": right} for given, right in answered.judged_confidences],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("held", "tune", "all"), default="held", help="which queries")
    parser.add_argument("--manifests", type=Path, default=STARTER.workflows, help="directory of workflows")
    parser.add_argument("--queries", type=Path, default=STARTER.judgements, help="file or directory of judged queries")
    parser.add_argument("--json", type=Path, help="write all numbers and all answers there")
    parser.add_argument("--misses", action="store_true", help="print the queries that ours does not answer first")
    return parser.parse_args()


def main() -> None:
    """Measure once and print."""
    given = _arguments()
    catalog = JudgedCatalog(given.manifests, given.queries)
    judgements = [each for each in read_judgements(catalog.judgements) if given.part in ("all", each.part)]
    embedder = load_embedder()
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "quality") as postgres:
            manifests = catalog.workflows
            answers = asyncio.run(measure(judgements, manifests=manifests, embedder=embedder, postgres=postgres))
            cells = asyncio.run(
                measure_incidents(grid(judgements), manifests=manifests, embedder=embedder, postgres=postgres)
            )
    summary = summarise(answers)
    report(summary, title=f"{len(judgements)} queries, part: {given.part}")
    report_incidents(cells)
    if given.misses:
        report_misses(answers)
    if given.json:
        numbers = {
            "part": given.part,
            **summary.as_json(),
            "incidents": [each.as_json() for each in cells],
            "queries": [as_json(each) for each in answers],
        }
        given.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
