"""Signing in with a pasted token, and signing out."""

from urllib.parse import unquote, urlsplit

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.edges.console.route import SIGN_IN, SIGN_OUT, ConsoleRoute
from formulary_catalog.edges.console.security import begin_session, forget_session
from formulary_catalog.edges.console.sessions import SESSION_COOKIE, SESSION_SECONDS, cookie_of
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import Door
from formulary_catalog.edges.http.authentication import Refusal
from formulary_catalog.errors import Unavailable

router = APIRouter(route_class=ConsoleRoute)


@router.get(SIGN_IN)
async def sign_in_page(request: Request) -> Response:
    """The form for a token; where nobody is asked for one, the first page."""
    if not _door(request).asks:
        return RedirectResponse(CONSOLE_PATH, status_code=303)
    return _form(request, wanted=request.query_params.get("next", ""), ended="ended" in request.query_params)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Begin a session with the token, if the server takes it from agents too."""
    door, form = _door(request), request.state.form
    token, wanted = str(form.get("token", "")).strip(), str(form.get("next", ""))
    if not token:
        return _form(request, wanted=wanted, problem="The field is empty. Paste a token.", status=400)
    admitted = await door.admit(token, scope=request.scope)
    if isinstance(admitted, Refusal):
        failure = admitted.failure
        return _form(request, wanted=wanted, problem=failure.message, status=failure.status)
    response = RedirectResponse(_inside(wanted), status_code=303)
    begin_session(response, door.sessions.begin(token), request=request)
    return response


@router.post(SIGN_OUT)
async def sign_out(request: Request) -> Response:
    """End the session: for every replica, and in the browser."""
    try:
        await _door(request).sessions.end(cookie_of(request, SESSION_COOKIE))
    except Unavailable as error:
        raise Unavailable(f"it is not known whether you are signed out; send the form again: {error}") from error
    response = RedirectResponse(SIGN_IN, status_code=303)
    forget_session(response, request=request)
    return response


def _form(request: Request, *, wanted: str, ended: bool = False, problem: str = "", status: int = 200) -> Response:
    return render(
        request,
        "sign_in.html",
        status=status,
        title="Sign in",
        wanted=_inside(wanted),
        ended=ended,
        problem=problem,
        hours=SESSION_SECONDS // 3600,
        audience=_door(request).audience,
    )


def _inside(address: str) -> str:
    """The address, if it leads to a page of the console; else the first page."""
    parts = urlsplit(address)
    is_inside = not parts.scheme and not parts.netloc and _stays_inside(parts.path)
    return address if is_inside and address.isprintable() and "\\" not in address else CONSOLE_PATH


def _stays_inside(path: str) -> bool:
    """Whether the path is one of the console, however often a browser or a proxy decodes it."""
    before = ""
    while path != before:
        is_plain = "\\" not in path and "//" not in path and not {".", ".."} & {*path.split("/")}
        if not (path.startswith(f"{CONSOLE_PATH}/") and is_plain):
            return False
        before, path = path, unquote(path)
    return True


def _door(request: Request) -> Door:
    door: Door = request.app.state.door
    return door
