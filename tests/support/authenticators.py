"""Authenticators that fail: for want of an answer, over a header, by a bug, or until they recover."""

from collections.abc import Sequence

from formulary_catalog.domain.access import Caller
from formulary_catalog.errors import NotAuthenticated, Unavailable
from support.access import EVERYWHERE, KnownCallers, Rights


class TokensAlone:
    """An authenticator that no proxy can vouch at."""

    async def vouched_for(self, user: str, groups: Sequence[str]) -> Caller:
        raise NotAuthenticated("no proxy is believed")


class Undecided(TokensAlone):
    """An authenticator that cannot ask anybody."""

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        raise Unavailable("callers cannot be checked; retry in a few seconds")

    async def check(self) -> None:
        raise Unavailable("callers cannot be checked; retry in a few seconds")


class Strict(TokensAlone):
    """An authenticator to which every header is malformed, and whose refusal quotes in all ways."""

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        raise NotAuthenticated('the header is "odd" \r \n \\ ü; send another', problem="invalid_request")

    async def check(self) -> None:
        return


class Broken(TokensAlone):
    """An authenticator with a bug."""

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        raise RuntimeError(f"cannot read {authorization}")

    async def check(self) -> None:
        return


class Recovering(KnownCallers):
    """An authenticator that can check nobody until it is told that it can."""

    def __init__(self) -> None:
        super().__init__(auditor=Rights(see={EVERYWHERE}))
        self.works = False

    async def check(self) -> None:
        if not self.works:
            raise Unavailable("not yet; retry")
