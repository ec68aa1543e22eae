"""An OpenID provider on loopback, for an API server that takes its ID tokens."""

import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

_KEY_ID = "test"


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """Its address, and the authority that its certificate is verified with (PEM)."""

    url: str
    authority: Path
    _key: rsa.RSAPrivateKey = field(repr=False)

    def id_token(self, user: str, *, client_id: str, groups: list[str], **claims: Any) -> str:
        """An ID token for a client. `claims` replace what is usual."""
        said = {"iss": self.url, "aud": client_id, "sub": user, "groups": groups, "exp": int(time.time()) + 600}
        return jwt.encode({**said, **claims}, self._key, algorithm="RS256", headers={"kid": _KEY_ID})


@contextmanager
def oidc_issuer(home: Path) -> Iterator[OidcIssuer]:
    """A provider that publishes its key; its files are in `home`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate, private = loopback_certificate(home, key=key)
    published: dict[str, Mapping[str, Any]] = {}

    class Discovery(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = published.get(self.path)
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests read what they print."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Discovery)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.server_port}"
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    published["/jwks"] = {"keys": [{**public, "kid": _KEY_ID, "alg": "RS256", "use": "sig"}]}
    published["/.well-known/openid-configuration"] = {
        "issuer": url,
        "jwks_uri": f"{url}/jwks",
        "authorization_endpoint": f"{url}/authorize",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield OidcIssuer(url, certificate, key)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def loopback_certificate(home: Path, *, key: rsa.RSAPrivateKey) -> tuple[Path, Path]:
    """The files of a certificate for 127.0.0.1 that its own key has signed, and of that key."""
    certificate, private = home / "issuer.crt", home / "issuer.key"
    certificate.write_bytes(_certificate(key))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


def _certificate(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
