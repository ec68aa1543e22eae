"""Who calls: TokenReview with our own audience, so that a token for us is of no use elsewhere (DESIGN section 9)."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from formulary_catalog.domain.access import SEE_WORKFLOWS, Caller
from formulary_catalog.errors import NotAuthenticated
from formulary_operator.access.authorization import Authorizer, KubernetesAccess
from formulary_operator.access.cache import Clock, Decision, ReviewCache
from formulary_operator.access.identity import Identity
from formulary_operator.access.reviews import Reviewer
from formulary_operator.access.signatures import Signatures
from formulary_operator.access.tokens import bearer_token, digest, has_expired, is_for, refusal
from formulary_operator.kube.client import KubeClient

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_NOBODY = Identity(user="formulary:nobody")
"""A user that no cluster knows, to ask about where any answer will do."""


class KubernetesAuthenticator:
    """Callers by their tokens: an `Authenticator` of the catalog. Tokens are never kept, only their digests."""

    def __init__(
        self,
        client: KubeClient,
        *,
        audience: str,
        clock: Clock = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reviewer = Reviewer(client)
        self._signatures = Signatures(client, clock=clock)
        self._audience = audience
        self._wall_clock = wall_clock
        self._identities: ReviewCache[Identity | None] = ReviewCache(clock=clock)
        self._authorizer = Authorizer(self._reviewer, clock=clock)

    async def close(self) -> None:
        """Ask no more."""
        await self._identities.close()
        await self._authorizer.close()

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        """The user whose token this is. Callers that are known come before others, whatever strangers do.

        Raises:
            NotAuthenticated: there is no token, or the API server does not know it as one for our audience.
            Unavailable: the API server does not say.
        """
        token = bearer_token(authorization, audience=self._audience)
        if not is_for(token, audience=self._audience):
            raise self._refusal(token)  # not worth a question: strangers could ask any number of them
        if has_expired(token, now=self._wall_clock()):
            raise self._refusal(token)  # the API server would grant it another minute, and a kept answer even more
        question = digest(token)
        if not self._identities.knows(question) and not await self._signatures.may_be_genuine(token):
            raise self._refusal(token)
        identity = await self._identities.decide(question, lambda: self._identify(token), asker=address)
        if identity is None:
            raise self._refusal(token)
        return Caller(name=identity.user, access=KubernetesAccess(identity, self._authorizer))

    async def check(self) -> None:
        """Ask for a review, whatever its answer is.

        Raises:
            Unavailable: there is none, so that no caller could be checked either.
        """
        await self._authorizer.allows(_NOBODY, SEE_WORKFLOWS, namespace=None)

    async def _identify(self, token: str) -> Decision[Identity | None]:
        status = await self._reviewer.review(
            PATH,
            api_version="authentication.k8s.io/v1",
            kind="TokenReview",
            spec={"token": token, "audiences": [self._audience]},
        )
        identity = _identity(status, audience=self._audience)
        return Decision(value=identity, lasting=identity is not None)

    def _refusal(self, token: str) -> NotAuthenticated:
        return refusal(token, audience=self._audience, now=self._wall_clock())


@asynccontextmanager
async def open_authentication(*, audience: str) -> AsyncIterator[KubernetesAuthenticator]:
    """The entry point that the catalog finds under `FORMULARY_AUTHENTICATION=kubernetes`.

    Raises:
        StartupError: there is no way to an API server.
    """
    client = await KubeClient.connect()
    authenticator = KubernetesAuthenticator(client, audience=audience)
    try:
        yield authenticator
    finally:
        await authenticator.close()
        await client.close()


def _identity(status: Mapping[str, Any], *, audience: str) -> Identity | None:
    """The user of a token that is good for the audience. An API server that ignores audiences names none."""
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    if audience not in (status.get("audiences") or ()):
        return None
    return Identity(
        user=user["username"],
        uid=user.get("uid") or "",
        groups=tuple(user.get("groups") or ()),
        extra=tuple(sorted((key, tuple(values or ())) for key, values in (user.get("extra") or {}).items())),
    )
