"""Who is calling, from the edge that found it out to whatever answers the call (DESIGN section 9).

`edges.http.middleware` stores the caller with the request; routes of MCP, REST and the console read it from there.
"""

from starlette.requests import Request
from starlette.types import Scope

from formulary_catalog.domain.access import EVERYTHING, Caller

LOCAL = Caller(name="local", access=EVERYTHING, may_set_context=True)
"""Everybody, where there is no authentication: the server then listens on loopback only."""
_KEY = "formulary.caller"


def with_caller(scope: Scope, caller: Caller) -> Scope:
    """The scope of a request whose caller is known."""
    return {**scope, _KEY: caller}


def caller_of(request: Request) -> Caller:
    """Who sent the request. Fails where the edge did not find it out, rather than take anybody for granted."""
    caller: Caller = request.scope[_KEY]
    return caller
