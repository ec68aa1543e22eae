"""HTTPS of `formulary serve`, with a certificate that is mounted and renewed while it serves."""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from cryptography import x509

from formulary_catalog.errors import StartupError
from formulary_catalog.listening.certificate import MountedCertificate
from formulary_operator.admission.issuing import CertificatePair, issue
from support.operator_process import server
from support.waiting import wait_until


def mounted(directory: Path, names: Sequence[str] = ("localhost",)) -> CertificatePair:
    """Put a new certificate for these names into the directory."""
    pair = issue(names, now=datetime.now(UTC))
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    return pair


def test_serve_answers_https_alone_under_the_mounted_certificate(database: str, tmp_path: Path) -> None:
    trusted = ssl.create_default_context(cadata=mounted(tmp_path).authority.decode())

    with server(dsn=database, tls_dir=str(tmp_path)) as daemon:
        daemon.start()
        port = int(daemon.url.rpartition(":")[2])
        with httpx2.Client(verify=trusted, base_url=f"https://localhost:{port}", trust_env=False) as http:
            wait_until(lambda: _is_ready(http), what="the server to be ready", shown=daemon.output, seconds=60)
            found = http.get("/api/v1/workflows")
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"{daemon.url}/healthz", trust_env=False)

        assert found.status_code == 200
        assert daemon.events("ready")[0]["address"] == f"https://127.0.0.1:{port}"


@pytest.mark.parametrize("broken", ["absent", "of another key"])
def test_a_server_without_a_usable_certificate_does_not_start(tmp_path: Path, broken: str) -> None:
    mounted(tmp_path)
    if broken == "absent":
        (tmp_path / "tls.key").unlink()
    else:
        (tmp_path / "tls.key").write_bytes(issue(["localhost"], now=datetime.now(UTC)).key)

    with pytest.raises(StartupError, match=r"FORMULARY_TLS_DIR must hold|do not belong together"):
        MountedCertificate(tmp_path).load()


async def test_a_renewed_certificate_is_served_without_a_restart_and_a_broken_one_is_not(tmp_path: Path) -> None:
    mounted(tmp_path, ["old.test"])
    certificate = MountedCertificate(tmp_path, seconds=0.01)
    certificate.load()
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context)
    port = listening.sockets[0].getsockname()[1]
    fresh = asyncio.create_task(certificate.keep_fresh())
    try:
        assert await _names(port) == ["old.test"]
        (tmp_path / "tls.key").write_bytes(b"half")
        with pytest.raises(StartupError):
            certificate.load()
        assert await _names(port) == ["old.test"]
        mounted(tmp_path, ["new.test"])
        async with asyncio.timeout(10):
            while await _names(port) != ["new.test"]:
                pass
    finally:
        fresh.cancel()
        listening.close()


def _is_ready(http: httpx2.Client) -> bool:
    try:
        return http.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


async def _names(port: int) -> list[str]:
    """The names in the certificate that a new connection is shown."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anybody)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    held = x509.load_der_x509_certificate(shown).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return held.value.get_values_for_type(x509.DNSName)
