"""Who calls: TokenReview with our own audience, so that a token for us is of no use elsewhere (DESIGN section 9).

People may also come with an ID token of an OpenID provider that the API server trusts. Such a token is for a client
and not for our audience, which the API server knows nothing of. So it is reviewed without one, and only if it names the
issuer and the client of our settings; the review then proves that what it says of itself is true.

Whether this cluster signed a token is found out here, so that strangers cost the API server nothing. The keys are those
that it publishes for its ServiceAccounts (OpenID discovery). A signature proves less than a TokenReview, which knows
deleted ServiceAccounts and pods as well. So it is only ever held against a token.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import jwt
import structlog

from formulary_catalog.domain.access import SEE_WORKFLOWS, Caller, OidcClient
from formulary_catalog.errors import FormularyError, NotAuthenticated
from formulary_operator.access.authorization import Authorizer, KubernetesAccess
from formulary_operator.access.identity import Identity
from formulary_operator.access.reviews import Clock, Decision, ReviewCache, Reviewer
from formulary_operator.access.tokens import bearer_token, digest, has_expired, is_for, is_id_token, refusal
from formulary_operator.kube.client import KubeClient, KubernetesRefused

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_NOBODY = Identity(user="formulary:nobody")
"""A user that no cluster knows, to ask about where any answer will do."""
_OF_THE_CLUSTER = ("system:", "kubeadm:")
"""How the names of users and groups begin that the cluster alone gives, such as `system:masters`."""
_ANYBODY_KNOWN = "system:authenticated"
"""The group that the API server adds for everybody who has proved who it is."""
_KEYS = "/openid/v1/jwks"
_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
"""What a cluster may sign with; nothing that a public key could be mistaken for the secret of."""
_KEPT_SECONDS = 300.0
_AGAIN_SECONDS = 5.0
"""Between two readings, however many tokens name keys that nobody knows."""
_READ_SECONDS = 2.0
_log = structlog.get_logger(__name__)


class KubernetesAuthenticator:
    """Callers by their tokens: an `Authenticator` of the catalog. Tokens are never kept, only their digests."""

    def __init__(
        self,
        client: KubeClient,
        *,
        audience: str,
        oidc: OidcClient | None = None,
        clock: Clock = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reviewer = Reviewer(client)
        self._signatures = Signatures(client, clock=clock)
        self._audience = audience
        self._oidc = oidc
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
        by_provider = self._oidc is not None and is_id_token(token, client=self._oidc)
        if not by_provider and not is_for(token, audience=self._audience):
            raise self._refusal(token)  # not worth a question: strangers could ask any number of them
        if has_expired(token, now=self._wall_clock()):
            raise self._refusal(token)  # the API server would grant it another minute, and a kept answer even more
        question = digest(token)
        # The keys of a provider are the API server's to read; of strangers it is asked only so often.
        if (
            not by_provider
            and not self._identities.knows(question)
            and not await self._signatures.may_be_genuine(token)
        ):
            raise self._refusal(token)
        audiences = [] if by_provider else [self._audience]
        # Anybody can make one up: who does must not keep ServiceAccounts of the same address from being identified.
        asker = f"id token, {address}" if by_provider else address
        identity = await self._identities.decide(question, lambda: self._identify(token, audiences), asker=asker)
        if identity is None:
            raise self._refusal(token)
        return self._caller(identity)

    async def vouched_for(self, user: str, groups: Sequence[str]) -> Caller:
        """The user that a proxy names, with the rights that RBAC gives to it and its groups.

        Raises:
            NotAuthenticated: the user or a group is one that the cluster alone names.
        """
        if reserved := next((name for name in (user, *groups) if name.startswith(_OF_THE_CLUSTER)), None):
            raise NotAuthenticated(
                f"the proxy names {reserved[:100]!r}, and names with {' or '.join(_OF_THE_CLUSTER)} are the cluster's "
                "own; have the proxy leave it out"
            )
        return self._caller(Identity(user=user, groups=(*groups, _ANYBODY_KNOWN)))

    def _caller(self, identity: Identity) -> Caller:
        return Caller(name=identity.user, access=KubernetesAccess(identity, self._authorizer))

    async def check(self) -> None:
        """Ask for a review, whatever its answer is.

        Raises:
            Unavailable: there is none, so that no caller could be checked either.
        """
        await self._authorizer.allows(_NOBODY, SEE_WORKFLOWS, namespace=None)

    async def _identify(self, token: str, audiences: Sequence[str]) -> Decision[Identity | None]:
        status = await self._reviewer.review(
            _REVIEWS,
            api_version="authentication.k8s.io/v1",
            kind="TokenReview",
            spec={"token": token, **({"audiences": list(audiences)} if audiences else {})},
        )
        identity = _identity(status, audiences=audiences)
        return Decision(value=identity, lasting=identity is not None)

    def _refusal(self, token: str) -> NotAuthenticated:
        return refusal(token, audience=self._audience, now=self._wall_clock())


@asynccontextmanager
async def open_authentication(
    *, audience: str, oidc: OidcClient | None = None
) -> AsyncIterator[KubernetesAuthenticator]:
    """The entry point that the catalog finds under `FORMULARY_AUTHENTICATION=kubernetes`.

    Raises:
        StartupError: there is no way to an API server.
    """
    client = await KubeClient.connect()
    authenticator = KubernetesAuthenticator(client, audience=audience, oidc=oidc)
    try:
        yield authenticator
    finally:
        await authenticator.close()
        await client.close()


def _identity(status: Mapping[str, Any], *, audiences: Sequence[str]) -> Identity | None:
    """The user of a token that is good for all audiences. An API server that ignores audiences names none."""
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    if not {*audiences} <= {*(status.get("audiences") or ())}:
        return None
    return Identity(
        user=user["username"],
        uid=user.get("uid") or "",
        groups=tuple(user.get("groups") or ()),
        extra=tuple(sorted((key, tuple(values or ())) for key, values in (user.get("extra") or {}).items())),
    )


class Signatures:
    """The keys of the cluster, read when they are needed and read again when they may have changed."""

    def __init__(self, client: KubeClient, *, clock: Clock = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._tried_at = float("-inf")
        self._reading = asyncio.Lock()
        self._unreadable = ""

    async def may_be_genuine(self, token: str) -> bool:
        """False where the keys of the cluster can be read, and none of them signed the token."""
        try:
            key_id = str(jwt.get_unverified_header(token).get("kid", ""))
        except jwt.InvalidTokenError:
            return False
        if self._is_due(_KEPT_SECONDS) or (key_id not in self._keys and self._is_due(_AGAIN_SECONDS)):
            await self._read()
        return not self._keys or _is_signed(token, key=self._keys.get(key_id))

    def _is_due(self, seconds: float) -> bool:
        return self._clock() - self._tried_at > seconds

    async def _read(self) -> None:
        """Once for all who wait for it. What was known stays known while the API server does not answer."""
        async with self._reading:
            if not self._is_due(_AGAIN_SECONDS):
                return
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    published = await self._client.get(_KEYS)
                self._keys = {key.key_id or "": key for key in jwt.PyJWKSet.from_dict(published or {}).keys}
                self._unreadable = ""
            except KubernetesRefused as error:
                self._keys = {}
                self._say(f"the Kubernetes API answers {error.status} {error.reason}")
            except (FormularyError, TimeoutError, jwt.PyJWTError) as error:
                self._say(str(error) or type(error).__name__)
            self._tried_at = self._clock()

    def _say(self, reason: str) -> None:
        """In the log, when it changes: tokens are then checked by TokenReview alone."""
        if reason != self._unreadable:
            self._unreadable = reason
            _log.warning("keys_unreadable", path=_KEYS, reason=reason)


def _is_signed(token: str, *, key: jwt.PyJWK | None) -> bool:
    """Only the signature is looked at: audience and time are held against a token before, by the API server after."""
    if key is None:
        return False
    try:
        jwt.PyJWS().decode(token, key, algorithms=_ALGORITHMS)
    except jwt.PyJWTError:
        return False
    return True
