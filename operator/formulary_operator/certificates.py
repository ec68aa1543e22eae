"""The certificate that the webhook serves with: where it comes from, and how a new one gets into a running server."""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from formulary_catalog.errors import FormularyError, StartupError
from formulary_operator.issuing import CertificatePair

CHECK_SECONDS = 30.0
_RETRY_SECONDS = 5.0

Source = Callable[[], Awaitable[CertificatePair]]
"""Gives the certificate that is to be served now, or raises a FormularyError."""

_log = structlog.get_logger(__name__)


class ServingCertificate:
    """One TLS context for as long as the server runs; connections that are made later get the newest certificate."""

    def __init__(self, source: Source, *, seconds: float = CHECK_SECONDS) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._source = source
        self._seconds = seconds
        self._loaded: CertificatePair | None = None

    async def load(self) -> None:
        """Serve with what the source gives now.

        Raises:
            FormularyError: it gives nothing that can be served with; an earlier certificate stays in use.
        """
        pair = await self._source()
        if pair == self._loaded:
            return
        # Not in a thread: a connection that begins in between would get the new certificate with the old key.
        _load(pair, self.context)
        self._loaded = pair
        _log.info("serving certificate loaded")

    async def obtain(self) -> None:
        """Load for the first time, however long the source gives nothing."""
        while True:
            try:
                await self.load()
                return
            except FormularyError as error:
                _log.warning("no certificate for the webhook yet; nothing is validated at apply time", error=str(error))
            await asyncio.sleep(min(self._seconds, _RETRY_SECONDS))

    async def keep_fresh(self) -> None:
        """Look at the source every `seconds`, until cancelled; what goes wrong is logged and tried again."""
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self.load()
            except FormularyError as error:
                _log.warning("serving certificate not refreshed; the earlier one stays in use", error=str(error))


def directory(path: Path) -> Source:
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


def _read(path: Path) -> CertificatePair:
    return CertificatePair(certificate=(path / "tls.crt").read_bytes(), key=(path / "tls.key").read_bytes())


def _load(pair: CertificatePair, context: ssl.SSLContext) -> None:
    """Have the context use the pair. OpenSSL reads files only, so they exist for a moment, readable by us alone."""
    with tempfile.TemporaryDirectory(prefix="formulary-tls-") as private:
        certificate = _write(Path(private, "tls.crt"), pair.certificate)
        key = _write(Path(private, "tls.key"), pair.key)
        try:
            # A refused pair leaves a context with half of it, so another one tries it first.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
            context.load_cert_chain(certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise StartupError(
                "the certificate and key for the webhook cannot be used: they are not valid PEM, or do not belong "
                "together; renew them"
            ) from error


def _write(file: Path, content: bytes) -> Path:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600), "wb") as opened:
        opened.write(content)
    return file
