"""Our client of the Kubernetes API where the API server, or what stands before it, does not behave."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes.aio.config import incluster_config

from formulary_catalog.errors import StartupError
from formulary_operator.admission.issuing import issue
from formulary_operator.api.names import SECRETS, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused, KubernetesUnavailable
from support.kube_clients import Answer, answered_by, api_server, connected, connected_to, gone, kubeconfig_of

THING = SECRETS.path(namespace="shop", name="thing")
THINGS = SECRETS.path(namespace="shop")


def always(status: int = 200, body: Any = None, *, text: str = "") -> Answer:
    """The same answer to everything: JSON, or a text instead."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text) if text else web.json_response(body or {}, status=status)

    return answer


def status_object(status: int, reason: str, *, name: str = "") -> Json:
    """A refusal as the API server words it."""
    return {"kind": "Status", "code": status, "reason": reason, "message": "no", "details": {"name": name}}


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_server_in_trouble_is_unavailable_and_says_why_where_it_knows(status: int) -> None:
    async with answered_by(always(status, {"message": "the webhook does not answer"})) as client:
        with pytest.raises(KubernetesUnavailable) as caught:
            await client.get(THING)
    assert str(caught.value) == (
        f"the Kubernetes API answers {status} to GET {THING} (the webhook does not answer); retried automatically"
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "BadRequest"), (401, "Unauthorized"), (403, "Forbidden"), (409, "Conflict"), (410, "Expired")],
)
async def test_a_refusal_carries_status_reason_and_name(status: int, reason: str) -> None:
    async with answered_by(always(status, status_object(status, reason, name="thing"))) as client:
        with pytest.raises(KubernetesRefused) as caught:
            await client.replace(THING, {})
    error = caught.value
    assert (error.status, error.reason, error.about) == (status, reason, "thing")
    assert str(error) == f"the Kubernetes API refuses PUT {THING} with {status} {reason}: no"


async def test_a_missing_object_is_none_and_a_missing_kind_a_refusal() -> None:
    async with answered_by(always(404, status_object(404, "NotFound", name="thing"))) as client:
        assert await client.get(THING) is None
        assert await client.metadata(THING) is None
        assert await client.merge(THING, {}) is None
        assert not await client.delete(THING)
    async with answered_by(always(404, text="404 page not found")) as client:
        with pytest.raises(KubernetesRefused, match="404 404"):
            await client.get(THING)
        assert not await client.serves(THINGS)


@pytest.mark.parametrize(
    "text", ["<html>a proxy</html>", '["odd"]', '"odd"', '{"a":' * 200_000, "[" * 200_000], ids=lambda text: text[:9]
)
@pytest.mark.parametrize("status", [200, 409, 503])
async def test_what_is_no_object_of_json_is_an_error_of_ours(text: str, status: int) -> None:
    async with answered_by(always(status, text=text)) as client:
        with pytest.raises((KubernetesUnavailable, KubernetesRefused)) as caught:
            await client.get(THING)
    assert isinstance(caught.value, KubernetesRefused) == (status == 409)
    if status == 200:
        assert "is not the Kubernetes API" in str(caught.value)


async def test_objects_are_sent_however_deep_they_are_nested() -> None:
    deep: Json = {}
    for _ in range(300):
        deep = {"a": [deep]}
    received: list[Any] = []

    async def keep(request: web.BaseRequest) -> web.StreamResponse:
        received.append(json.loads(await request.read()))
        return web.json_response({})

    async with answered_by(keep) as client:
        await client.create(THINGS, deep)
    assert received == [deep]


async def test_a_broken_connection_is_unavailable_and_so_is_one_that_is_refused() -> None:
    async with answered_by(gone) as client:
        with pytest.raises(KubernetesUnavailable, match="does not answer"):
            await client.create(THINGS, {})
    async with api_server(gone) as url:
        pass
    async with connected_to(url) as client:
        with pytest.raises(KubernetesUnavailable, match="does not answer"):
            await client.get(THING)
        assert not await client.serves(THINGS)


async def test_every_call_ends_in_time_even_if_bytes_keep_coming() -> None:
    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with answered_by(drip, seconds=0.2) as client, asyncio.timeout(5):
        with pytest.raises(KubernetesUnavailable, match="does not answer"):
            await client.get(THING)


async def test_a_creation_with_a_deadline_tells_the_server_of_it() -> None:
    asked: list[str] = []

    async def never(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.query_string)
        await asyncio.sleep(30)
        return web.Response()

    async with answered_by(never) as client, asyncio.timeout(5):
        with pytest.raises(KubernetesUnavailable, match=rf"did not answer POST {THINGS} within 0\.2 s"):
            await client.create(THINGS, {}, dry_run=True, seconds=0.2)
    assert asked == ["dryRun=All&timeout=200ms"]


async def test_nothing_is_sent_to_where_a_redirect_points() -> None:
    async with api_server(always()) as elsewhere:

        async def redirect(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": f"{elsewhere}/stolen"})

        async with answered_by(redirect, user={"token": "secret"}) as client:
            with pytest.raises(KubernetesRefused, match=f"refuses POST {THINGS} with 307"):
                await client.create(THINGS, {})


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with answered_by(always(body={"kind": "Secret"})) as client:
        assert await client.get(THING) == {"kind": "Secret"}


async def test_many_calls_at_once_share_a_bounded_number_of_connections() -> None:
    connections: set[Any] = set()

    async def count(request: web.BaseRequest) -> web.StreamResponse:
        connections.add(request.transport)
        await asyncio.sleep(0.01)
        return web.json_response({})

    async with answered_by(count) as client:
        await asyncio.gather(*(client.get(THING) for _ in range(300)))
    assert len(connections) <= 100


async def test_a_collection_is_read_page_by_page_and_an_expired_moment_is_told() -> None:
    asked: list[dict[str, str]] = []

    async def paged(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(dict(request.query))
        match request.query.get("continue"):
            case None:
                return web.json_response({"metadata": {"continue": "a/b=&c"}, "items": [{"kind": "Secret"}]})
            case "a/b=&c":
                return web.json_response({"metadata": {"continue": "old"}, "items": None})
            case _:
                return web.json_response(status_object(410, "Expired"), status=410)

    async with answered_by(paged) as client:
        pages = client.pages(THINGS)
        assert [await anext(pages), await anext(pages)] == [[{"kind": "Secret"}], []]
        with pytest.raises(KubernetesRefused) as caught:
            await anext(pages)
    assert caught.value.status == 410
    assert asked == [{"limit": "100"}, {"limit": "100", "continue": "a/b=&c"}, {"limit": "100", "continue": "old"}]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda c: c.merge(THING, {"a": None}), ("PATCH", "", "application/merge-patch+json", {"a": None})),
        (
            lambda c: c.apply(THING, {"a": 1}, manager="me"),
            ("PATCH", "fieldManager=me&force=false", "application/apply-patch+yaml", {"a": 1}),
        ),
        (lambda c: c.replace(THING, {"a": "ü"}), ("PUT", "", "application/json", {"a": "ü"})),
        (
            lambda c: c.delete(THING, uid="u-1"),
            (
                "DELETE",
                "",
                "application/json",
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": "Background",
                    "preconditions": {"uid": "u-1"},
                },
            ),
        ),
    ],
)
async def test_each_kind_of_change_has_its_own_method_and_content_type(
    call: Callable[[KubeClient], Awaitable[Any]], expected: tuple[Any, ...]
) -> None:
    received: list[tuple[Any, ...]] = []

    async def keep(request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        received.append((request.method, request.query_string, request.headers["Content-Type"], body))
        assert request.headers["User-Agent"] == "formulary"
        return web.json_response({})

    async with answered_by(keep) as client:
        await call(client)
    assert received == [expected]


class Gatekeeper:
    """An API server that accepts one token alone."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.asked = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token == self.token:
            return web.json_response({})
        return web.json_response(status_object(401, "Unauthorized"), status=401)


async def test_a_token_that_was_rotated_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    server = Gatekeeper("first")
    async with answered_by(server, user={"tokenFile": str(file)}) as client:
        await client.create(THINGS, {})
        server.token = "second"
        with pytest.raises(KubernetesRefused) as caught:
            await client.create(THINGS, {})
        assert caught.value.status == 401
        file.write_text("second\n")
        await client.create(THINGS, {})
        file.unlink()
        await client.create(THINGS, {})
        server.token = "third"
        with pytest.raises(KubernetesUnavailable, match=r"does not answer \(ConfigException\)"):
            await client.create(THINGS, {})
    assert server.asked == 1 + 2 + 2 + 1 + 1


async def test_in_a_pod_the_token_of_its_service_account_is_used_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = issue(["localhost"], now=datetime.now(UTC))
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": pair.authority, "token": b"first"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
    async with api_server(server := Gatekeeper("first"), tls=tls) as url:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", url.rpartition(":")[2])
        async with connected(tmp_path / "none") as client:
            await client.create(THINGS, {})
            (tmp_path / "token").write_text("second")
            server.token = "second"
            await client.create(THINGS, {})


async def test_without_a_way_to_a_cluster_it_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(StartupError, match=r"none.*; run in a pod with a ServiceAccount token, or set KUBECONFIG"):
        await KubeClient.connect()


def _without(*keys: str) -> Any:
    """A kubeconfig that lacks something of its user, which holds a secret."""
    document: Any = kubeconfig_of("https://127.0.0.1:1", user={"token": "hunter2"})
    *parents, last = keys
    inner = document
    for key in parents:
        inner = inner[0] if key == "0" else inner[key]
    del inner[last]
    return document


@pytest.mark.parametrize(
    "content",
    [
        "",
        "hunter2: [",
        "- hunter2",
        "current-context: hunter2",
        *(
            yaml.safe_dump(document)
            for document in (
                _without("current-context"),
                _without("contexts"),
                _without("contexts", "0", "name"),
                _without("contexts", "0", "context"),
                _without("clusters"),
                _without("clusters", "0", "cluster"),
                _without("users", "0", "user") | {"users": [{"name": "only", "token": "hunter2"}]},
                kubeconfig_of("https://127.0.0.1:1", user={"token": "hunter2", "client-certificate-data": "aGk="}),
            )
        ),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_told_without_its_secrets(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(StartupError, match=r"(?s)^no way to the Kubernetes API: .+; run in a pod") as caught:
        await KubeClient.connect()
    if content != "current-context: hunter2":
        assert "hunter2" not in str(caught.value)
