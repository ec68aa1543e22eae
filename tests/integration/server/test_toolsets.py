"""Toolsets: what a server offers, what it lists, and what a client chooses of it (DESIGN section 7)."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import jsonschema
import pytest
from mcp_types import INVALID_PARAMS

from formulary_catalog.edges.mcp.tools import OTHER_NAMES, TOOLS_BY_NAME, TOOLSETS, tools_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import LISTED_TOOLSETS, Settings, Toolset, toolsets_of
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import ERAS, agent
from support.manifest import text, workflow
from support.serving import catalog, serving
from support.wire import Wire

PLAIN_TYPES = {"string", "integer", "number", "boolean"}
NESTED = {"context", "proposed_actions", "contract", "actions", "gate_report", "enforce_result", "input"}
"""Parameters that cannot be flat: what they describe is not."""
READING = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
WRITING = {"record_workflow_selection", "invoke_workflow"}
MOST_TOOLS = 7
MOST_BYTES = 9_000
"""With what is broken as three arguments, for agents that send no header."""
FIRST = ["search_workflow_catalog", "get_workflow_details", "record_workflow_selection"]


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(workflow("ours")))
    async with catalog([own], postgres=postgres, embedder=None) as filled:
        yield filled


async def listed(url: str, toolsets: str | None = None) -> list[dict[str, Any]]:
    path = "/mcp" if toolsets is None else f"/mcp?toolsets={toolsets}"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    async with Wire(url) as wire:
        tools: list[dict[str, Any]] = (await wire.post(path, body, headers=headers)).json()["result"]["tools"]
    return tools


async def called(url: str, tool: str, **arguments: Any) -> dict[str, Any]:
    async with Wire(url) as wire:
        answer: dict[str, Any] = (await wire.rpc("tools/call", {"name": tool, "arguments": arguments})).json()
    return answer


async def test_what_a_model_reads_by_default_is_short(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        tools = await listed(url)
    read = [{part: tool[part] for part in ("name", "description", "inputSchema")} for tool in tools]
    assert [tool["name"] for tool in tools[:3]] == FIRST
    assert len(tools) <= MOST_TOOLS
    assert sum(len(json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode()) for each in read) <= MOST_BYTES


async def test_a_client_chooses_among_what_is_offered(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        for chosen in (["search"], ["catalog", "search"], [each.value for each in Toolset], ["approvals"]):
            wanted = [tool.name for tool in tools_of(toolsets_of(",".join(chosen)))]
            assert [tool["name"] for tool in await listed(url, ",".join(chosen))] == wanted
            assert [tool["name"] for tool in await listed(url)] == [tool.name for tool in tools_of(LISTED_TOOLSETS)]
        assert await listed(url, "") == await listed(url)


async def test_schemas_of_all_tools_are_closed_valid_and_flat_where_they_can_be(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        tools = await listed(url, ",".join(Toolset))
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["inputSchema"]["additionalProperties"] is False
        parameters = tool["inputSchema"]["properties"]
        flat = [schema for name, schema in parameters.items() if name not in NESTED]
        assert {schema["type"] for schema in flat} <= PLAIN_TYPES
        assert all(schema["examples"] for schema in parameters.values())
        assert "$ref" not in json.dumps(tool)


async def test_all_tools_but_two_are_said_to_change_nothing(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        hints = {tool["name"]: tool["annotations"] for tool in await listed(url, ",".join(Toolset))}
    reading = {name for name, hint in hints.items() if READING.items() <= hint.items()}
    assert reading == hints.keys() - WRITING


@pytest.mark.parametrize("mode", ERAS)
async def test_the_instructions_name_only_tools_that_are_listed(parts: CatalogParts, mode: str) -> None:
    every = {tool.name for tool in tools_of(tuple(Toolset))}
    async with serving(parts) as url:
        for chosen in (*([each.value] for each in Toolset), ["search", "analytics"], ["runs", "governance"]):
            async with agent(url, mode=mode, path=f"/mcp?toolsets={','.join(chosen)}") as client:
                text = client.instructions or ""
            named = every & set(re.findall(r"\w+", text))
            assert named
            assert named <= {tool.name for tool in tools_of(toolsets_of(",".join(chosen)))}
            assert len(text.split()) < 100


@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
async def test_an_address_with_an_unknown_toolset_is_refused_with_the_valid_ones(
    parts: CatalogParts, method: str
) -> None:
    async with serving(parts, toolsets=frozenset({Toolset.SEARCH, Toolset.CATALOG})) as url:
        for given, problem in (("serch", "toolset 'serch' is not offered"), ("runs", "give some of search, catalog")):
            async with httpx2.AsyncClient() as http:
                body = {"jsonrpc": "2.0", "id": 1, "method": method}
                refused = await http.post(f"{url}/mcp", params={"toolsets": f"search,{given}"}, json=body)
            assert refused.status_code == 400
            assert problem in refused.json()["error"]["message"]


async def test_a_tool_that_is_not_listed_is_answered_if_its_toolset_is_offered(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        answer = await called(url, "find_workflow", name="ours")
        assert answer["result"]["structuredContent"]["exact"]
    async with serving(parts, toolsets=frozenset({Toolset.SEARCH})) as url:
        assert [tool["name"] for tool in await listed(url)] == [tool.name for tool in TOOLSETS[Toolset.SEARCH]]
        for tool in ("find_workflow", "invoke_workflow", "kdd_stats"):
            refused = await called(url, tool)
            assert refused["error"]["code"] == INVALID_PARAMS
            assert "find_workflow" not in refused["error"]["data"]["tools"]


async def test_the_names_of_the_design_documents_are_answered_and_not_listed(parts: CatalogParts) -> None:
    arguments = {
        "kdd_search": {"query": "OOMKilled"},
        "kdd_list": {},
        "kdd_related": {"entity": "ours"},
        "kdd_find_spec": {"name": "ours"},
        "kdd_impact": {"workflow_id": "ours"},
        "kdd_read_section": {"workflow_id": "ours", "section": "steps"},
        "kdd_stats": {},
        "get_playbook_details": {"workflow_id": "ours"},
    }
    assert arguments.keys() == OTHER_NAMES.keys()
    async with serving(parts) as url:
        names = {tool["name"] for tool in await listed(url, ",".join(Toolset))}
        for other, given in arguments.items():
            answer = await called(url, other, **given)
            assert not answer["result"].get("isError"), answer
            assert other not in names
            assert OTHER_NAMES[other] in names


def test_settings_and_flags_name_toolsets_in_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().offered_toolsets == frozenset(Toolset)
    assert Settings().listed_toolsets == LISTED_TOOLSETS
    monkeypatch.setenv("FORMULARY_TOOLSETS", " Search, knowledge,")
    assert Settings().listed_toolsets == Settings().offered_toolsets == {Toolset.SEARCH, Toolset.KNOWLEDGE}
    with pytest.raises(InvalidInput, match="'runs' is not offered; give some of search, knowledge"):
        toolsets_of("runs", among=Settings().offered_toolsets)
    monkeypatch.setenv("FORMULARY_TOOLSETS", "serch")
    with pytest.raises(ValueError, match="toolset 'serch' is not offered; give some of search, runs"):
        Settings()


async def test_every_tool_shows_whole_calls_that_it_takes(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        tools = await listed(url, ",".join(Toolset))
    for tool in tools:
        calls = tool["_meta"]["formulary.dev/examples"]
        properties = tool["inputSchema"]["properties"]
        optional = properties.keys() - tool["inputSchema"]["required"]
        assert len(calls) == (2 if optional else len(calls)), tool["name"]
        assert set(calls[0]) == set(tool["inputSchema"]["required"]) or tool["name"] == "similar_docs"
        for call in calls:
            jsonschema.validate(call, tool["inputSchema"])
            TOOLS_BY_NAME[tool["name"]].arguments.read(call)
