"""Where MCP clients look for the server and how pages reach it: the doors beside `/mcp` itself."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent, found
from support.manifest import text
from support.runnable import runnable
from support.serving import catalog, serving

HEADERS = {"Accept": "application/json, text/event-stream"}
INSPECTOR = "http://localhost:6274"
ASKS_FIRST = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, mcp-name"}


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(runnable("ours"), runnable("others")))
    async with catalog([own], postgres=postgres, embedder=None) as parts:
        async with serving(parts, allowed_hosts="formulary.tools.svc") as at:
            yield at


async def test_the_address_with_a_slash_at_its_end_is_the_same_server(url: str) -> None:
    async with agent(url, path="/mcp/") as client:
        assert found(await client.call_tool("search_workflow_catalog", {"query": "restart"}))
    async with httpx2.AsyncClient(base_url=url, headers=HEADERS) as http:
        assert (await http.get("/mcp/")).status_code == 405
        assert (await http.post("/mcp/?nonsense=x", json={})).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/oauth-protected-resource/mcp"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/mcp/.well-known/openid-configuration"),
        ("POST", "/register"),
        ("GET", "/authorize"),
        ("POST", "/token"),
    ],
)
async def test_a_client_that_looks_for_oauth_reads_that_there_is_none(url: str, method: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answer = await http.request(method, path)

    assert answer.status_code == 404
    assert answer.json()["error"] == "not_found"
    assert "Authorization: Bearer" in answer.json()["error_description"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_the_inspector_on_this_machine_may_call_from_its_page(url: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers={**HEADERS, "Origin": INSPECTOR}) as http:
        first = await http.options(path, headers=ASKS_FIRST)
        then = await http.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        broken = await http.post(path, content=b"{")

    assert first.status_code == 204
    assert first.headers["access-control-allow-methods"] == "POST"
    allowed = first.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "mcp-name", "mcp-protocol-version", "x-remediation-id"} <= set(allowed)
    for answer in (first, then, broken):
        assert answer.headers["access-control-allow-origin"] == INSPECTOR
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("path", "host", "origin"),
    [
        ("/mcp", "localhost", "http://evil.example"),
        ("/mcp", "localhost", "null"),
        ("/mcp", "localhost", "http://formulary.tools.svc"),
        ("/mcp", "formulary.tools.svc", INSPECTOR),
        ("/api/v1/invoke", "localhost", INSPECTOR),
        ("/api/v1/workflows", "localhost", INSPECTOR),
        ("/console", "localhost", INSPECTOR),
    ],
)
async def test_no_other_page_and_no_other_path_gets_leave(url: str, path: str, host: str, origin: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answer = await http.options(path, headers={"Host": host, "Origin": origin, **ASKS_FIRST})

    assert answer.status_code >= 400
    assert not [name for name in answer.headers if name.startswith("access-control-")]
