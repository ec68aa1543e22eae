"""Embeds the whole catalog with another model while it is served with the present one, then changes over.

Progress is in the database: a process that begins again, after a crash or on another machine, goes on from there.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable, InvalidManifest, TextsRefused
from formulary_catalog.loading.report import LoadingProgress, silent
from formulary_catalog.loading.vectors import EMBEDDED_AT_ONCE, vectors_of
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.workflows.reembedding import ReembeddingStore, Unembedded

NOTICE_SECONDS = 30.0
"""How long before the change the new model is announced to the servers, by default: they look every few seconds, and
may have to load it from a slow disk."""


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


class Reembedding:
    """One change to the model of `embedder`, which can be found by `source`."""

    def __init__(
        self,
        *,
        models: ModelStore,
        store: ReembeddingStore,
        embedder: Embedder,
        source: str,
        notice_seconds: float = NOTICE_SECONDS,
        progress: LoadingProgress = silent,
    ) -> None:
        self._models = models
        self._store = store
        self._embedder = embedder
        self._model_id = embedder.model_id
        self._source = source
        self._notice_seconds = notice_seconds
        self._progress = progress
        self._report = ReembeddingReport(model_id=embedder.model_id)

    async def run(self) -> ReembeddingReport:
        """Embed what has no vector of the model, give the searches these vectors, and delete those of older models.

        Where the model serves already, it is what lacks a vector that gets one.

        Raises:
            Unavailable: another process re-embeds, or the database does not answer.
            EmbedderUnavailable: the model failed.
            PreparationEnded: somebody cancelled it.
        """
        report = self._report
        async with self._store.alone():
            serving = (await self._models.models()).serving
            report.before = serving.model_id if serving is not None else ""
            report.changed = await self._store.prepare(self._model_id, source=self._source)
            began = time.monotonic()
            switched = False
            while not switched:
                await self._embed_missing()
                if report.changed and report.before:
                    await self._give_notice(began=began)
                switched = await self._store.switch(self._model_id, without=sorted(report.unreadable | report.refused))
            report.purged = await self._store.purge()
        return report

    async def complete(self) -> ReembeddingReport:
        """Embed what has no vector of the model, which has to be the one that serves, and change nothing else.

        Raises:
            Unavailable: another process re-embeds, or the database does not answer.
            EmbedderUnavailable: the model failed; what it gave before is used.
            PreparationEnded: it does not serve any more.
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
        await self._save({}, text_hashes={}, done=done)  # which returns how far an earlier run came
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
        await self._save(vectors, text_hashes=text_hashes, done=done)
        self._report.embedded += len(vectors)
        if refusals:
            self._report.refused |= {id_ for id_, text_hash in text_hashes.items() if text_hash not in vectors}
            self._report.refusal = str(refusals[0])

    async def _save(
        self, vectors: Mapping[str, npt.NDArray[np.float32]], *, text_hashes: Mapping[str, str], done: int
    ) -> None:
        total = self._report.workflows
        await self._store.save(self._model_id, vectors=vectors, text_hashes=text_hashes, done=done, total=total)
        self._progress("embedding", done, total)

    async def _give_notice(self, *, began: float) -> None:
        """Let the servers load the new model before searches need it."""
        while (left := began + self._notice_seconds - time.monotonic()) > 0:
            waited = int(self._notice_seconds - left)
            self._progress("giving servers time to load it, in seconds", waited, int(self._notice_seconds))
            await asyncio.sleep(min(left, 1))
            await self._store.require_prepared(self._model_id)
