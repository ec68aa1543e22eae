"""Arguments of the knowledge tools and endpoints."""

from typing import Annotated, Literal

from pydantic import Field

from formulary_catalog.domain.knowledge.documents import MAX_ID_LENGTH, Collection
from formulary_catalog.domain.search.request import MAX_QUERY_LENGTH, MAX_TOP_K
from formulary_catalog.operations.arguments.target import Targeted
from formulary_catalog.operations.arguments.texts import OneOf
from formulary_catalog.services.knowledge.answers import ALL_COLLECTIONS

TopK = Annotated[
    int | None, Field(ge=1, le=MAX_TOP_K, description="Maximum number of results; 5 without it.", examples=[3])
]
_ID = "wf_ver_0123456789abcdef0123#steps"


class DocumentSearchArguments(Targeted):
    """What is looked for in documents."""

    query: str = Field(
        max_length=MAX_QUERY_LENGTH,
        description="What to look for in words, or an alert or error message.",
        examples=["node does not come back after a reboot"],
    )
    top_k: TopK = None
    collection: Annotated[Collection | Literal[""], OneOf(also={ALL_COLLECTIONS: ""})] = Field(
        "", description="Only documents of this collection; of all without it.", examples=["runbooks"]
    )


class SimilarArguments(Targeted):
    """What others are to resemble."""

    doc_id: str = Field("", max_length=MAX_ID_LENGTH, description="id of a document; or give text.", examples=[_ID])
    text: str = Field(
        "",
        max_length=MAX_QUERY_LENGTH,
        description="A draft to compare with, in place of doc_id.",
        examples=["Restart CoreDNS when lookups time out."],
    )
    top_k: TopK = None


class DocumentArguments(Targeted):
    """The document to read."""

    doc_id: str = Field(
        max_length=MAX_ID_LENGTH, description="id of a result, or a URI with its #section.", examples=[_ID]
    )
