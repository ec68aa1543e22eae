"""The certificate that the webhook serves with: where it comes from, and how a new one gets into a running server."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from formulary_catalog.errors import FormularyError, StartupError
from formulary_catalog.listening.certificate import use
from formulary_operator.admission.issuing import CertificatePair, not_after

CHECK_SECONDS = 30.0
_RETRY_SECONDS = 5.0

CertificateSource = Callable[[], Awaitable[CertificatePair]]
"""Gives the certificate that is to be served now, or raises a FormularyError."""

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
