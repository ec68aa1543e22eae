"""Agents of a cluster that call a server with tokens of their ServiceAccounts."""

import base64
import json
import time
from collections.abc import Mapping

import httpx2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from support.tenants import SHOP_INCIDENT

AGENTS = "agents"
QUERY = {"query": "OOMKilled critical restart"}
SEARCH = "/api/v1/workflows/search"


def by(token: str, incident: Mapping[str, str] = SHOP_INCIDENT) -> dict[str, str]:
    """The headers of a call with this token."""
    return {"Authorization": f"Bearer {token}", **incident}


async def search(url: str, token: str, incident: Mapping[str, str] = SHOP_INCIDENT) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
        return await http.post(SEARCH, json=QUERY, headers=by(token, incident))


def message(answered: httpx2.Response) -> str:
    text: str = answered.json()["error"]["message"]
    return text


def signed_again(token: str, key: rsa.RSAPrivateKey, *, lifetime: float) -> str:
    """The same token with another time to live in seconds, signed with this key."""
    header, payload, _ = token.split(".")
    now = int(time.time())
    claims = json.loads(_decoded(payload)) | {"iat": now - 120, "nbf": now - 120, "exp": now + int(lifetime)}
    signed = f"{header}.{_encoded(json.dumps(claims).encode())}"
    return f"{signed}.{_encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
