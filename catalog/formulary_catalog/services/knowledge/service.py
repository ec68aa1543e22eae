"""Semantic search over documents: sections of workflows, past incidents, runbooks.

The edges call it as they call the catalog. What a call may see is found in the same place as for a search, and what
the incident excludes is neither found, nor counted, nor compared. Every call leaves an event in the trail.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.domain.knowledge.documents import Collection
from formulary_catalog.domain.knowledge.ranking import RankedDocument, rank_documents
from formulary_catalog.domain.search.query import parse_query
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.search.terms import query_terms
from formulary_catalog.domain.text import one_line
from formulary_catalog.domain.visible import visible
from formulary_catalog.errors import InvalidInput, UnknownDocument
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import namespaces_with
from formulary_catalog.services.knowledge.answers import (
    ALL_COLLECTIONS,
    MAX_PREVIEW,
    CollectionsAnswer,
    CollectionSize,
    DocumentAnswer,
    DocumentHit,
    DocumentSearchAnswer,
    DocumentText,
    SimilarDocumentsAnswer,
)
from formulary_catalog.services.knowledge.nearest import is_id, nearest_addresses, nearest_ids, source_name
from formulary_catalog.store.knowledge.reader import (
    DocumentCandidates,
    DocumentQuery,
    DocumentReader,
    DocumentScope,
    FoundDocument,
    StoredDocument,
)
from formulary_catalog.store.search.distances import ModelVector

DEFAULT_TOP_K = 5
_MAX_SHOWN = 80
_ENVELOPE = 700
"""Bytes of an answer that are not its hits: the query, the notes, names."""
_LEXICAL = "ranked by words alone: there are no vectors to compare"
_SHORTENED = "shortened to fit; give a smaller top_k or a collection"
_DRAFT_WORDS = 600
"""Characters of a document whose words are looked for in others: those of all of it would tell little apart."""
_NOTHING = {
    "": "there is no document that may be read here",
    Collection.WORKFLOWS: "there is no workflow that is served and allowed here",
    Collection.INCIDENTS: "there is no past incident that may be read here yet: one becomes a document 15 minutes "
    "after its last event, if a workflow was chosen",
    Collection.RUNBOOKS: "there is no runbook that may be read here",
}
"""By collection, what an answer says where nothing could have been found."""
_ELSEWHERE = "look in another collection"
_NO_OTHER = "no other source of its collection may be read here; give its words as text to look in all"
_IN_WORKFLOWS = "search for a workflow instead"


class _Draft(NamedTuple):
    """What others are compared with: its id if it is a document, the collection to look in, text and vector."""

    doc_id: str
    collection: str
    text: str
    vector: ModelVector | None


class KnowledgeService:
    """Finds and reads documents.

    All methods raise `ContextError` and `NotAllowed` as a search does, and `Unavailable` for a database that does not
    answer. What they are asked is within the bounds of `operations/knowledge` for every caller.
    `browsing` as in `Visibility.of`. `max_bytes` is what the answer may take as JSON.
    """

    def __init__(self, parts: CatalogParts) -> None:
        self._documents = DocumentReader(parts.database)
        self._trail = parts.trail
        self._visibility = parts.visibility
        self._finder = parts.finder
        self._vectors = parts.vectors

    async def search(
        self,
        query: str,
        *,
        context: ContextReference,
        caller: Caller,
        top_k: int | None = None,
        collection: str = "",
        browsing: bool = False,
        max_bytes: int | None = None,
    ) -> DocumentSearchAnswer:
        """The documents that fit a query best, of one collection or of all."""
        arguments = {"query": query, "top_k": top_k, "collection": collection}
        async with self._recorded("documents", arguments, context=context, caller=caller) as record:
            scope = await self._scope(context, caller=caller, record=record, browsing=browsing)
            text = parse_query(query).text
            question = _Draft("", collection, text, await self._vectors.of(text))
            candidates, ranked = await self._ranked(question, scope=scope, record=record)
            hits = [_hit(each, candidates.shown[each.doc_id]) for each in ranked[: top_k or DEFAULT_TOP_K]]
            kept, notes = _fitting(hits, max_bytes=max_bytes, candidates=candidates, within=collection)
            record.result = _audited(ranked[: len(kept)], total=candidates.total)
            return DocumentSearchAnswer(
                query=_preview(visible(query)),
                collection=collection or ALL_COLLECTIONS,
                total_results=len(kept),
                results=kept,
                notes=notes,
            )

    async def similar(
        self,
        doc_id: str = "",
        *,
        context: ContextReference,
        caller: Caller,
        text: str = "",
        top_k: int | None = None,
        browsing: bool = False,
        max_bytes: int | None = None,
    ) -> SimilarDocumentsAnswer:
        """The documents of other sources that resemble one, in its collection; or a draft `text`, in all.

        Raises:
            NotFound: there is no such document that may be read here; the message names the nearest.
        """
        arguments = {"doc_id": doc_id, "text": text, "top_k": top_k}
        async with self._recorded("similar", arguments, context=context, caller=caller) as record:
            if bool(doc_id.strip()) == bool(text.strip()):
                raise InvalidInput("give one of doc_id, the id of a document, and text, a draft", field="doc_id")
            scope = await self._scope(context, caller=caller, record=record, browsing=browsing)
            draft = await self._draft_of(doc_id, scope=scope) if doc_id.strip() else await self._draft(text)
            candidates, ranked = await self._ranked(draft, scope=scope, record=record)
            hits = [_hit(each, candidates.shown[each.doc_id]) for each in ranked[: top_k or DEFAULT_TOP_K]]
            kept, notes = _fitting(hits, max_bytes=max_bytes, candidates=candidates, within=draft.collection)
            if draft.doc_id and not candidates.total:
                notes = [_NO_OTHER]
            record.result = _audited(ranked[: len(kept)], total=candidates.total)
            return SimilarDocumentsAnswer(
                source_doc_id=draft.doc_id,
                collection=draft.collection or ALL_COLLECTIONS,
                similar_docs=kept,
                notes=notes,
            )

    async def document(
        self, doc_id: str, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> DocumentAnswer:
        """One document by its id, or by the URI of a section: `workflow://namespace/name@version#steps`.

        Raises:
            NotFound: there is no such document that may be read here; the message names the nearest.
        """
        async with self._recorded("document", {"doc_id": doc_id}, context=context, caller=caller) as record:
            scope = await self._scope(context, caller=caller, record=record, browsing=browsing)
            found = (await self._stored(doc_id, scope=scope)).found
            record.result = {"doc_id": found.doc_id}
            return DocumentAnswer(
                id=found.doc_id,
                collection=found.collection,
                document=DocumentText(
                    source_file=found.source_file, section_title=found.section_title, text=found.text
                ),
            )

    async def collections(
        self, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> CollectionsAnswer:
        """The collections, and how much of each may be read here."""
        async with self._recorded("collections", {}, context=context, caller=caller) as record:
            scope = await self._scope(context, caller=caller, record=record, browsing=browsing)
            sizes = [
                CollectionSize(name=each.name, vectors_count=each.vectors, documents=each.documents)
                for each in await self._documents.collections(scope=scope)
            ]
            record.result = {each.name: each.documents for each in sizes}
            return CollectionsAnswer(collections=sizes, total=len(sizes))

    @asynccontextmanager
    async def _recorded(
        self, what: str, given: Mapping[str, Any], *, context: ContextReference, caller: Caller
    ) -> AsyncIterator[Record]:
        arguments = {name: value for name, value in given.items() if value not in ("", None)}
        async with self._trail.record(f"read.{what}", caller=caller, reference=context, arguments=arguments) as record:
            yield record

    async def _scope(
        self, context: ContextReference, *, caller: Caller, record: Record, browsing: bool
    ) -> DocumentScope:
        """What the call may read, and of which namespaces the free text of incidents as well."""
        call = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
        return DocumentScope(
            namespaces=call.namespaces,
            incidents=await namespaces_with(caller, USE_CONTEXTS, among=call.concerned),
            constraints=self._finder.constraints(call),
        )

    async def _ranked(
        self, draft: _Draft, *, scope: DocumentScope, record: Record
    ) -> tuple[DocumentCandidates, Sequence[RankedDocument]]:
        """The candidates, and their order; without those of the source of the draft."""
        terms = query_terms(draft.text)
        candidates = await self._documents.candidates(
            DocumentQuery(
                words=[term.word for term in terms],
                vector=draft.vector,
                other_than=draft.doc_id.partition("#")[0],
            ),
            scope=replace(scope, collection=draft.collection),
        )
        record.mode = SearchMode.HYBRID if candidates.compared else SearchMode.LEXICAL
        ranked = rank_documents(
            candidates.evidence, terms=terms, usable=candidates.usable, by_meaning=candidates.compared
        )
        return candidates, ranked

    async def _draft(self, text: str) -> _Draft:
        words = parse_query(text).text
        return _Draft("", "", words, await self._vectors.of(words))

    async def _draft_of(self, doc_id: str, *, scope: DocumentScope) -> _Draft:
        stored = await self._stored(doc_id, scope=scope)
        found = stored.found
        text = f"{stored.title}. {found.section_title}. {found.text[:_DRAFT_WORDS]}"
        return _Draft(found.doc_id, found.collection, text, stored.vector)

    async def _stored(self, doc_id: str, *, scope: DocumentScope) -> StoredDocument:
        stored = await self._documents.document(doc_id.strip(), scope=scope)
        if stored is not None:
            return stored
        shown = one_line(doc_id if len(doc_id) <= _MAX_SHOWN else f"{doc_id[:_MAX_SHOWN]}…")
        raise UnknownDocument(shown, nearest=await self._nearest(doc_id.strip(), scope=scope))

    async def _nearest(self, doc_id: str, *, scope: DocumentScope) -> list[str]:
        if is_id(doc_id):
            ids = await self._documents.ids(beginning=doc_id.partition("#")[0], scope=scope)
            return nearest_ids(doc_id, ids)
        addresses = await self._documents.addresses(alike=source_name(doc_id), scope=scope)
        return nearest_addresses(doc_id, addresses)


def _hit(ranked: RankedDocument, found: FoundDocument) -> DocumentHit:
    return DocumentHit(
        id=ranked.doc_id,
        score=ranked.score,
        source_file=found.source_file,
        section_title=found.section_title,
        text_preview=_preview(found.text),
    )


def _preview(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= MAX_PREVIEW else f"{line[: MAX_PREVIEW - 1].rstrip()}…"


def _fitting(
    hits: Sequence[DocumentHit], *, max_bytes: int | None, candidates: DocumentCandidates, within: str
) -> tuple[list[DocumentHit], list[str]]:
    """The first hits that fit, at least one, and what the answer has to say about it."""
    if candidates.total == 0:
        return [], [f"{_NOTHING[within]}; {_ELSEWHERE if within else _IN_WORKFLOWS}"]
    notes = [] if candidates.compared else [_LEXICAL]
    if not hits:
        return [], [*notes, f"none of {candidates.total} documents fits; rephrase the symptom in English"]
    if max_bytes is None:
        return list(hits), notes
    kept: list[DocumentHit] = []
    room = max_bytes - _ENVELOPE
    for hit in hits:
        room -= len(json.dumps(hit.as_json(), ensure_ascii=False).encode())
        if kept and room < 0:
            return kept, [*notes, _SHORTENED]
        kept.append(hit)
    return kept, notes


def _audited(ranked: Sequence[RankedDocument], *, total: int) -> dict[str, Any]:
    return {"total": total, "documents": [{"doc_id": each.doc_id, "score": each.score} for each in ranked]}
