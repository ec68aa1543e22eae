"""Certificates of the webhook: what is issued, and what a running server serves with."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.applications import Starlette

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.errors import StartupError
from formulary_operator.admission.certificates import ServingCertificate, directory
from formulary_operator.admission.issuing import VALIDITY, CertificatePair, issue, usable
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import run_webhook
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.serving import served
from support.connection_limits import connection_limits

NAMES = ["localhost", "webhook.formulary.svc"]
NOW = datetime.now(UTC)


class Unasked:
    """Stands for what judges ask."""

    async def check(self, _: CatalogEntry) -> None:
        raise AssertionError("nobody asks")

    async def record(self, **_: object) -> None:
        raise AssertionError("nobody asks")

    async def record_author(self, **_: object) -> None:
        raise AssertionError("nobody asks")


def _written(path: Path, pair: CertificatePair) -> Path:
    (path / "tls.crt").write_bytes(pair.certificate)
    (path / "tls.key").write_bytes(pair.key)
    return path


@asynccontextmanager
async def _serving(certificate: ServingCertificate) -> AsyncIterator[int]:
    async with served(
        Starlette(), host="127.0.0.1", port=0, limits=connection_limits(), tls=certificate.context
    ) as port:
        yield port


async def _is_trusted(port: int, pair: CertificatePair, *, name: str = "localhost") -> bool:
    """Whether a client that trusts the pair's authority accepts the server under this name."""
    trusting = ssl.create_default_context(cadata=pair.authority.decode())
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=name)
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def _until_listening(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            with suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)


async def _until_trusted(port: int, pair: CertificatePair) -> None:
    async with asyncio.timeout(10):
        while True:
            if await _is_trusted(port, pair):
                return
            await asyncio.sleep(0.02)


def test_an_issued_certificate_is_good_until_thirty_days_before_its_end() -> None:
    pair = issue(NAMES, now=NOW)
    assert usable(pair, names=NAMES, now=NOW)
    assert usable(pair, names=NAMES, now=NOW + timedelta(days=334))
    assert not usable(pair, names=NAMES, now=NOW + timedelta(days=336))
    assert not usable(pair, names=NAMES, now=NOW - timedelta(hours=1))


def test_a_certificate_for_other_names_is_not_good() -> None:
    assert not usable(issue(NAMES, now=NOW), names=[*NAMES, "other.formulary.svc"], now=NOW)


def test_parts_that_do_not_belong_together_are_not_good() -> None:
    pair, other = issue(NAMES, now=NOW), issue(NAMES, now=NOW)
    mixed = [
        CertificatePair(certificate=pair.certificate, key=other.key, authority=pair.authority),
        CertificatePair(certificate=pair.certificate, key=pair.key, authority=other.authority),
        CertificatePair(certificate=pair.certificate, key=pair.key),
        CertificatePair(certificate=b"", key=pair.key, authority=pair.authority),
        CertificatePair(certificate=pair.certificate, key=b"no key", authority=pair.authority),
    ]
    assert not any(usable(each, names=NAMES, now=NOW) for each in mixed)


def test_the_key_is_not_shown() -> None:
    assert "PRIVATE" not in repr(issue(NAMES, now=NOW))


async def test_a_replaced_authority_stays_trusted_and_the_one_before_it_does_not(tmp_path: Path) -> None:
    oldest = issue(NAMES, now=NOW)
    old = issue(NAMES, now=NOW, replaced=oldest)
    new = issue(NAMES, now=NOW, replaced=old)
    for pair, trusted in ((new, True), (old, True), (oldest, False)):
        certificate = ServingCertificate(directory(_written(tmp_path, pair)))
        await certificate.load()
        async with _serving(certificate) as port:
            assert await _is_trusted(port, new) is trusted


def test_an_authority_that_has_ended_is_dropped() -> None:
    ended = issue(NAMES, now=NOW - timedelta(days=400))
    assert issue(NAMES, now=NOW, replaced=ended).authority.count(b"BEGIN CERTIFICATE") == 1


async def test_a_server_is_trusted_under_each_name_of_its_certificate_and_no_other(tmp_path: Path) -> None:
    pair = issue(NAMES, now=NOW)
    certificate = ServingCertificate(directory(_written(tmp_path, pair)))
    await certificate.load()
    async with _serving(certificate) as port:
        assert [await _is_trusted(port, pair, name=name) for name in (*NAMES, "elsewhere")] == [True, True, False]


async def test_a_running_server_takes_a_new_certificate_and_keeps_it_when_the_next_is_broken(tmp_path: Path) -> None:
    old, new = issue(NAMES, now=NOW), issue(NAMES, now=NOW)
    certificate = ServingCertificate(directory(_written(tmp_path, old)), seconds=0.02)
    await certificate.load()
    async with _serving(certificate) as port:
        keeping = asyncio.create_task(certificate.keep_fresh())
        _written(tmp_path, new)
        await _until_trusted(port, new)
        assert not await _is_trusted(port, old)
        keeping.cancel()
        (tmp_path / "tls.key").write_bytes(old.key)
        with pytest.raises(StartupError, match="do not belong together"):
            await certificate.load()
        (tmp_path / "tls.crt").write_bytes(b"half a file")
        with pytest.raises(StartupError, match="not valid PEM"):
            await certificate.load()
        assert await _is_trusted(port, new)


async def test_the_webhook_listens_once_there_is_a_certificate_and_until_it_is_stopped(tmp_path: Path) -> None:
    judge = Validator(check=Unasked().check, records=Unasked(), operator_user="", metrics=OperatorMetrics())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    certificate = ServingCertificate(directory(tmp_path), seconds=0.02)
    assert certificate.expires_at() == 0
    running = asyncio.create_task(
        run_webhook(
            host="127.0.0.1", port=port, limits=connection_limits(), certificate=certificate, judge=judge, token=""
        )
    )
    pair = issue(NAMES, now=NOW)
    with pytest.raises(ConnectionRefusedError):
        await _is_trusted(port, pair)
    _written(tmp_path, pair)
    await _until_listening(port)
    assert await _is_trusted(port, pair)
    assert certificate.expires_at() == (NOW + VALIDITY).timestamp() // 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ConnectionRefusedError):
        await _is_trusted(port, pair)


async def test_nothing_of_the_key_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted, temporary = tmp_path / "mounted", tmp_path / "temporary"
    mounted.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    await ServingCertificate(directory(_written(mounted, issue(NAMES, now=NOW)))).load()
    assert list(temporary.iterdir()) == []


async def test_a_missing_file_is_named_with_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"tls\.crt: No such file .* mount a Secret"):
        await ServingCertificate(directory(tmp_path)).load()
