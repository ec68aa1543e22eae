"""How callers prove who they are: implementations that other packages bring, found by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, entry_points

from formulary_catalog.domain.access import Authenticator
from formulary_catalog.errors import StartupError
from formulary_catalog.settings import Settings

NONE = "none"
_GROUP = "formulary.authentication"


def is_authenticated(settings: Settings) -> bool:
    """Whether callers have to prove who they are."""
    return settings.authentication != NONE


@asynccontextmanager
async def authentication(settings: Settings) -> AsyncIterator[Authenticator | None]:
    """The way of the settings, None for none.

    An implementation is an entry point of the group `formulary.authentication`: called with `audience`, it returns an
    asynchronous context manager that yields an `Authenticator`.

    Raises:
        StartupError: it is not known, or cannot be set up.
    """
    if not is_authenticated(settings):
        yield None
        return
    opener = _entry_point(settings.authentication).load()
    async with opener(audience=settings.token_audience) as authenticator:
        yield authenticator


def _entry_point(name: str) -> EntryPoint:
    known = {point.name: point for point in entry_points(group=_GROUP)}
    if name not in known:
        names = ", ".join([NONE, *sorted(known)])
        raise StartupError(f"FORMULARY_AUTHENTICATION is {name!r}, which is not installed; known are: {names}")
    return known[name]
