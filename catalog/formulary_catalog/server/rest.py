"""The REST side: the same answers as the tools, whole, for programs (DESIGN section 8)."""

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, TypeVar

import structlog
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from formulary_catalog.domain.answers import Answer, SearchAnswer, SelectionReceipt, WorkflowDetails, WorkflowList
from formulary_catalog.domain.request import ContextReference
from formulary_catalog.errors import InvalidInput
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.arguments import auditable, canonical, read_arguments, shown
from formulary_catalog.server.callers import caller_of
from formulary_catalog.server.failures import Failure, failure_of, within_deadline
from formulary_catalog.server.parameters import DETAILS, SELECTION
from formulary_catalog.server.refusals import checked
from formulary_catalog.server.replies import error_reply
from formulary_catalog.server.rest_schema import (
    DETAILS_OPERATION,
    LIST_OPERATION,
    SEARCH_OPERATION,
    SELECTION_OPERATION,
    error_responses,
)
from formulary_catalog.server.rest_search import auditable_search, read_search

PREFIX = "/api/v1"
MAX_LIMIT = 1000
MAX_OFFSET = 1_000_000

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class _Guarded(APIRoute):
    """A route whose every failure leaves as the error body of this API, and whose every call is logged."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                response = await within_deadline(handler(request))
            except Exception as error:
                failure = failure_of(_invalid(error) if isinstance(error, RequestValidationError) else error)
                _log.info("rest_call", operation=self.operation_id, outcome=failure.outcome)
                return _refusal(request, failure)
            _log.info("rest_call", operation=self.operation_id, outcome="ok")
            return response

        return guarded


router = APIRouter(prefix=PREFIX, route_class=_Guarded, tags=["workflows"])


@router.post(
    "/workflows/search",
    operation_id="search_workflows",
    summary="Search the catalog",
    response_model=SearchAnswer,
    responses=error_responses(413),
    openapi_extra=SEARCH_OPERATION,
)
async def search(request: Request) -> Response:
    """The workflows allowed for the incident that fit best, with reasons."""
    caller = caller_of(request)
    body = await _object_body(request)
    _, wanted = await _checked(
        request,
        "search",
        given=auditable_search(body),
        read=lambda context: read_search(body, context=context, caller=caller),
    )
    return _answer(await _service(request).search(wanted, caller=caller))


@router.get(
    "/workflows",
    operation_id="list_workflows",
    summary="List workflows",
    response_model=WorkflowList,
    responses=error_responses(),
    openapi_extra=LIST_OPERATION,
)
async def list_workflows(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many to return.")] = 100,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out before.")] = 0,
) -> Response:
    """The visible workflows in name order."""
    page = {"limit": limit, "offset": offset}
    context, _ = await _checked(request, "list", given=page, read=lambda _: _only(request, "limit", "offset"))
    listed = await _service(request).list_workflows(
        context=context, caller=caller_of(request), limit=limit, offset=offset
    )
    return _answer(listed)


@router.get(
    "/workflows/{workflow_id:path}",
    operation_id="get_workflow",
    summary="Get one workflow in full",
    response_model=WorkflowDetails,
    responses=error_responses(404),
    openapi_extra=DETAILS_OPERATION,
)
async def get_workflow(
    request: Request,
    workflow_id: Annotated[str, Path(description="`name`, `namespace/name`, `name@version` or a version id.")],
    version: Annotated[str, Query(description="Semantic version; the latest active one without it.")] = "",
) -> Response:
    """One workflow by any of its names."""
    given = {"workflow_id": workflow_id, "version": version}

    def read(_: ContextReference) -> dict[str, Any]:
        _only(request, "version")
        return read_arguments(given, parameters=DETAILS)

    context, named = await _checked(request, "details", given=given, read=read)
    return _answer(await _service(request).details(context=context, caller=caller_of(request), **named))


@router.post(
    "/selections",
    operation_id="record_selection",
    summary="Record the chosen workflow",
    response_model=SelectionReceipt,
    responses=error_responses(404, 413),
    openapi_extra=SELECTION_OPERATION,
)
async def record_selection(request: Request) -> Response:
    """Write a choice and its reasons into the audit trail; nothing is run."""
    body = await _object_body(request)
    kept = auditable(body, known={parameter.name for parameter in SELECTION})
    context, chosen = await _checked(
        request, "selection", given=kept, read=lambda _: read_arguments(body, parameters=SELECTION)
    )
    return _answer(await _service(request).record_selection(context=context, caller=caller_of(request), **chosen))


async def _checked(
    request: Request, action: str, *, given: Mapping[str, Any], read: Callable[[ContextReference], _T]
) -> tuple[ContextReference, _T]:
    return await checked(
        read,
        action=action,
        given=given,
        headers=request.headers,
        service=_service(request),
        readiness=request.app.state.readiness,
        caller=caller_of(request),
    )


def _service(request: Request) -> CatalogService:
    service: CatalogService = request.app.state.service
    return service


def _only(request: Request, *names: str) -> None:
    """Refuse a query string with other parameters: a misspelt one would be answered as if it were not there."""
    canonical(request.query_params, known={name: name for name in names})


async def _object_body(request: Request) -> dict[str, Any]:
    try:
        # Only as UTF-8: in another encoding the edge could not see how deep it is nested.
        body = json.loads((await request.body()).decode("utf-8-sig"))
    except ValueError:
        raise InvalidInput(
            "the body is not JSON; send an object such as {'query': 'OOMKilled'}", field="body"
        ) from None
    if not isinstance(body, dict):
        raise InvalidInput(f"the body is {shown(body)}, which is not a JSON object; send one", field="body")
    return body


def _answer(answer: Answer) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


def _refusal(request: Request, failure: Failure) -> Response:
    return error_reply(
        path=request.url.path, status=failure.status, code=failure.code, message=failure.message, field=failure.field
    )


def _invalid(error: RequestValidationError) -> InvalidInput:
    """One line in place of the framework's list."""
    problem = error.errors()[0]
    field = str(problem["loc"][-1])
    return InvalidInput(f"{field} is {shown(problem['input'])}; {problem['msg'].lower()}", field=field)
