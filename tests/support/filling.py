"""Puts documents into a catalog in a given order, without the loader."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.domain.stored import RefusedWorkflow
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.workflows.writer import CatalogWriter


def entry(document: Mapping[str, Any], *, namespace: str = "formulary") -> CatalogEntry:
    """A valid document as the store takes it."""
    return catalog_entry(document, source="test", default_namespace=namespace)


async def fill(
    writer: CatalogWriter,
    documents: Iterable[Mapping[str, Any]],
    *,
    namespace: str = "formulary",
    embedder: Embedder | None = None,
) -> list[CatalogEntry]:
    """Apply the documents one after the other, with vectors where there is an embedder."""
    entries = [entry(document, namespace=namespace) for document in documents]
    model_id = embedder.model_id if embedder else ""
    if embedder:
        vectors = embedder.embed_documents([each.embedding_text for each in entries])
        hashes = [each.text_hash for each in entries]
        await writer.save_vectors(dict(zip(hashes, vectors, strict=True)), model_id=model_id)
    for each in entries:
        await writer.apply(each, model_id=model_id)
    return entries


def refusal(name: str, *, namespace: str = "formulary", **said: str) -> RefusedWorkflow:
    """An object that the operator refused this year; `said` are other words than the usual ones."""
    words = {"version": "1.0.0", "reason": "Invalid", "message": "spec.labels.severity: 1 is no text"} | said
    return RefusedWorkflow(namespace=namespace, name=name, since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), **words)


def starter_documents(directory: Path) -> list[dict[str, Any]]:
    """The manifests of a directory in the order of their file names."""
    return [yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader) for file in sorted(directory.glob("*.yaml"))]
