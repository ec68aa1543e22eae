"""How callers prove who they are: implementations that other packages bring, found by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, entry_points

from formulary_catalog.domain.access import Authenticator, OidcClient
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

    An implementation is an entry point of the group `formulary.authentication`: called with `audience` and `oidc`, it
    returns an asynchronous context manager that yields an `Authenticator`.

    Raises:
        StartupError: it is not known, or cannot be set up.
    """
    if not is_authenticated(settings):
        yield None
        return
    opener = _entry_point(settings.authentication).load()
    async with opener(audience=settings.token_audience, oidc=oidc_client(settings)) as authenticator:
        yield authenticator


def oidc_client(settings: Settings) -> OidcClient | None:
    """The client whose ID tokens are taken; None for none.

    Raises:
        StartupError: half of it is set.
    """
    issuer, client_id = settings.oidc_issuer, settings.oidc_client_id
    if bool(issuer) != bool(client_id):
        missing = "FORMULARY_OIDC_CLIENT_ID" if issuer else "FORMULARY_OIDC_ISSUER"
        raise StartupError(f"{missing} is not set; ID tokens are taken of one issuer and for one client: set both")
    return OidcClient(issuer=issuer, client_id=client_id) if issuer else None


def _entry_point(name: str) -> EntryPoint:
    known = {point.name: point for point in entry_points(group=_GROUP)}
    if name not in known:
        names = ", ".join([NONE, *sorted(known)])
        raise StartupError(f"FORMULARY_AUTHENTICATION is {name!r}, which is not installed; known are: {names}")
    return known[name]
