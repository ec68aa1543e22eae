"""Where MCP clients learn how to sign in (RFC 9728), and the address of those that send one header always."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import EVERYWHERE, KnownCallers, Rights
from support.agent import agent, found
from support.manifest import text
from support.runnable import runnable
from support.serving import catalog, serving

ISSUER = "https://dex.example/dex"
METADATA = "/.well-known/oauth-protected-resource"
CALLERS = KnownCallers(auditor=Rights(see={EVERYWHERE}, use={EVERYWHERE}))
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(runnable("ours")))
    async with catalog([own], postgres=postgres, embedder=None) as loaded:
        yield loaded


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, authenticator=CALLERS, oidc_issuer=ISSUER, oidc_client_id="formulary") as at:
        yield at


@pytest.mark.parametrize("path", [METADATA, f"{METADATA}/mcp"])
async def test_the_metadata_of_the_resource_name_its_address_and_its_issuer(url: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answer = await http.get(path)

    assert answer.status_code == 200
    assert answer.json() == {
        "resource": f"{url}/mcp",
        "authorization_servers": [ISSUER],
        "scopes_supported": ["openid"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Formulary",
    }


async def test_clients_ask_for_the_scope_that_the_provider_needs(parts: CatalogParts) -> None:
    scope = "openid https://formulary.example/mcp/use"
    async with serving(parts, authenticator=CALLERS, oidc_issuer=ISSUER, oidc_scope=scope) as url:
        async with httpx2.AsyncClient(base_url=url, headers=HEADERS) as http:
            metadata = (await http.get(METADATA)).json()
            refused = await http.post("/mcp", json=INITIALIZE)

    assert metadata["scopes_supported"] == scope.split()
    assert refused.headers["www-authenticate"].endswith(f'scope="{scope}"')


async def test_the_address_that_people_use_is_named_where_it_is_known(parts: CatalogParts) -> None:
    address = "https://formulary.example"
    async with serving(parts, authenticator=CALLERS, oidc_issuer=ISSUER, console_url=address) as url:
        async with httpx2.AsyncClient(base_url=url, headers=HEADERS) as http:
            metadata = (await http.get(METADATA)).json()
            refused = await http.post("/mcp", json=INITIALIZE)

    assert metadata["resource"] == f"{address}/mcp"
    assert f'resource_metadata="{address}{METADATA}/mcp"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("authorization", [{}, {"Authorization": "Bearer stranger"}])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_each_refusal_of_mcp_says_where_the_metadata_are(
    url: str, path: str, authorization: dict[str, str]
) -> None:
    async with httpx2.AsyncClient(base_url=url, headers={**HEADERS, **authorization}) as http:
        answer = await http.post(path, json=INITIALIZE)

    challenge = answer.headers["www-authenticate"]
    assert answer.status_code == 401
    assert challenge.startswith('Bearer realm="formulary", ')
    assert challenge.endswith(f'resource_metadata="{url}{METADATA}/mcp", scope="openid"')
    assert ('error="invalid_token"' in challenge) is bool(authorization)


async def test_clients_with_a_fixed_header_read_nothing_of_it_and_are_served(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers=HEADERS) as http:
        refused = await http.post("/mcp/token", json=INITIALIZE)
        metadata = await http.get(f"{METADATA}/mcp/token")
    async with agent(url, path="/mcp/token", headers={"Authorization": "Bearer auditor"}) as client:
        answer = found(await client.call_tool("search_workflow_catalog", {"query": "restart"}))

    assert (refused.status_code, metadata.status_code) == (401, 404)
    assert refused.headers["www-authenticate"] == 'Bearer realm="formulary"'
    assert answer


async def test_without_an_issuer_nothing_is_advertised(parts: CatalogParts) -> None:
    async with serving(parts, authenticator=CALLERS) as url, httpx2.AsyncClient(base_url=url, headers=HEADERS) as http:
        assert (await http.get(METADATA)).status_code == 404
        assert "resource_metadata" not in (await http.post("/mcp", json=INITIALIZE)).headers["www-authenticate"]
