"""Cookies of the console: which name they have, and how a browser keeps them.

`__Host-` is a promise that browsers hold: who sets such a cookie is this very host, over HTTPS. So nobody else can put
one in, neither a page of a sibling domain nor somebody on the way of a plain connection. Over plain HTTP browsers
refuse it. There, people come by loopback alone, and the cookie has a plain name. A cookie with the other name is not
looked at.
"""

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.edges.http.middleware import LOOPBACK_NAMES

SESSION_COOKIE = "formulary_session"
VISIT_COOKIE = "formulary_visit"
"""A random value in browsers that have no session; like a session, it makes forms theirs."""
_OF_THIS_HOST = "__Host-"
_HTTPS = "https"


def cookie_of(connection: HTTPConnection, name: str) -> str:
    """The value of a cookie that was set for connections like this one; empty if there is none."""
    return connection.cookies.get(_full_name(connection, name), "")


def set_cookie(response: Response, name: str, value: str, *, request: Request, seconds: int | None = None) -> None:
    """Have the browser keep a cookie: for so many seconds, or until it is closed."""
    is_plain = _is_plain(request)
    response.set_cookie(
        _full_name(request, name),
        value,
        max_age=seconds,
        path=_path(is_plain=is_plain),
        secure=not is_plain,
        httponly=True,
        samesite="strict",
    )


def forget_cookie(response: Response, name: str, *, request: Request) -> None:
    """Have the browser forget a cookie."""
    is_plain = _is_plain(request)
    response.delete_cookie(
        _full_name(request, name),
        path=_path(is_plain=is_plain),
        secure=not is_plain,
        httponly=True,
        samesite="strict",
    )


def _full_name(connection: HTTPConnection, name: str) -> str:
    return name if _is_plain(connection) else _OF_THIS_HOST + name


def _path(*, is_plain: bool) -> str:
    """`__Host-` takes no other path than `/`. Servers of one loopback address share cookies, so there it is ours."""
    return CONSOLE_PATH if is_plain else "/"


def _is_plain(connection: HTTPConnection) -> bool:
    """Whether the browser speaks plain HTTP to a loopback address.

    So a proxy need not say that it speaks HTTPS, if it passes the name of the host. Who lies about HTTPS gets a cookie
    that its own browser refuses.
    """
    schemes = (connection.url.scheme, connection.headers.get("x-forwarded-proto", ""))
    return connection.url.hostname in LOOPBACK_NAMES and _HTTPS not in schemes
