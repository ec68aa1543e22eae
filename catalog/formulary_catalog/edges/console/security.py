"""What a browser may do with pages of the console, and which forms are taken from it.

Pages hold texts of strangers: of workflows, queries, reasons. Templates escape them, and the policy sent with each
page keeps a browser from running or loading anything that is not a file of this server.
"""

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from formulary_catalog.edges.calls.error_replies import SECURITY_HEADERS
from formulary_catalog.edges.console.sessions import (
    SESSION_COOKIE,
    SESSION_SECONDS,
    VISIT_COOKIE,
    forget_cookie,
    set_cookie,
)
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.http.middleware import MAX_TRIED_BYTES
from formulary_catalog.errors import NotAllowed

FORM_TOKEN = "csrf_token"
PERSONAL = "no-store"
_MAX_FIELDS = 100
_MAX_FILES = 1
_RETRY = "load the page again and send the form from there"


def protect(response: Response, *, request: Request) -> Response:
    """The answer with the headers that every one of the console has, and with the cookie that its forms need."""
    response.headers.update(SECURITY_HEADERS)
    response.headers.setdefault("Cache-Control", PERSONAL)
    is_page = request.method == "GET" and response.headers["Cache-Control"] == PERSONAL
    if is_page and (value := visitor_of(request).new_visit):
        set_cookie(response, VISIT_COOKIE, value, request=request)
    return response


def begin_session(response: Response, cookie: str, *, request: Request) -> None:
    """Have the browser keep a session, and nothing else."""
    forget_cookie(response, VISIT_COOKIE, request=request)
    set_cookie(response, SESSION_COOKIE, cookie, request=request, seconds=SESSION_SECONDS)


def forget_session(response: Response, *, request: Request) -> None:
    """Have the browser forget its session."""
    forget_cookie(response, SESSION_COOKIE, request=request)


async def require_own_form(request: Request) -> FormData:
    """The fields of a form that a page of this server sent, for this visitor.

    Browsers say `Origin: null` of forms on pages without a referrer, so there `Sec-Fetch-Site` has to say it. They
    send that header to HTTPS and loopback alone.

    Raises:
        NotAllowed: another page sent it, or it cannot be known.
        HTTPException: the body is no form.
    """
    site, origin = request.headers.get("sec-fetch-site", ""), request.headers.get("origin", "")
    is_named = origin not in ("", "null")
    if site not in ("", "same-origin") or (is_named and urlsplit(origin).netloc != request.headers["host"]):
        raise NotAllowed(f"the form was sent by a page of another site, so nothing was done; {_RETRY}")
    if not site and not is_named:
        raise NotAllowed(
            "the browser does not say which page sent the form, so nothing was done; open the console by HTTPS or at "
            "a loopback address"
        )
    form = await request.form(max_fields=_MAX_FIELDS, max_files=_MAX_FILES, max_part_size=MAX_TRIED_BYTES)
    token = form.get(FORM_TOKEN, "")
    if not isinstance(token, str) or not hmac.compare_digest(token.encode(), visitor_of(request).csrf.encode()):
        raise NotAllowed(f"the form is not of your present session, so nothing was done; {_RETRY}")
    return form
