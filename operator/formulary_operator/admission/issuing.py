"""A certificate authority of our own that signs one certificate and is then forgotten: its key is never kept."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = timedelta(days=365)
RENEWAL = timedelta(days=30)
"""How long before its end a certificate is replaced."""

_SKEW = timedelta(minutes=5)
_MAX_COMMON_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePair:
    """A serving certificate and its key, in PEM. `authority` holds those who may have signed it; empty if unknown."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes = b""


def issue(names: Sequence[str], *, now: datetime, replaced: CertificatePair | None = None) -> CertificatePair:
    """A new authority, and a certificate of it for these DNS names.

    The authority of the certificate that is `replaced` stays trusted as long as it is valid: other replicas serve the
    old certificate for a while.
    """
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # Names of authorities differ: verifiers look for the one that signed by its name.
    authority_name = _name(f"formulary webhook authority {secrets.token_hex(8)}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(subject=authority_name, issuer=authority_name, key=authority_key, now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(subject=_name(names[0][:_MAX_COMMON_NAME]), issuer=authority_name, key=key, now=now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    earlier = _authority_of(replaced, now=now) if replaced else b""
    return CertificatePair(
        certificate=_pem(certificate),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        authority=_pem(authority) + earlier,
    )


def usable(pair: CertificatePair, *, names: Sequence[str], now: datetime) -> bool:
    """Whether the certificate belongs to its key and authority, is for these names, and is not to be renewed yet."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        authority = x509.load_pem_x509_certificates(pair.authority)[0]
        certificate.verify_directly_issued_by(authority)
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    ends = min(certificate.not_valid_after_utc, authority.not_valid_after_utc)
    return (
        _public(key) == _encoded(certificate)
        and set(names) <= set(held.get_values_for_type(x509.DNSName))
        and certificate.not_valid_before_utc <= now < ends - RENEWAL
    )


def not_after(pair: CertificatePair) -> float:
    """Unix time at which the certificate expires."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()


def _builder(
    *, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _SKEW)
        .not_valid_after(now.astimezone(UTC) + VALIDITY)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _authority_of(pair: CertificatePair, *, now: datetime) -> bytes:
    """The authority that signed the certificate, if it is still valid; older ones are dropped."""
    try:
        authority = x509.load_pem_x509_certificates(pair.authority)[0]
    except (ValueError, IndexError):
        return b""
    return _pem(authority) if now < authority.not_valid_after_utc else b""


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _encoded(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _public(key: PrivateKeyTypes) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
