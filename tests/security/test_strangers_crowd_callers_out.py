"""Attackers with tokens that nobody signed, as many as they like, while new callers arrive."""

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from jwt.utils import base64url_encode

from support.control_plane import AUDIENCE, Cluster, ControlPlane
from support.operator_process import Daemon, server
from support.waiting import wait_until

SERVER, AGENTS = "formulary-guarded", "guarded-agents"
DISCOVERY = "system:service-account-issuer-discovery"
STRANGERS, CALLERS = 300, 20


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """That of a server which may check callers."""
    token = control_plane.service_account(SERVER, "server", audiences=[])
    control_plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": SERVER},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:auth-delegator",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "server", "namespace": SERVER}],
        }
    )
    return control_plane.kubeconfig_for(token)


@pytest.fixture(scope="module")
def genuine(control_plane: ControlPlane) -> str:
    return control_plane.service_account(AGENTS, "agent")


@pytest.fixture
def guarded(dsn: str, kubeconfig: Path) -> Iterator[Daemon]:
    with server(
        dsn=dsn,
        kubeconfig=kubeconfig,
        authentication="kubernetes",
        token_audience=AUDIENCE,
        max_connections="2000",
        max_connections_per_address="1000",
    ) as daemon:
        daemon.start().wait_ready()
        yield daemon


@contextmanager
def keys_unreadable(cluster: Cluster) -> Iterator[None]:
    """Nobody may read the keys that the cluster signs with, as in some hardened clusters."""
    binding = cluster.get("clusterrolebinding", DISCOVERY)
    cluster.kubectl("delete", "clusterrolebinding", DISCOVERY)
    try:
        yield
    finally:
        kept = {"name": DISCOVERY, "labels": binding["metadata"].get("labels", {})}
        cluster.kubectl("create", "--filename=-", input=json.dumps(binding | {"metadata": kept}))


def tokens(genuine: str, key: str | bytes, *, count: int) -> list[str]:
    """As many tokens like this one, each with another time to live, signed with a key."""
    claims = jwt.decode(genuine, options={"verify_signature": False})
    header = jwt.get_unverified_header(genuine)
    ends = int(time.time()) + 1800
    return [
        jwt.encode(claims | {"exp": ends + number}, key, algorithm="RS256", headers={"kid": header["kid"]})
        for number in range(count)
    ]


def unsigned(genuine: str) -> str:
    """A token like this one that nobody has signed."""
    return with_signature(genuine, lambda _: secrets.token_bytes(256), jti=secrets.token_hex(8))


def with_signature(genuine: str, sign: Callable[[bytes], bytes], *, algorithm: str = "RS256", **changed: str) -> str:
    """A token like this one, signed in a way that no library offers."""
    header = jwt.get_unverified_header(genuine) | {"alg": algorithm}
    claims = jwt.decode(genuine, options={"verify_signature": False}) | changed
    head, payload = (base64url_encode(json.dumps(part).encode()) for part in (header, claims))
    signed = head + b"." + payload
    return (signed + b"." + base64url_encode(sign(signed))).decode()


async def called(daemon: Daemon, given: list[str], *, address: str) -> list[int]:
    """What is answered to calls with these tokens from an address, all at once."""
    async with _client(daemon, address=address) as http:
        return await asyncio.gather(*(_status(http, token) for token in given))


@asynccontextmanager
async def besieged(daemon: Daemon, *, genuine: str) -> AsyncIterator[None]:
    """Strangers call from one address, each time with a token that was not seen before."""
    enough = asyncio.Event()

    async def insist(http: httpx2.AsyncClient) -> None:
        while not enough.is_set():
            await _status(http, unsigned(genuine))

    async with _client(daemon, address="127.0.0.2") as http:
        siege = [asyncio.create_task(insist(http)) for _ in range(STRANGERS)]
        try:
            await _connected(daemon, STRANGERS)
            yield
        finally:
            enough.set()
            await asyncio.gather(*siege, return_exceptions=True)


async def test_tokens_that_the_cluster_did_not_sign_keep_no_new_caller_out_and_are_not_asked_about(
    guarded: Daemon, control_plane: ControlPlane, genuine: str
) -> None:
    key = control_plane.signing_key.read_bytes()
    before = len(control_plane.requests(verbs=["create"], resource="tokenreviews"))
    async with besieged(guarded, genuine=genuine):
        answers = await called(guarded, tokens(genuine, key, count=CALLERS), address="127.0.0.3")

    assert answers == [200] * CALLERS
    assert len(control_plane.requests(verbs=["create"], resource="tokenreviews")) - before <= CALLERS
    assert await called(guarded, [unsigned(genuine)], address="127.0.0.3") == [401]


async def test_where_the_keys_cannot_be_read_one_address_keeps_no_caller_of_another_out(
    guarded: Daemon, control_plane: ControlPlane, genuine: str
) -> None:
    strangers = [unsigned(genuine) for _ in range(STRANGERS)]
    callers = tokens(genuine, control_plane.signing_key.read_bytes(), count=CALLERS)
    with keys_unreadable(control_plane):
        assert await called(guarded, [unsigned(genuine)], address="127.0.0.2") == [401]
        control_plane.stand_still()
        try:
            siege = asyncio.create_task(called(guarded, strangers, address="127.0.0.2"))
            await _connected(guarded, STRANGERS)
            calling = asyncio.create_task(called(guarded, callers, address="127.0.0.3"))
            await asyncio.sleep(0)
        finally:
            control_plane.go_on()
        answers = await calling
        await siege

    assert answers == [200] * CALLERS
    assert [line["path"] for line in guarded.events("keys_unreadable")] == ["/openid/v1/jwks"]


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_that_chooses_its_own_algorithm_is_refused(
    guarded: Daemon, control_plane: ControlPlane, genuine: str, algorithm: str
) -> None:
    key = serialization.load_pem_private_key(control_plane.signing_key.read_bytes(), password=None).public_key()
    published = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    signatures = {"none": lambda _: b"", "HS256": lambda signed: hmac.digest(published, signed, "sha256")}
    forged = with_signature(genuine, signatures[algorithm], algorithm=algorithm)

    called = httpx2.get(f"{guarded.url}/api/v1/openapi.json", headers={"Authorization": f"Bearer {forged}"})

    assert called.status_code == 401


def _client(daemon: Daemon, *, address: str) -> httpx2.AsyncClient:
    transport = httpx2.AsyncHTTPTransport(
        local_address=address, limits=httpx2.Limits(max_connections=None, keepalive_expiry=60)
    )
    return httpx2.AsyncClient(base_url=daemon.url, transport=transport, timeout=60)


async def _status(http: httpx2.AsyncClient, token: str) -> int:
    answer = await http.get("/api/v1/openapi.json", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


async def _connected(daemon: Daemon, clients: int) -> None:
    def are_there() -> bool:
        return daemon.metric("formulary_connections", server="catalog") >= clients

    await asyncio.to_thread(wait_until, are_there, what=f"{clients} connections", seconds=20)
