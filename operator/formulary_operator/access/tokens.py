"""Bearer tokens before anybody has verified them: what a header holds, and what a token says about itself.

Nothing here proves anything. What a token says of itself is only ever held against it, and makes a refusal clearer.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from formulary_catalog.domain.access import OidcClient
from formulary_catalog.errors import NotAuthenticated

MAX_LENGTH = 16 * 1024
_BEARER = re.compile(r"bearer +([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)
"""RFC 6750, section 2.1."""
_OF_SERVICE_ACCOUNTS = "kubernetes.io"
"""A claim of all tokens that an API server makes."""


def bearer_token(authorization: Sequence[str], *, audience: str) -> str:
    """The token in the values of the `Authorization` headers.

    Raises:
        NotAuthenticated: there is none, or not exactly one well-formed one.
    """
    if not any(authorization):
        raise NotAuthenticated(f"the call has no token; {how_to_get_one(audience)}")
    if len(authorization) > 1:
        raise NotAuthenticated(
            "the header Authorization is sent more than once; send it once", problem="invalid_request"
        )
    matched = _BEARER.fullmatch(authorization[0])
    if matched is None or len(matched.group(1)) > MAX_LENGTH:
        raise NotAuthenticated(
            f"the header Authorization is malformed; {how_to_get_one(audience)}", problem="invalid_request"
        )
    return matched.group(1)


def how_to_get_one(audience: str) -> str:
    """The next step of somebody without a valid token."""
    return (
        "send `Authorization: Bearer TOKEN` with a ServiceAccount token, such as that of "
        f"`kubectl create token SERVICEACCOUNT --audience {audience}`"
    )


def digest(token: str) -> bytes:
    """Digest of a token, which is kept instead of it."""
    return hashlib.sha256(token.encode()).digest()


def is_for(token: str, *, audience: str) -> bool:
    """Whether the token is a JWT that says of itself that it is for the audience."""
    return audience in _audiences(token)


def is_id_token(token: str, *, client: OidcClient) -> bool:
    """Whether the token is a JWT that says of itself that the issuer made it for the client.

    A ServiceAccount's token is none, whatever the settings name: without our audience it is for somebody else.
    """
    claims = _claims(token)
    return (
        _OF_SERVICE_ACCOUNTS not in claims
        and claims.get("iss") == client.issuer
        and client.client_id in _audiences(token)
    )


def has_expired(token: str, *, now: float) -> bool:
    """Whether the token says of itself that it is past its time; `now` in seconds since 1970."""
    expires = _claims(token).get("exp")
    return isinstance(expires, int | float) and expires <= now


def refusal(token: str, *, audience: str, now: float) -> NotAuthenticated:
    """The error for a token that was refused, with the likely reason by what the token says of itself."""
    if has_expired(token, now=now):
        return NotAuthenticated(f"the token has expired; {how_to_get_one(audience)}")
    if "aud" in _claims(token) and not is_for(token, audience=audience):
        return NotAuthenticated(f"the token is not for the audience {audience}; {how_to_get_one(audience)}")
    return NotAuthenticated(f"the token is not valid here; {how_to_get_one(audience)}")


def _audiences(token: str) -> list[Any]:
    """RFC 7519, section 4.1.3: one, or a list."""
    audiences = _claims(token).get("aud", [])
    return audiences if isinstance(audiences, list) else [audiences]


def _claims(token: str) -> Mapping[str, Any]:
    """The payload of a JWT; empty if it is none."""
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
