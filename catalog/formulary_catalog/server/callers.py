"""Who is calling, and what it may do (DESIGN section 9)."""

from formulary_catalog.domain.request import Caller

LOCAL = Caller(name="local")
"""Everybody, where there is no authentication: the server then listens on loopback only."""


def may_set_context(caller: Caller) -> bool:
    """Whether the caller may say itself which custom labels constrain a search."""
    return caller == LOCAL
