"""The certificate that the webhook serves with: where it comes from, and how a new one gets into a running server."""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from formulary_catalog.errors import FormularyError, StartupError, Unavailable
from formulary_catalog.listening.certificate import use
from formulary_operator.admission.issuing import CertificatePair, issue, not_after, usable
from formulary_operator.api.names import SECRETS, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused

CHECK_SECONDS = 30.0
_RETRY_SECONDS = 5.0

CertificateSource = Callable[[], Awaitable[CertificatePair]]
"""Gives the certificate that is to be served now, or raises a FormularyError."""

_ATTEMPTS = 5
_KEYS = {"certificate": "tls.crt", "key": "tls.key", "authority": "ca.crt"}

_log = structlog.get_logger(__name__)


class ServingCertificate:
    """One TLS context for as long as the server runs; connections that are made later get the newest certificate.

    With `client_authority` it talks only to clients with a certificate that one of its authorities signed.

    Raises:
        StartupError: that file holds no such certificates.
    """

    def __init__(
        self, source: CertificateSource, *, client_authority: Path | None = None, seconds: float = CHECK_SECONDS
    ) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if client_authority is not None:
            _require_clients_of(client_authority, self.context)
        self._source = source
        self._seconds = seconds
        self._loaded: CertificatePair | None = None

    def expires_at(self) -> float:
        """Unix time at which the certificate in use expires; 0 while there is none."""
        return not_after(self._loaded) if self._loaded is not None else 0.0

    async def load(self) -> None:
        """Serve with what the source gives now.

        Raises:
            FormularyError: it gives nothing that can be served with; an earlier certificate stays in use.
        """
        pair = await self._source()
        if pair == self._loaded:
            return
        use(self.context, certificate=pair.certificate, key=pair.key)
        self._loaded = pair
        _log.info("certificate_loaded")

    async def obtain(self) -> None:
        """Load for the first time, however long the source gives nothing."""
        while True:
            try:
                await self.load()
                return
            except FormularyError as error:
                _log.warning("webhook_not_serving", reason=str(error), effect="nothing is validated at apply time")
            await asyncio.sleep(min(self._seconds, _RETRY_SECONDS))

    async def keep_fresh(self) -> None:
        """Look at the source every `seconds`, until cancelled; what goes wrong is logged and tried again."""
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self.load()
            except FormularyError as error:
                _log.warning("webhook_not_refreshed", reason=str(error), effect="the earlier certificate stays in use")


def directory(path: Path) -> CertificateSource:
    """A mounted Secret with `tls.crt` and `tls.key`, as cert-manager writes it and keeps it fresh."""

    async def read() -> CertificatePair:
        try:
            return await asyncio.to_thread(_read, path)
        except OSError as error:
            raise StartupError(
                f"{error.filename}: {error.strerror}; mount a Secret with tls.crt and tls.key there, or leave the "
                "directory out for a self-signed certificate"
            ) from error

    return read


def _require_clients_of(authority: Path, context: ssl.SSLContext) -> None:
    try:
        context.load_verify_locations(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise StartupError(
            f"FORMULARY_WEBHOOK_CLIENT_CA_FILE is {str(authority)!r}, which holds no certificates in PEM form that can "
            "be read; name the authority that signed the client certificate of the API server"
        ) from error
    context.verify_mode = ssl.CERT_REQUIRED


def _read(path: Path) -> CertificatePair:
    return CertificatePair(certificate=(path / "tls.crt").read_bytes(), key=(path / "tls.key").read_bytes())


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
