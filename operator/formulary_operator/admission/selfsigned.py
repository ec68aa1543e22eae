"""A self-signed certificate that all replicas share: kept in a Secret, trusted by the webhook's configuration."""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from formulary_catalog.errors import Unavailable
from formulary_operator.admission.issuing import CertificatePair, issue, usable
from formulary_operator.api.names import SECRETS, VALIDATING_WEBHOOKS
from formulary_operator.kube.client import Json, KubeClient, KubernetesRefused

_ATTEMPTS = 5
_KEYS = {"certificate": "tls.crt", "key": "tls.key", "authority": "ca.crt"}

_log = structlog.get_logger(__name__)


class SelfSigned:
    """The certificate of one Service in one Secret; `current` is a `Source` of certificates.

    Needs get, create and update on the Secret, and get and patch on the ValidatingWebhookConfiguration.
    """

    def __init__(self, client: KubeClient, *, namespace: str, secret: str, service: str, configuration: str) -> None:
        self._client = client
        self._metadata = {"namespace": namespace, "name": secret}
        self._names = [
            f"{service}.{namespace}.svc",
            f"{service}.{namespace}.svc.cluster.local",
            f"{service}.{namespace}",
        ]
        self._configuration = configuration
        self._absence_told = False

    async def current(self) -> CertificatePair:
        """The certificate to serve: the stored one while it is good, else a new one, which is stored.

        The API server is told to trust its authority before it is returned.

        Raises:
            KubernetesUnavailable, KubernetesRefused: it cannot be read, stored or made trusted.
        """
        pair = await self._agreed()
        await self._make_trusted(pair)
        return pair

    async def _agreed(self) -> CertificatePair:
        """What all replicas serve: whoever stores first wins, and the others take that."""
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
            _log.info("webhook certificate issued", secret=self._metadata["name"])
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

    async def _make_trusted(self, pair: CertificatePair) -> None:
        path = VALIDATING_WEBHOOKS.path(name=self._configuration)
        configuration = await self._client.get(path)
        if configuration is None:
            self._tell_absence()
            return
        self._absence_told = False
        bundle = base64.b64encode(pair.authority).decode()
        webhooks = configuration.get("webhooks") or []
        if all(webhook["clientConfig"].get("caBundle") == bundle for webhook in webhooks):
            return
        trusting = [_trusting(webhook, bundle=bundle) for webhook in webhooks]
        # The list is replaced whole: with the version that was read, a change in between is a conflict, not lost.
        version = configuration["metadata"]["resourceVersion"]
        await self._client.merge(path, {"metadata": {"resourceVersion": version}, "webhooks": trusting})
        _log.info("webhook authority set", configuration=self._configuration)

    def _tell_absence(self) -> None:
        if not self._absence_told:
            _log.warning(
                "no such ValidatingWebhookConfiguration; nothing is validated at apply time until there is one",
                configuration=self._configuration,
            )
        self._absence_told = True


def _trusting(webhook: Mapping[str, Any], *, bundle: str) -> Json:
    return {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}


def _pair(secret: Json | None) -> CertificatePair | None:
    """What the Secret holds; None if a part is missing or no base64."""
    data = (secret or {}).get("data") or {}
    try:
        return CertificatePair(**{part: base64.b64decode(data[key]) for part, key in _KEYS.items()})
    except (KeyError, binascii.Error):
        return None
