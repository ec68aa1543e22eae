"""What all calls of the REST side share: arguments, error body, and the way in to what answers them.

Every router of `edges.rest` uses it; the console uses `services_of` and its reading of arguments. It does not load
FastAPI, for which commands on a database (`endpoints`) would have to wait.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar, get_origin

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from formulary_catalog.domain.answers.catalog import Answer, SearchAnswer
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.audited_call import checked
from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.calls.error_replies import error_reply
from formulary_catalog.edges.calls.failures import Failure
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.input_schema import fields_of, listed_name
from formulary_catalog.operations.arguments.refusals import unknown_argument
from formulary_catalog.operations.json_text import parsed, shown
from formulary_catalog.operations.services import Services
from formulary_catalog.settings import LabelSpelling

PREFIX = "/api/v1"
A = TypeVar("A", bound=Arguments)
_T = TypeVar("_T")
_NOTHING: Mapping[str, str] = {}
_NO_PAGE = {"X-Content-Type-Options": "nosniff"}
_TAG = 32
"""Hexadecimal digits of the tag of an answer."""
_NAMES = {"workflow_id", "nearest", "nearest_documents"}
"""What an error may say beside its message: a name that nothing has, and those near to it."""


def tagged(request: Request, response: Response) -> Response:
    """The answer with its tag; without its body if the caller has it already.

    It is the caller's and nobody else's, and a browser that is led to it must not take it for a page.
    """
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:_TAG]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization", **_NO_PAGE}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response


def unless_json(request: Request) -> Response | None:
    """The refusal of a POST that is not said to be JSON, as the SDK does it for MCP.

    What a page of another site may send without being asked about first is never JSON.
    """
    content_type = request.headers.get("content-type", "")
    if request.method != "POST" or content_type.partition(";")[0].strip().casefold() == "application/json":
        return None
    return error_reply(
        path=request.url.path,
        status=415,
        code=InvalidInput.rpc_code,
        message="the body must be JSON; send it with the header `Content-Type: application/json`",
    )


async def checked_call(
    request: Request, action: str, model: type[A], *, given: Mapping[str, Any] | None = None
) -> tuple[ContextReference, A]:
    """The incident of a call and its arguments, from the body in `given`, else from path and query string."""
    arguments = {**_from_query(request.query_params, model), **request.path_params} if given is None else given
    return await recorded_call(
        request,
        action,
        given=lambda: model.recordable(arguments),
        read=lambda _: model.read(arguments),
        query=_in_query(model, but=request.path_params) if given is None else _NOTHING,
        several=_several(model),
    )


async def recorded_call(
    request: Request,
    action: str,
    *,
    given: Callable[[], Mapping[str, Any]],
    read: Callable[[ContextReference], _T],
    query: Mapping[str, str] = _NOTHING,
    several: Container[str] = (),
) -> tuple[ContextReference, _T]:
    """The incident of a call and what `read` makes of it; `given` is what the trail keeps where it is refused.

    A query string may hold the parameters of `query`, by the name under which each is listed, and those of `several`
    more than once: any other one would be answered as if it were not there.
    """

    def read_all(context: ContextReference) -> _T:
        check_query(request, known=query, several=several)
        return read(context)

    return await checked(
        read_all,
        action=action,
        given=given,
        headers=request.headers,
        trail=services_of(request).parts.trail,
        readiness=request.app.state.readiness,
        caller=caller_of(request),
    )


def services_of(request: Request) -> Services:
    """What answers the calls of this application."""
    services: Services = request.app.state.services
    return services


async def object_body(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object.

    Raises:
        InvalidInput: it is none, or has a member twice.
    """
    try:
        # Only as UTF-8: in another encoding the edge could not see how deep it is nested.
        body = parsed((await request.body()).decode("utf-8-sig"))
    except ValueError:
        raise InvalidInput(
            'the body is not JSON; send an object such as {"query": "OOMKilled"}', field="body"
        ) from None
    if not isinstance(body, dict):
        raise InvalidInput("the body is not a JSON object; send one", field="body")
    return body


def _in_query(model: type[Arguments], *, but: Container[str]) -> dict[str, str]:
    """The arguments in all their spellings, each with the one that is listed; without those of the path."""
    return {
        spelling: listed_name(model, name, spelling=LabelSpelling.DOTTED)
        for spelling, name in fields_of(model).items()
        if name not in but
    }


def _several(model: type[Arguments]) -> frozenset[str]:
    """The arguments that take several values, in all their spellings: a query string repeats them."""
    return frozenset(
        spelling
        for spelling, name in fields_of(model).items()
        if get_origin(model.model_fields[name].annotation) is tuple
    )


def _from_query(given: QueryParams, model: type[Arguments]) -> dict[str, Any]:
    several = _several(model)
    return {name: given.getlist(name) if name in several else value for name, value in given.items()}


def check_query(request: Request, *, known: Mapping[str, str] = _NOTHING, several: Container[str] = ()) -> None:
    """Check that a query string holds nothing but the parameters of `known`, and only those of `several` repeatedly.

    Raises:
        InvalidInput: it does.
    """
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if not known:
            way_out = "this path takes none" if request.method == "GET" else "send everything in the body"
            raise InvalidInput(f"unknown query parameter {shown(name)}; {way_out}", field=name)
        if count > 1 and name not in several:
            raise InvalidInput(f"query parameter {shown(name)} is given twice; give it once", field=name)
        if name not in known:
            raise unknown_argument(name, allowed=list(dict.fromkeys(known.values())))


def answered(answer: Answer) -> Response:
    """The answer as JSON."""
    # What was not set is left out: `inferred` of a search, where nothing was.
    return Response(
        answer.model_dump_json(exclude_unset=isinstance(answer, SearchAnswer)), media_type="application/json"
    )


def refusal(request: Request, failure: Failure) -> Response:
    """The error body of a failed call."""
    return error_reply(
        path=request.url.path,
        status=failure.status,
        code=failure.code,
        message=failure.message,
        field=failure.field,
        data=failure.details if _NAMES & failure.details.keys() else None,
        headers=retry_headers(failure),
    )


def retry_headers(failure: Failure) -> dict[str, str] | None:
    """When to come back, for a caller that asked for more than it may."""
    return {"Retry-After": str(math.ceil(failure.retry_after))} if failure.retry_after is not None else None
