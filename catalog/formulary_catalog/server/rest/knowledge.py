"""Documents over REST: search, likeness, one document, the collections.

People and the command line read it; a call needs no incident, and one that it names still constrains the answer.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.knowledge.answers import (
    CollectionsAnswer,
    DocumentAnswer,
    DocumentSearchAnswer,
    SimilarDocumentsAnswer,
)
from formulary_catalog.operations.arguments.browsing import NoArguments
from formulary_catalog.operations.arguments.knowledge import (
    DocumentArguments,
    DocumentSearchArguments,
    SimilarArguments,
)
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import PREFIX, Guarded, answered, checked_call, services_of
from formulary_catalog.server.rest.openapi import error_responses, operation, query_parameters

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["documents"])


@router.get(
    "/documents",
    operation_id="search_documents",
    summary="Search documents",
    response_model=DocumentSearchAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(DocumentSearchArguments)),
)
async def search_documents(request: Request) -> Response:
    """The documents that fit best."""
    context, asked = await checked_call(request, "read.documents", DocumentSearchArguments)
    knowledge = services_of(request).knowledge
    return answered(await knowledge.search(**dict(asked), context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/documents/similar",
    operation_id="similar_documents",
    summary="Find documents like one, or like a draft",
    response_model=SimilarDocumentsAnswer,
    responses=error_responses(404),
    openapi_extra=operation(query=query_parameters(SimilarArguments)),
)
async def similar_documents(request: Request) -> Response:
    """Documents of other sources, in the collection of the one that is given."""
    context, asked = await checked_call(request, "read.similar", SimilarArguments)
    knowledge = services_of(request).knowledge
    return answered(await knowledge.similar(**dict(asked), context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/documents/{doc_id:path}",
    operation_id="get_document",
    summary="Read one document",
    response_model=DocumentAnswer,
    responses=error_responses(404),
    openapi_extra=operation(),
)
async def get_document(
    request: Request,
    doc_id: Annotated[str, Path(description="An id of a search result, or the URI of a section.")],
) -> Response:
    """The document in full."""
    context, asked = await checked_call(request, "read.document", DocumentArguments)
    knowledge = services_of(request).knowledge
    return answered(await knowledge.document(asked.doc_id, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/collections",
    operation_id="list_collections",
    summary="List the collections of documents",
    response_model=CollectionsAnswer,
    responses=error_responses(),
    openapi_extra=operation(),
)
async def list_collections(request: Request) -> Response:
    """The collections, and how many documents of each the caller may read."""
    context, _ = await checked_call(request, "read.collections", NoArguments)
    knowledge = services_of(request).knowledge
    return answered(await knowledge.collections(context=context, caller=caller_of(request), browsing=True))
