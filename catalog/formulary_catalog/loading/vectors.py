"""Vectors for the texts that have none yet; a text is embedded once in its life, whatever happens to its workflow."""

import asyncio
from collections.abc import Sequence

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.loading.report import LoadReport, Progress
from formulary_catalog.store.catalog import CatalogWriter

_SAVED_AT_ONCE = 128


async def store_missing_vectors(
    entries: Sequence[CatalogEntry],
    *,
    catalog: CatalogWriter,
    embedder: Embedder,
    report: LoadReport,
    progress: Progress,
) -> None:
    """Embed and store what is missing, in portions, so that an interrupted load has not worked for nothing.

    A model that fails midway is noted in the report: the remaining workflows are found by their words.

    Raises:
        Unavailable: the database does not answer.
    """
    texts = {entry.text_hash: entry.embedding_text for entry in entries if not entry.workflow.spec.suspend}
    done = 0
    missing = sorted(await catalog.missing_texts(texts, model_id=embedder.model_id))
    for start in range(0, len(missing), _SAVED_AT_ONCE):
        portion = missing[start : start + _SAVED_AT_ONCE]

        def embedded(just_done: int) -> None:
            nonlocal done
            done += just_done
            report.embedded += just_done
            progress("embedding", done, len(missing))

        try:
            vectors = await asyncio.to_thread(
                embedder.embed_documents, [texts[text_hash] for text_hash in portion], progress=embedded
            )
        except EmbedderUnavailable as error:
            report.unembedded = f"{error} Workflows found by their words alone meanwhile: {len(missing) - start}"
            return
        await catalog.save_vectors(dict(zip(portion, vectors, strict=True)), model_id=embedder.model_id)
