"""Whether this cluster signed a token: found out here, so that strangers cost the API server nothing.

The keys are those that the API server publishes for its ServiceAccounts (OpenID discovery). A signature proves less
than a TokenReview, which knows deleted ServiceAccounts and pods as well. So it is only ever held against a token.
"""

import asyncio
import time
from collections.abc import Mapping

import jwt
import structlog

from formulary_catalog.errors import FormularyError
from formulary_operator.access.cache import Clock
from formulary_operator.kube.client import KubeClient, KubernetesRefused

PATH = "/openid/v1/jwks"
_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
"""What a cluster may sign with; nothing that a public key could be mistaken for the secret of."""
_KEPT_SECONDS = 300.0
_AGAIN_SECONDS = 5.0
"""Between two readings, however many tokens name keys that nobody knows."""
_READ_SECONDS = 2.0
_log = structlog.get_logger(__name__)


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
                    published = await self._client.get(PATH)
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
            _log.warning("keys_unreadable", path=PATH, reason=reason)


def _is_signed(token: str, *, key: jwt.PyJWK | None) -> bool:
    """Only the signature is looked at: audience and time are held against a token before, by the API server after."""
    if key is None:
        return False
    try:
        jwt.PyJWS().decode(token, key, algorithms=_ALGORITHMS)
    except jwt.PyJWTError:
        return False
    return True
