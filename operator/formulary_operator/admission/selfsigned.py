"""A self-signed certificate that all replicas share, kept in a Secret."""

import base64
import binascii
from datetime import UTC, datetime

import structlog

from formulary_catalog.errors import Unavailable
from formulary_operator.admission.issuing import CertificatePair, issue, usable
from formulary_operator.api.names import SECRETS, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused

_ATTEMPTS = 5
_KEYS = {"certificate": "tls.crt", "key": "tls.key", "authority": "ca.crt"}

_log = structlog.get_logger(__name__)


class SelfSigned:
    """The certificate of one Service in one Secret; `current` is a `Source` of certificates.

    Needs get, create and update on the Secret.
    """

    def __init__(self, client: KubeClient, *, namespace: str, secret: str, service: str) -> None:
        self._client = client
        self._metadata = {"namespace": namespace, "name": secret}
        self._names = [
            f"{service}.{namespace}.svc",
            f"{service}.{namespace}.svc.cluster.local",
            f"{service}.{namespace}",
        ]

    async def current(self) -> CertificatePair:
        """The certificate to serve: the stored one while it is good, else a new one, which is stored.

        All replicas serve the same: the first to store one wins, and the others use it.

        Raises:
            KubernetesUnavailable, KubernetesRefused: it cannot be read or stored.
        """
        for _ in range(_ATTEMPTS):
            stored = await self._client.get(SECRETS.path(**self._metadata))
            pair = _pair(stored)
            now = datetime.now(UTC)
            if pair is not None and usable(pair, names=self._names, now=now):
                return pair
            fresh = issue(self._names, now=now, replaced=pair)
            try:
                await self._store(fresh, stored=stored)
            except KubernetesRefused as error:
                if error.status == 409:
                    continue
                raise
            _log.info("webhook_certificate_issued", secret=self._metadata["name"])
            return fresh
        raise Unavailable(
            f"Secret {self._metadata['namespace']}/{self._metadata['name']} keeps changing while the webhook's "
            "certificate is stored in it; retried automatically"
        )

    async def _store(self, pair: CertificatePair, *, stored: Json | None) -> None:
        data = {key: base64.b64encode(getattr(pair, part)).decode() for part, key in _KEYS.items()}
        if stored is not None:
            await self._client.replace(SECRETS.path(**self._metadata), {**stored, "data": data})
            return
        secret = {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": self._metadata,
            "type": "kubernetes.io/tls",
            "data": data,
        }
        await self._client.create(SECRETS.path(namespace=self._metadata["namespace"]), secret)


def _pair(secret: Json | None) -> CertificatePair | None:
    """What the Secret holds; None if a part is missing or no base64."""
    data = (secret or {}).get("data") or {}
    try:
        return CertificatePair(**{part: base64.b64decode(data[key]) for part, key in _KEYS.items()})
    except (KeyError, binascii.Error):
        return None
