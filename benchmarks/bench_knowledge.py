"""`make bench-quality`: how well searches of documents find judged runbooks, next to plain cosine and words alone.

Real database, real model, the whole public service. Plain cosine ranks the same documents by the same vectors.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.domain.knowledge.markdown import runbook_documents
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.loading.runbooks import RunbookLoader
from formulary_catalog.services.knowledge.service import KnowledgeService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.knowledge.runbooks import RunbookWriter
from knowledge_scale import WORKFLOWS, measure_scale
from quality_metrics import CUTOFF, Estimate, estimate, found, reciprocal_rank
from quantiles import milliseconds
from support.databases import migrated_database
from support.knowledge import embed_everything
from support.services import open_parts

HERE = Path(__file__).parent / "knowledge"
HYBRID, WORDS, COSINE = "hybrid", "words alone", "plain cosine"
_EVERY_ONE = 50
_CALLER = Caller(name="bench", access=EVERYTHING)
Rankings = Mapping[str, Sequence[Sequence[str]]]
"""By system, for each query the files in the order in which their first section was found."""


def read_queries(path: Path = HERE / "queries.yaml") -> list[tuple[str, list[str]]]:
    """The queries with the files that are right."""
    return [(each["query"], each["best"]) for each in yaml.safe_load(path.read_text(encoding="utf-8"))]


async def measure(
    queries: Sequence[str], *, runbooks: Path, embedder: Embedder, postgres: EmbeddedPostgres
) -> Rankings:
    """Ask every system every query."""
    async with migrated_database(postgres) as dsn, Database.opened(dsn, role=Role.WRITER, deadline=60) as writing:
        await RunbookLoader([runbooks], writer=RunbookWriter(writing), namespace="formulary").load()
        await embed_everything(writing, embedder)
        rankings = {}
        for system, model in ((HYBRID, embedder), (WORDS, None)):
            async with open_parts(dsn, embedder=model) as parts:
                rankings[system] = [await _asked(KnowledgeService(parts), query) for query in queries]
    return {**rankings, COSINE: _by_cosine(queries, runbooks=runbooks, embedder=embedder)}


async def _asked(knowledge: KnowledgeService, query: str) -> list[str]:
    answer = await knowledge.search(
        query, context=ContextReference(), caller=_CALLER, top_k=_EVERY_ONE, collection="runbooks"
    )
    return _files(hit.source_file for hit in answer.results)


def _by_cosine(queries: Sequence[str], *, runbooks: Path, embedder: Embedder) -> list[list[str]]:
    documents: list[Document] = [
        document
        for file in sorted(runbooks.glob("*.md"))
        for document in runbook_documents(file.read_bytes(), namespace="", source_file=file.name)
    ]
    vectors = embedder.embed_documents([each.embedding_text for each in documents])
    return [
        _files(documents[number].source_file for number in np.argsort(-(vectors @ embedder.embed_query(query))))
        for query in queries
    ]


def _files(sources: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(Path(source).name for source in sources))


def summarise(rankings: Rankings, *, best: Sequence[Sequence[str]]) -> dict[str, dict[str, Estimate]]:
    """By system the mean reciprocal rank and how often a right file is first; and how far hybrid is before cosine."""
    ranks = {
        system: [reciprocal_rank(_grades(files, right), least=1) for files, right in zip(each, best, strict=True)]
        for system, each in rankings.items()
    }
    firsts = {
        system: [found(_grades(files, right), least=1, cutoff=1) for files, right in zip(each, best, strict=True)]
        for system, each in rankings.items()
    }
    summary = {
        system: {f"MRR@{CUTOFF}": estimate(ranks[system]), "recall@1": estimate(firsts[system])} for system in rankings
    }
    difference = {
        f"MRR@{CUTOFF}": estimate(np.subtract(ranks[HYBRID], ranks[COSINE]).tolist()),
        "recall@1": estimate(np.subtract(firsts[HYBRID], firsts[COSINE]).tolist()),
    }
    return {**summary, f"{HYBRID} minus {COSINE}": difference}


def _grades(files: Sequence[str], right: Sequence[str]) -> list[int]:
    return [int(file in right) for file in files]


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument("--scale", action="store_true", help="measure how long searches take among many documents")
    parser.add_argument("--misses", action="store_true", help="print the queries that hybrid does not answer first")
    given = parser.parse_args()
    judged = read_queries()
    queries, best = [query for query, _ in judged], [right for _, right in judged]
    embedder = load_embedder()
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "knowledge") as postgres:
            if given.scale:
                _report_scale(asyncio.run(measure_scale(queries, embedder=embedder, postgres=postgres)))
                return
            rankings = asyncio.run(measure(queries, runbooks=HERE / "runbooks", embedder=embedder, postgres=postgres))
    summary = summarise(rankings, best=best)
    table = Table(f"{len(queries)} queries on runbooks", *next(iter(summary.values())))
    for system, measured in summary.items():
        table.add_row(system, *(f"{each.mean:.3f} ({each.low:.3f} {each.high:.3f})" for each in measured.values()))
    Console(width=160).print(table)
    if given.misses:
        for query, files, right in zip(queries, rankings[HYBRID], best, strict=True):
            if files[:1] not in [[each] for each in right]:
                print(f"{query}: {files[:3]}, right: {right}")
    if given.json:
        numbers = {system: {name: asdict(each) for name, each in of.items()} for system, of in summary.items()}
        given.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")


def _report_scale(seconds: Mapping[str, Sequence[float]]) -> None:
    table = Table("searched", "p50 ms", "p95 ms", "p50 of a workflow search")
    base = milliseconds(seconds[WORKFLOWS])[0]
    for name, each in seconds.items():
        p50, p95 = milliseconds(each)
        table.add_row(name, f"{p50:.1f}", f"{p95:.1f}", f"{p50 / base:.1f}x")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
