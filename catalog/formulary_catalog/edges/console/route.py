"""The route of every page: strangers are led to the sign-in page, forms are checked, failures become pages.

The fields of an address are checked as arguments of an endpoint are. Pages belong to no incident; one that is looked at
is a field like any other.
"""

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import structlog
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.audited_call import checked
from formulary_catalog.edges.calls.failures import Failure, failure_of, within_deadline
from formulary_catalog.edges.console.security import forget_session, protect, require_own_form
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import OPEN_PATHS, Visitor, visitor_of
from formulary_catalog.edges.rest.calls import retry_headers, services_of
from formulary_catalog.errors import FormularyError, InvalidInput
from formulary_catalog.operations.arguments.target import with_target
from formulary_catalog.operations.operation import A, Call, Operation, R

SIGN_IN = f"{CONSOLE_PATH}/sign-in"
SIGN_OUT = f"{CONSOLE_PATH}/sign-out"
_HEAD_SECONDS = 2.0
"""For what is on each page: without it a page reads as if nothing were halted, or waited."""
_TITLES = {
    400: "This request is not valid",
    401: "You are not signed in",
    403: "This is not allowed",
    404: "Not found",
    408: "This took too long",
    429: "Too many requests",
    503: "Not available now",
}
_log = structlog.get_logger(__name__)


class ConsoleRoute(APIRoute):
    """A route of the console. `request.state.form` holds the fields of a form that a page of this server sent."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            visitor = visitor_of(request)
            try:
                if visitor.is_stranger and not request.url.path.startswith(OPEN_PATHS):
                    return _to_stranger(request, visitor)
                response = await within_deadline(_answer(request, handler))
            except HTTPException as error:
                return error_page(request, status=error.status_code, message=str(error.detail))
            except Exception as error:
                failure = failure_of(error)
                _log.info("console_call", page=self.name, outcome=failure.outcome)
                return _failed(request, failure)
            finally:
                await request.close()  # files of a form, of a refused one too
            return protect(response, request=request)

        return guarded


async def _answer(request: Request, handler: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
    if request.url.path == SIGN_OUT and not visitor_of(request).by_session:
        return RedirectResponse(SIGN_IN, status_code=303)  # it was ended elsewhere, or is over: nothing is left to do
    if request.method not in ("GET", "HEAD"):
        request.state.form = await require_own_form(request)
    if not request.url.path.startswith(OPEN_PATHS):
        request.state.halts, request.state.waiting_count = await asyncio.gather(_halts(request), _waiting(request))
    return await handler(request)


def error_page(request: Request, *, status: int, message: str, retryable: bool = False) -> Response:
    """What went wrong, in words, and what to do; for htmx without the frame of a page."""
    title = _TITLES.get(status) or HTTPStatus(status).phrase
    template = "failed.html" if is_by_htmx(request) else "error.html"
    page = render(request, template, status=status, title=title, message=message, retryable=retryable)
    return protect(page, request=request)


def is_by_htmx(request: Request) -> bool:
    """Whether the script of an open page asks, for a part of it."""
    return "hx-request" in request.headers


def _failed(request: Request, failure: Failure) -> Response:
    page = error_page(request, status=failure.status, message=failure.message, retryable=failure.retryable)
    page.headers.update(retry_headers(failure) or {})
    return page


def _to_stranger(request: Request, visitor: Visitor) -> Response:
    """The way to the sign-in page, or why credentials were refused that this page does not give."""
    failure = visitor.failure
    if failure is not None and not (visitor.by_session and failure.status == 401):
        return _failed(request, failure)
    response = _way_to_sign_in(request, ended=failure is not None)
    if failure is not None:
        forget_session(response, request=request)
    return protect(response, request=request)


def _way_to_sign_in(request: Request, *, ended: bool) -> Response:
    if request.method != "GET":
        return error_page(request, status=401, message="nothing was done; sign in, then send the form again")
    if is_by_htmx(request):  # the refresh of a page: the whole page has to go there
        return Response(status_code=401, headers={"HX-Redirect": SIGN_IN})
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        # Followed from another site, and browsers keep our cookie from such requests. Loaded by this page it is sent.
        return render(request, "continue.html", title="Console", target=_own_address(request))
    wanted = {"next": _own_address(request)} | ({"ended": "1"} if ended else {})
    return RedirectResponse(f"{SIGN_IN}?{urlencode(wanted)}", status_code=303)


def _own_address(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


async def _halts(request: Request) -> list[Halt]:
    """The halts that hold everywhere, for the head of the page; a page is better without them than not there."""
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            return await services_of(request).halts.everywhere()
    except (FormularyError, TimeoutError):
        return []


async def _waiting(request: Request) -> int:
    """How many runs wait that the visitor may read; 0 where that is not known in time."""
    if visitor_of(request).is_stranger:
        return 0
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            return await services_of(request).runs.waiting_count(visitor_of(request).caller)
    except (FormularyError, TimeoutError):
        return 0


def filled(request: Request) -> dict[str, Any]:
    """The fields that hold something: forms send blank ones as well. What is given several times is a list."""
    query = request.query_params
    given = {name: [value for value in query.getlist(name) if value.strip()] for name in query}
    return {name: values[0] if len(values) == 1 else values for name, values in given.items() if values}


async def asked(request: Request, action: str, model: type[A]) -> A:
    """The fields of the address as `model` has them; `action` is what the trail calls one that is refused.

    Raises:
        InvalidInput: a field is unknown, missing, of a wrong type or out of bounds.
        Unavailable: the catalog is not loaded yet.
    """
    given = {**filled(request), **request.path_params}
    _, arguments = await checked(
        lambda _: model.read(given),
        action=action,
        given=lambda: model.recordable(given),
        headers=None,
        trail=services_of(request).parts.trail,
        readiness=request.app.state.readiness,
        caller=visitor_of(request).caller,
    )
    return arguments


async def answer_to(request: Request, operation: Operation[A, R], *, arguments: A | None = None) -> R:
    """What the visitor is answered to an operation; without `arguments` they are the fields of the address.

    Raises:
        FormularyError: as `asked`, or the service's own.
    """
    if arguments is None:
        arguments = await asked(request, operation.action, operation.arguments)
    call = Call(
        services=services_of(request),
        arguments=arguments,
        context=with_target(ContextReference(), arguments),
        caller=visitor_of(request).caller,
        browsing=True,
    )
    return await operation.run(call)


async def file_text(form: FormData) -> str:
    """The text of the file in the form; empty without one.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    file = form.get("file")
    if not isinstance(file, UploadFile):
        return ""
    try:
        return (await file.read()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8", field="file") from None
