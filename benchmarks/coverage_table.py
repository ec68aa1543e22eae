"""Writes docs/coverage-kube-prometheus.md: what the starter catalog has for each alert of kube-prometheus.

    make coverage-table

The alerts are in benchmarks/rules/kube-prometheus.yaml. The states are those of `formulary coverage`.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.coverage.alerts import portions
from formulary_catalog.domain.coverage.answers import CoverageAnswer
from formulary_catalog.domain.coverage.states import SEVEREST_FIRST, in_words, joined
from formulary_catalog.embedding import load_embedder
from formulary_catalog.loading.rule_files import alerts_in_files
from formulary_catalog.services.workflows.coverage import Coverage
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.databases import migrated_database
from support.filling import fill, starter_documents
from support.services import open_parts

ROOT = Path(__file__).parents[1]
RULES = ROOT / "benchmarks" / "rules" / "kube-prometheus.yaml"
PAGE = ROOT / "docs" / "coverage-kube-prometheus.md"
_HEAD = """# Coverage of kube-prometheus

What the starter catalog has for each alert of [kube-prometheus](https://github.com/prometheus-operator/kube-prometheus).
`make coverage-table` writes this page; [coverage.md](coverage.md) says what the states mean.
"""


async def compare(postgres: EmbeddedPostgres) -> CoverageAnswer:
    """The answer of `formulary coverage --from` over the starter catalog."""
    embedder = load_embedder()
    async with (
        migrated_database(postgres) as dsn,
        Database.opened(dsn, role=Role.WRITER, size=2, deadline=60) as writing,
        open_parts(dsn, embedder=embedder) as parts,
    ):
        await fill(CatalogWriter(writing), starter_documents(ROOT / "catalog" / "workflows"), embedder=embedder)
        coverage = Coverage(parts, strict_keys=frozenset())
        caller = Caller(name="table", access=EVERYTHING)
        return joined(
            [await coverage.of_alerts(some, caller=caller) for some in portions(alerts_in_files(RULES).alerts)]
        )


def page(answer: CoverageAnswer) -> Iterator[str]:
    """The lines of the page."""
    totals = ", ".join(f"{getattr(answer.totals, state)} {in_words(state)}" for state in reversed(SEVEREST_FIRST))
    yield _HEAD
    yield f"Of {answer.totals.number} alerts: {totals}.\n"
    yield "| alert | state | remedy | confidence | why not covered |"
    yield "|---|---|---|---|---|"
    for each in sorted(answer.signals, key=lambda each: each.name.casefold()):
        confidence = "" if each.confidence is None else f"{each.confidence:.2f}"
        yield f"| {each.name} | {in_words(each.state)} | {each.workflow_id} | {confidence} | {each.reason} |"


def main() -> None:
    """Compare once and write the page."""
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "coverage") as postgres:
            answer = asyncio.run(compare(postgres))
    PAGE.write_text("\n".join([*page(answer), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
