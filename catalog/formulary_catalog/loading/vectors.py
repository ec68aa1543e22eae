"""Vectors for the texts that have none yet; a text is embedded once in its life, whatever happens to its workflow."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable, TextsRefused
from formulary_catalog.loading.report import LoadingProgress, LoadReport
from formulary_catalog.store.workflows.writer import CatalogWriter

EMBEDDED_AT_ONCE = 31
"""Texts that are saved together, as many as most endpoints take with one request: what they gave is kept, whatever they
do next."""
_Vectors = Mapping[str, npt.NDArray[np.float32]]


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
