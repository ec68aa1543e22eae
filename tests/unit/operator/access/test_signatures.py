"""Which tokens are held back from the API server, as its keys come, go and change."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from formulary_operator.access.authentication import Signatures
from support.kube_clients import answered_by, gone

FIRST, SECOND = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())


def published(*keys: dict[str, Any]) -> web.Response:
    return web.json_response({"keys": list(keys)})


def public(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return described | {"kid": kid, "alg": "RS256", "use": "sig"}


def token(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, kid: str | None) -> str:
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    return jwt.encode({"aud": ["formulary"]}, key, algorithm=algorithm, headers={"kid": kid} if kid else None)


@dataclass
class World:
    """An API server that answers what a test wants, or breaks off, and a time that only a test moves."""

    answer: Callable[[], web.Response] | None
    now: float = 1000.0
    asked: list[str] = field(default_factory=list)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        return self.answer() if self.answer is not None else await gone(request)

    @asynccontextmanager
    async def signatures(self) -> AsyncIterator[Signatures]:
        async with answered_by(self) as client:
            yield Signatures(client, clock=lambda: self.now)


async def test_what_the_cluster_signed_may_be_genuine_and_nothing_else() -> None:
    curve = json.loads(ECAlgorithm.to_jwk(CURVE.public_key())) | {"kid": "c", "alg": "ES256"}
    async with World(lambda: published(public(FIRST, "a"), curve)).signatures() as signatures:
        assert await signatures.may_be_genuine(token(FIRST, "a"))
        assert await signatures.may_be_genuine(token(CURVE, "c"))
        for forged in (token(SECOND, "a"), token(FIRST, "b"), token(FIRST, None), token(FIRST, "c"), "a.b.c"):
            assert not await signatures.may_be_genuine(forged)


async def test_a_new_key_is_found_at_once_and_unknown_ones_are_not_looked_for_without_end() -> None:
    world = World(lambda: published(public(FIRST, "a")))
    async with world.signatures() as signatures:
        assert await signatures.may_be_genuine(token(FIRST, "a"))
        world.answer = lambda: published(public(FIRST, "a"), public(SECOND, "b"))
        world.now += 6
        assert await signatures.may_be_genuine(token(SECOND, "b"))
        for stranger in range(20):
            assert not await signatures.may_be_genuine(token(SECOND, f"no{stranger}"))

    assert world.asked == ["/openid/v1/jwks"] * 2


@pytest.mark.parametrize(
    "trouble",
    [
        None,
        lambda: web.json_response({"reason": "Forbidden"}, status=403),
        lambda: web.json_response({"reason": "NotFound"}, status=404),
        lambda: web.Response(status=500),
        lambda: web.json_response({"keys": "none"}),
        lambda: web.json_response({"keys": []}),
        lambda: web.json_response({"keys": [{"kty": "odd"}]}),
    ],
)
async def test_without_keys_every_token_is_left_to_the_api_server(trouble: Callable[[], web.Response] | None) -> None:
    world = World(trouble)
    async with world.signatures() as signatures:
        for kid in "ab":
            assert await signatures.may_be_genuine(token(FIRST, kid))

    assert len(world.asked) == (1 if trouble else 2)  # over another connection where one broke off


async def test_keys_outlast_an_api_server_that_is_away_and_not_the_right_to_read_them() -> None:
    world = World(lambda: published(public(FIRST, "a")))
    async with world.signatures() as signatures:
        assert not await signatures.may_be_genuine(token(SECOND, "a"))
        world.answer, world.now = None, world.now + 400
        assert not await signatures.may_be_genuine(token(SECOND, "a"))
        world.answer, world.now = lambda: web.json_response({"reason": "Forbidden"}, status=403), world.now + 400
        assert await signatures.may_be_genuine(token(SECOND, "a"))
