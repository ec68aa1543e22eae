"""Constraints are written into the address of the MCP server, which must not answer without those it does not know."""

import os
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import INVALID_PARAMS

from formulary_catalog.edges.mcp.tools import OTHER_NAMES, TOOLSETS, tools_of
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import Toolset
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import ERAS, agent, answer_of, call
from support.manifest import analysis, text, workflow
from support.process import FORMULARY
from support.serving import catalog, serving

INCIDENT = {"X-Remediation-Id": "rr-checkout"}
SEARCHED: dict[str, Any] = {"name": "search_workflow_catalog", "arguments": {"query": "OOMKilled"}}


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    file = tmp_path_factory.mktemp("manifests") / "own.yaml"
    incident = analysis("oom", remediation_id="rr-checkout", labels={"restarts": ["no"]})
    offered = workflow("look", customLabels={"restarts": "no"})
    file.write_text(text(workflow("restart", customLabels={"restarts": "yes"}), offered, incident))
    async with catalog([file], postgres=postgres, embedder=None, context_wait_seconds=0) as filled:
        yield filled


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts) as address:
        yield address


async def post(url: str, query: str, method: str, **params: Any) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await http.post(
            f"{url}/mcp{query}", json=body, headers={"Accept": "application/json, text/event-stream"}
        )


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("?Incident=rr-checkout", "Incident"),
        ("?incident%20=rr-checkout", "incident "),
        ("?bogus", "bogus"),
        ("?toolsets=search&bogus=1", "bogus"),
        ("?Toolsets=search", "Toolsets"),
        ("?toolsets%20=search", "toolsets "),
        ("?=1", ""),
        ("?remediation_id=rr-checkout&remediation_id=rr-checkout", "remediation_id"),
    ],
)
@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
async def test_an_unknown_parameter_is_refused_with_what_is_known_and_the_next_step(
    url: str, query: str, named: str, method: str
) -> None:
    refused = await post(url, query, method, **SEARCHED)
    body = refused.json()

    assert (refused.status_code, body["jsonrpc"], body["error"]["code"]) == (400, "2.0", -32002)
    assert body["error"]["message"].startswith(
        f"{named!r} is no parameter of this address, which knows toolsets and incident;"
    )
    assert "X-Remediation-Id" in body["error"]["message"]
    assert "restart" not in refused.text


@pytest.mark.parametrize("query", ["?incident=rr-checkout", "?%69ncident=rr-checkout", "?incident=%72r-checkout"])
@pytest.mark.parametrize("mode", ERAS)
async def test_an_incident_in_the_address_constrains_as_in_a_header(url: str, mode: str, query: str) -> None:
    async with agent(url, mode=mode, path=f"/mcp{query}") as client:
        found = answer_of(await client.call_tool(SEARCHED["name"], SEARCHED["arguments"]))

    assert [hit["workflow_id"] for hit in found["workflows"]] == ["look"]


@pytest.mark.parametrize("query", ["?incident=nope", "?incident=", "?incident=%20", "?incident"])
@pytest.mark.parametrize("mode", ERAS)
async def test_an_incident_in_the_address_that_there_is_not_gets_nothing(url: str, mode: str, query: str) -> None:
    try:
        async with agent(url, mode=mode, path=f"/mcp{query}") as client:
            answered = await client.call_tool(SEARCHED["name"], SEARCHED["arguments"])
    except (MCPError, ExceptionGroup):
        return

    assert answered.is_error
    assert "look" not in str(answered.content)


@pytest.mark.parametrize(
    "query", ["?toolsets=search&toolsets=search", "?toolsets=search&toolsets=analytics", "?toolsets&toolsets"]
)
async def test_a_parameter_that_is_given_twice_is_refused(url: str, query: str) -> None:
    refused = await post(url, query, "initialize")

    assert refused.status_code == 400
    assert "toolsets is given 2 times" in refused.json()["error"]["message"]


async def test_what_a_parameter_hides_is_not_repeated(url: str) -> None:
    refused = await post(url, "?inci%E2%80%AEdent%00" + "a" * 500 + "=1", "initialize")

    assert refused.status_code == 400
    assert refused.json()["error"]["message"].isprintable()
    assert len(refused.json()["error"]["message"]) < 300


async def test_the_header_that_the_refusal_names_constrains(url: str) -> None:
    found = answer_of(await call(url, SEARCHED["name"], SEARCHED["arguments"], headers=INCIDENT))

    assert [hit["workflow_id"] for hit in found["workflows"]] == ["look"]


@pytest.mark.parametrize("path", ["/api/v1/invoke", "/api/v1/workflows/search", "/api/v1/selections"])
async def test_the_same_parameter_constrains_nothing_on_rest_and_is_refused_there_too(url: str, path: str) -> None:
    async with httpx2.AsyncClient() as http:
        refused = await http.post(f"{url}{path}?incident=rr-checkout", json={"query": "OOMKilled"})

    assert refused.status_code == 400


@pytest.mark.parametrize("path", ["/mcp/", "/mcp//", "/MCP", "/mcp/x"])
async def test_no_other_address_answers_a_call_without_the_constraints(url: str, path: str) -> None:
    async with httpx2.AsyncClient() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": SEARCHED}
        answer = await http.post(f"{url}{path}?incident=rr-checkout", json=body)

    assert "restart" not in answer.text
    assert answer.status_code in (400, 404) or (path == "/mcp/" and "look" in answer.text)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_a_probe_may_have_any_parameters(url: str, path: str) -> None:
    async with httpx2.AsyncClient() as http:
        assert (await http.get(f"{url}{path}?verbose=1&incident=x")).status_code == 200


@pytest.mark.parametrize("chosen", list(Toolset))
async def test_a_tool_that_the_address_does_not_list_is_unknown_there(url: str, chosen: Toolset) -> None:
    own = {tool.name for tool in TOOLSETS[chosen]}
    others = {tool.name for tool in tools_of(tuple(Toolset))} - own
    others |= {other for other, name in OTHER_NAMES.items() if name not in own}
    async with agent(url, path=f"/mcp?toolsets={chosen}") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == own
        for name in sorted(others):
            with pytest.raises(MCPError) as unknown:
                await client.call_tool(name, {})
            error = unknown.value.error
            assert (error.code, error.message.split(";")[0]) == (INVALID_PARAMS, f"unknown tool {name!r}")
            assert set(error.data["tools"]) == own


async def test_the_older_name_of_a_tool_that_is_listed_is_answered(url: str) -> None:
    async with agent(url, path="/mcp?toolsets=search") as client:
        answered = await client.call_tool("get_playbook_details", {"workflow_id": "look"})

    assert answer_of(answered)["workflow_id"] == "look"


async def test_an_address_without_a_choice_answers_all_that_the_server_offers(parts: CatalogParts, url: str) -> None:
    assert answer_of(await call(url, "find_workflow", {"name": "look"}))["exact"]
    async with serving(parts, toolsets=frozenset({Toolset.SEARCH})) as narrow, agent(narrow) as client:
        with pytest.raises(MCPError, match="unknown tool 'find_workflow'"):
            await client.call_tool("find_workflow", {"name": "look"})


async def test_over_stdio_a_tool_that_was_not_chosen_is_unknown(dsn: str) -> None:
    command = ["stdio", "--database-url", dsn, "--toolsets", "search"]
    async with Client(StdioServerParameters(command=FORMULARY, args=command, env=dict(os.environ))) as client:
        with pytest.raises(MCPError, match="unknown tool 'execute_query'"):
            await client.call_tool("execute_query", {"sql": "select 1"})
