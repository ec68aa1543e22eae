"""Vectors for the texts of a catalog that have none of a model, and the change of the catalog to that model.

A text is embedded once in its life, whatever happens to its workflow. Each portion of vectors is stored: a process that
begins again, after a crash or on another machine, goes on from there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable, InvalidManifest, TextsRefused
from formulary_catalog.loading.report import LoadingProgress, LoadReport, silent
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.workflows.reembedding import SWITCH_SECONDS, ReembeddingStore, Unembedded
from formulary_catalog.store.workflows.writer import CatalogWriter

EMBEDDED_AT_ONCE = 31
"""Texts that are saved together, as many as most endpoints take with one request: what they gave is kept, whatever they
do next."""
_Vectors = Mapping[str, npt.NDArray[np.float32]]


@dataclass(slots=True, kw_only=True)
class ReembeddingReport:
    """What was done. `embedded` counts texts of workflows, `documents` those of documents. `unreadable` names, by
    version id, workflows that this release cannot read, `refused` those that the model does not take, `refusal` says
    why: they are found by their words alone. `purged` counts vectors of models that served earlier."""

    model_id: str
    before: str = ""
    changed: bool = False
    workflows: int = 0
    embedded: int = 0
    documents: int = 0
    unreadable: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    refusal: str = ""
    purged: int = 0


async def reembed(dsn: str, *, embedder: Embedder, progress: LoadingProgress = silent) -> ReembeddingReport:
    """Change the catalog of a database to the model of `embedder`. Raises as `Reembedding.run`."""
    async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=SWITCH_SECONDS) as database:
        return await Reembedding(database, embedder=embedder, progress=progress).run()


class Reembedding:
    """One pass over the catalog with the model of `embedder`."""

    def __init__(self, database: Database, *, embedder: Embedder, progress: LoadingProgress = silent) -> None:
        self._models = ModelStore(database)
        self._store = ReembeddingStore(database)
        self._embedder = embedder
        self._model_id = embedder.model_id
        self._progress = progress
        self._report = ReembeddingReport(model_id=embedder.model_id)

    async def run(self) -> ReembeddingReport:
        """Embed what has no vector of the model, give the searches these vectors, and delete those of other models.

        Searches go on with the vectors of the model before until all are there. Where the model serves already, it is
        what lacks a vector that gets one.

        Raises:
            Unavailable: another process re-embeds, or the database does not answer.
            EmbedderUnavailable: the model failed.
        """
        report = self._report
        async with self._store.alone():
            report.before = await self._models.serving()
            report.changed = report.before != self._model_id
            switched = False
            while not switched:
                await self._embed_missing()
                switched = await self._store.switch(self._model_id, without=sorted(report.unreadable | report.refused))
            report.purged = await self._store.purge()
        return report

    async def complete(self) -> ReembeddingReport:
        """Embed what has no vector of the model that serves, and change nothing else.

        Raises:
            Unavailable: another process re-embeds, or the database does not answer.
            EmbedderUnavailable: the model failed; what it gave before is used.
        """
        async with self._store.alone():
            try:
                await self._embed_missing()
            except EmbedderUnavailable:
                await self._store.use(self._model_id)
                raise
            await self._store.use(self._model_id)
        return self._report

    async def _embed_missing(self) -> None:
        """One pass over what has no vector; what comes in behind it is left to the next.

        Raises:
            EmbedderUnavailable: the model failed, or has never taken any text.
        """
        done, self._report.workflows = await self._store.count(self._model_id)
        takes_some = done > 0
        self._progress("embedding", done, self._report.workflows)
        after = ""
        while portion := await self._store.unembedded(self._model_id, after=after, limit=EMBEDDED_AT_ONCE):
            after = portion[-1].version_id
            entries = self._entries(portion)
            done += len(entries)
            await self._embed(entries, done=done)
            if len(self._report.refused) > 1 and not (takes_some or self._report.embedded):
                raise TextsRefused(self._report.refusal)
        await self._embed_documents()

    async def _embed_documents(self) -> None:
        """One pass over the texts of documents; those that the model refuses are found by their words."""
        after = ""
        while texts := await self._store.documents.unembedded(self._model_id, after=after, limit=EMBEDDED_AT_ONCE):
            after = max(texts)
            vectors, _ = await vectors_of(texts, embedder=self._embedder)
            await self._store.documents.save(self._model_id, vectors)
            self._report.documents += len(vectors)

    def _entries(self, portion: Sequence[Unembedded]) -> dict[str, CatalogEntry]:
        """What can be read, by version id."""
        entries: dict[str, CatalogEntry] = {}
        for stored in portion:
            try:
                entries[stored.version_id] = catalog_entry(
                    stored.document, source=stored.version_id, default_namespace=stored.namespace
                )
            except InvalidManifest:  # an earlier release took it
                self._report.unreadable.add(stored.version_id)
        return entries

    async def _embed(self, entries: Mapping[str, CatalogEntry], *, done: int) -> None:
        texts = {entry.text_hash: entry.embedding_text for entry in entries.values()}
        vectors, refusals = await vectors_of(texts, embedder=self._embedder)
        # Another release may have made another text of the same document; from here on it is this one's.
        text_hashes = {version_id: entry.text_hash for version_id, entry in entries.items()}
        await self._store.save(self._model_id, vectors=vectors, text_hashes=text_hashes)
        self._progress("embedding", done, self._report.workflows)
        self._report.embedded += len(vectors)
        if refusals:
            self._report.refused |= {id_ for id_, text_hash in text_hashes.items() if text_hash not in vectors}
            self._report.refusal = str(refusals[0])


async def vectors_of(texts: Mapping[str, str], *, embedder: Embedder) -> tuple[_Vectors, Sequence[TextsRefused]]:
    """The vectors of texts by their keys, and why there is none of some: a text that the model refuses says nothing
    about the others.

    Raises:
        EmbedderUnavailable: the model failed.
    """
    refusals: list[TextsRefused] = []
    vectors = await asyncio.to_thread(_taken, list(texts.items()), embedder=embedder, refusals=refusals)
    return vectors, refusals


async def store_missing_vectors(
    entries: Sequence[CatalogEntry],
    *,
    catalog: CatalogWriter,
    embedder: Embedder,
    report: LoadReport,
    progress: LoadingProgress,
) -> None:
    """Embed and store what is missing, in portions, so that an interrupted load has not worked for nothing.

    A model that fails midway is noted in the report: the remaining workflows are found by their words.

    Raises:
        Unavailable: the database does not answer.
    """
    served = [entry for entry in entries if not entry.workflow.spec.suspend]
    texts = {entry.text_hash: entry.embedding_text for entry in served}
    missing = sorted(await catalog.missing_texts(texts, model_id=embedder.model_id))
    without = set(missing)
    problem = ""
    for start in range(0, len(missing), EMBEDDED_AT_ONCE):
        portion = missing[start : start + EMBEDDED_AT_ONCE]
        try:
            vectors, refusals = await vectors_of({each: texts[each] for each in portion}, embedder=embedder)
        except EmbedderUnavailable as error:
            problem = str(error)
            break
        await catalog.save_vectors(vectors, model_id=embedder.model_id)
        without -= vectors.keys()
        problem = str(refusals[0]) if refusals else problem
        report.embedded += len(vectors)
        if len(refusals) > 1 and not report.embedded and len(missing) == len(texts):
            break  # it takes nothing at all, so far as anybody knows
        progress("embedding", start + len(portion), len(missing))
    if without:
        report.unembedded = unembedded(sum(entry.text_hash in without for entry in served), because=problem)


def unembedded(workflows: int, *, because: str) -> str:
    """How many workflows have no vector, and why."""
    return f"{because} Workflows found by their words alone meanwhile: {workflows}"


def _taken(
    texts: Sequence[tuple[str, str]], *, embedder: Embedder, refusals: list[TextsRefused]
) -> dict[str, npt.NDArray[np.float32]]:
    try:
        vectors = embedder.embed_documents([text for _, text in texts])
    except TextsRefused as refusal:
        if len(texts) == 1:
            refusals.append(refusal)
            return {}
        middle = len(texts) // 2
        return {
            **_taken(texts[:middle], embedder=embedder, refusals=refusals),
            **_taken(texts[middle:], embedder=embedder, refusals=refusals),
        }
    return {key: vector for (key, _), vector in zip(texts, vectors, strict=True)}
