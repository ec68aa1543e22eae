"""The answers of the knowledge tools, in the shapes of the seed."""

from pydantic import Field

from formulary_catalog.domain.answers.catalog import Answer

MAX_PREVIEW = 150
ALL_COLLECTIONS = "all"
"""What an answer has in place of a collection where all were searched."""


class DocumentHit(Answer):
    """One document of a search, or one that resembles another."""

    id: str
    score: float = Field(description="0..1, orders this answer; not a probability.")
    source_file: str
    section_title: str
    text_preview: str


class DocumentSearchAnswer(Answer):
    """The documents that fit best. `total_results` counts them; `list_collections` counts all that may be read."""

    query: str
    collection: str
    total_results: int
    results: list[DocumentHit]
    notes: list[str]


class SimilarDocumentsAnswer(Answer):
    """The documents that resemble one, or a draft: then `source_doc_id` is empty."""

    source_doc_id: str
    collection: str
    similar_docs: list[DocumentHit]
    notes: list[str]


class DocumentText(Answer):
    """What a document says."""

    source_file: str
    section_title: str
    text: str


class DocumentAnswer(Answer):
    """One document in full."""

    id: str
    collection: str
    document: DocumentText


class CollectionSize(Answer):
    """One collection: how many of its documents may be read here, and how many of those rank by meaning."""

    name: str
    vectors_count: int
    documents: int


class CollectionsAnswer(Answer):
    """All collections."""

    collections: list[CollectionSize]
    total: int
