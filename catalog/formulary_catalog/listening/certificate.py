"""The certificate that a server proves itself with, and how a renewed one gets into a server that runs."""

import asyncio
import os
import ssl
import tempfile
from pathlib import Path

import structlog

from formulary_catalog.errors import StartupError

CHECK_SECONDS = 30.0
_log = structlog.get_logger(__name__)


class MountedCertificate:
    """`tls.crt` and `tls.key` of a directory, as a mounted Secret has them and cert-manager keeps them fresh.

    There is one TLS context for as long as the server runs; connections that are made later get the newest certificate.
    """

    def __init__(self, directory: Path, *, seconds: float = CHECK_SECONDS) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._directory = directory
        self._seconds = seconds
        self._loaded: tuple[bytes, bytes] | None = None

    def load(self) -> None:
        """Serve with what the directory holds now.

        Raises:
            StartupError: it holds nothing that can be served with; an earlier certificate stays in use.
        """
        try:
            pair = (self._directory / "tls.crt").read_bytes(), (self._directory / "tls.key").read_bytes()
        except OSError as error:
            raise StartupError(
                f"{error.filename}: {error.strerror}; FORMULARY_TLS_DIR must hold tls.crt and tls.key, or be left out"
            ) from error
        if pair != self._loaded:
            use(self.context, certificate=pair[0], key=pair[1])
            self._loaded = pair

    async def keep_fresh(self) -> None:
        """Look at the directory every `seconds`, until cancelled; what goes wrong is logged and tried again."""
        while True:
            await asyncio.sleep(self._seconds)
            try:
                self.load()
            except StartupError as error:
                _log.warning("certificate_not_refreshed", reason=str(error), effect="the earlier one stays in use")


def use(context: ssl.SSLContext, *, certificate: bytes, key: bytes) -> None:
    """Have the context serve with this pair, in PEM.

    OpenSSL reads files only, so they exist for a moment, readable by us alone. Call it in the thread of the event loop:
    a connection that began in between would get the new certificate with the old key.

    Raises:
        StartupError: the pair cannot be used; the context keeps the one that it has.
    """
    with tempfile.TemporaryDirectory(prefix="formulary-tls-") as private:
        files = _write(Path(private, "tls.crt"), certificate), _write(Path(private, "tls.key"), key)
        try:
            # A refused pair leaves a context with half of it, so another one tries it first.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files)
            context.load_cert_chain(*files)
        except (ssl.SSLError, ValueError) as error:
            raise StartupError(
                "the certificate and key to serve with cannot be used: they are not valid PEM, or do not belong "
                "together; renew them"
            ) from error


def _write(file: Path, content: bytes) -> Path:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600), "wb") as opened:
        opened.write(content)
    return file
