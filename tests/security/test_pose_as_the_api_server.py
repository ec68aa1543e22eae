"""A pod calls the admission webhook to have itself recorded as the creator of somebody's run or approval."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from formulary_catalog.errors import StartupError
from formulary_operator.admission.certificates import ServingCertificate
from formulary_operator.admission.issuing import CertificatePair, issue
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import PATH, application
from formulary_operator.serving import served
from support.gates import gate

NOW = datetime.now(UTC)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "formulary.dev", "version": "v1alpha1", "kind": "InvocationApproval"},
        "resource": {"group": "formulary.dev", "version": "v1alpha1", "resource": "invocationapprovals"},
        "namespace": "shop",
        "name": "forged",
        "userInfo": {"username": "alice"},
        "object": {
            "apiVersion": "formulary.dev/v1alpha1",
            "kind": "InvocationApproval",
            "metadata": {"namespace": "shop", "name": "forged", "uid": "u-1"},
            "spec": {"decision": "Approve"},
        },
    },
}


class Recorded:
    """Who was recorded as a creator."""

    def __init__(self) -> None:
        self.usernames: list[str] = []

    async def record(
        self, *, resource: str, namespace: str, name: str, uid: str, username: str, identity: Mapping[str, Any]
    ) -> None:
        self.usernames.append(username)

    async def record_author(self, *, namespace: str, version_id: str, identity: Mapping[str, Any]) -> None:
        """No workflow is created here."""


class Authority:
    """Signs client certificates."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self._home, self._key = home, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"clients of {home.name}")])
        certificate = (
            self._builder(self._name, key=self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = home / "ca.crt"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def client(self) -> tuple[Path, Path]:
        """The files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        certificate = (
            self._builder(subject, key=key)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = self._home / "client.crt", self._home / "client.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _builder(self, subject: x509.Name, *, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(minutes=5))
            .not_valid_after(NOW + timedelta(hours=1))
        )


@asynccontextmanager
async def webhook(recorded: Recorded, *, authority: Path) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """The webhook's address, and a context that trusts it."""
    pair = issue(["localhost"], now=NOW)

    async def source() -> CertificatePair:
        return pair

    async def check(entry: object) -> None:
        """The catalog takes everything."""

    certificate = ServingCertificate(source, client_authority=authority)
    await certificate.load()
    judge = Validator(check=check, records=recorded, operator_user="")
    trusting = ssl.create_default_context(cadata=pair.authority.decode())
    async with served(application(judge), host="localhost", port=0, gate=gate(), tls=certificate.context) as port:
        yield f"https://localhost:{port}{PATH}", trusting


@pytest.mark.parametrize("certificate", ["none", "of another authority"])
async def test_a_caller_without_a_certificate_of_the_authority_is_not_heard(tmp_path: Path, certificate: str) -> None:
    recorded, trusted, other = Recorded(), Authority(tmp_path / "api-server"), Authority(tmp_path / "mallory")
    async with webhook(recorded, authority=trusted.file) as (url, context):
        if certificate != "none":
            context.load_cert_chain(*other.client())
        async with httpx.AsyncClient(verify=context, trust_env=False) as pod:
            with pytest.raises(httpx.TransportError):
                await pod.post(url, json=REVIEW)
    assert recorded.usernames == []


async def test_the_api_server_is_heard(tmp_path: Path) -> None:
    recorded, trusted = Recorded(), Authority(tmp_path / "api-server")
    async with webhook(recorded, authority=trusted.file) as (url, context):
        context.load_cert_chain(*trusted.client())
        async with httpx.AsyncClient(verify=context, trust_env=False) as api_server:
            answer = (await api_server.post(url, json=REVIEW)).json()
    assert answer["response"]["allowed"], answer
    assert recorded.usernames == ["alice"]


def test_a_file_without_certificates_stops_the_start(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.crt"
    wrong.write_text("no certificate")

    async def source() -> CertificatePair:
        raise AssertionError("not asked")

    with pytest.raises(StartupError, match="FORMULARY_WEBHOOK_CLIENT_CA_FILE"):
        ServingCertificate(source, client_authority=wrong)
