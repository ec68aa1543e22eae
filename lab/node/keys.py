"""The certificates, tokens and kubeconfigs of a node, made anew for each."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = timedelta(days=30)
_COMPONENTS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "kubelet": ("system:node:node1", "system:nodes"),
}
"""User and group of each component."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority of this node alone."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def write_keys(home: Path, *, address: str, service_address: str) -> None:
    """Write into `home` what etcd, API server, controllers and kubelet are started with."""
    home.mkdir(mode=0o700)
    authority = _write_authority(home, "ca")
    _write_certificate(
        home,
        "apiserver",
        authority=authority,
        names=("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        addresses=("127.0.0.1", address, service_address),
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
    )
    front = _write_authority(home, "front-proxy-ca")
    _write_certificate(home, "front-proxy-client", authority=front, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    signing = ec.generate_private_key(ec.SECP256R1())
    _write(home / "service-accounts.key", _key_pem(signing))
    _write(
        home / "service-accounts.pub",
        signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    tokens = {component: secrets.token_hex(16) for component in _COMPONENTS}
    rows = [f'{tokens[each]},{user},{each},"{group}"' for each, (user, group) in _COMPONENTS.items()]
    _write(home / "tokens.csv", "\n".join(rows).encode())
    for component, token in tokens.items():
        write_kubeconfig(home / f"{component}.kubeconfig", url=f"https://{address}:6443", keys=home, token=token)


def write_kubeconfig(path: Path, *, url: str, keys: Path, token: str) -> None:
    """Write a kubeconfig for the holder of a token."""
    cluster = {"server": url, "certificate-authority": str(keys / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": "node", "user": {"token": token}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
        "current-context": "node",
    }
    _write(path, yaml.safe_dump(config).encode())


def admin_token(keys: Path) -> str:
    """The token of the administrator."""
    return (keys / "tokens.csv").read_text().partition(",")[0]


def _write_authority(home: Path, name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _builder(subject=subject, issuer=subject, key=key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(home / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    _write(home / f"{name}.key", _key_pem(key))
    return Authority(certificate, key)


def _write_certificate(
    home: Path,
    name: str,
    *,
    authority: Authority,
    names: Sequence[str] = (),
    addresses: Sequence[str] = (),
    usage: x509.ObjectIdentifier,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject=_name(name), issuer=authority.certificate.subject, key=key)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if names or addresses:
        held = [*map(x509.DNSName, names), *(x509.IPAddress(ip_address(each)) for each in addresses)]
        builder = builder.add_extension(x509.SubjectAlternativeName(held), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    _write(home / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    _write(home / f"{name}.key", _key_pem(key))


def _builder(*, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALIDITY)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server reads keys of ServiceAccounts in this form alone.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
