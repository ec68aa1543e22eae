"""Our client of the Kubernetes API, for tests: of a real API server, or of one that answers what a test says."""

import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from formulary_operator.kube.client import KubeClient

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def connected(
    kubeconfig: Path, *, kind: type[KubeClient] = KubeClient, seconds: float = 10.0
) -> AsyncIterator[KubeClient]:
    """A client with the identity of a kubeconfig."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(kubeconfig))
        client = await kind.connect(seconds=seconds)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def connected_to(
    url: str, *, user: Mapping[str, Any] | None = None, seconds: float = 10.0
) -> AsyncIterator[KubeClient]:
    """A client of what listens at this address, with the identity of a user of a kubeconfig."""
    with tempfile.NamedTemporaryFile("w") as kubeconfig:
        yaml.safe_dump(kubeconfig_of(url, user=user or {}), kubeconfig)
        kubeconfig.flush()
        async with connected(Path(kubeconfig.name), seconds=seconds) as client:
            yield client


@asynccontextmanager
async def answered_by(
    answer: Answer, *, user: Mapping[str, Any] | None = None, seconds: float = 10.0
) -> AsyncIterator[KubeClient]:
    """A client of an API server that answers each request like this."""
    async with api_server(answer) as url, connected_to(url, user=user, seconds=seconds) as client:
        yield client


@asynccontextmanager
async def api_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of an API server that answers each request like this."""
    server = RawTestServer(answer)
    await server.start_server(ssl=tls)
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


def kubeconfig_of(url: str, *, user: Mapping[str, Any]) -> dict[str, Any]:
    """A kubeconfig with one context."""
    return {
        "current-context": "only",
        "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
        "clusters": [{"name": "only", "cluster": {"server": url}}],
        "users": [{"name": "only", "user": dict(user)}],
    }


async def gone(request: web.BaseRequest) -> web.StreamResponse:
    """No answer: the connection breaks off."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()
