"""What a client is told before it calls anything (DESIGN section 7)."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from formulary_catalog import __version__
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import LabelSpelling
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import ERAS, agent, call, found
from support.manifest import text, workflow
from support.serving import catalog, serving

GOLDEN = Path(__file__).parents[1] / "golden" / "tools_list.json"


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with catalog([], postgres=postgres, embedder=None) as empty:
        yield empty


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts) as at:
        yield at


async def listed(url: str, *, mode: str = "auto") -> list[dict[str, Any]]:
    async with agent(url, mode=mode, headers={"X-Remediation-Id": "", "X-AIAnalysis": ""}) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tool_list_is_the_agreed_one(url: str, mode: str) -> None:
    tools = await listed(url, mode=mode)

    if "UPDATE_GOLDEN" in os.environ:
        GOLDEN.write_text(json.dumps(tools, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    assert tools == json.loads(GOLDEN.read_text(encoding="utf-8"))


async def test_every_hint_is_set_and_true(url: str) -> None:
    hints = {tool["name"]: {**tool["annotations"]} for tool in await listed(url)}

    reading = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    writing = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
    running = writing | {"destructiveHint": True}
    assert {name: {key: hint[key] for key in reading} for name, hint in hints.items()} == {
        "search_workflow_catalog": reading,
        "get_workflow_details": reading,
        "record_workflow_selection": writing,
        "invoke_workflow": running,
        "get_invocation_status": reading,
        "list_workflows": reading,
        "related_workflows": reading,
    }


async def test_labels_are_listed_in_snake_case_where_a_model_needs_it(parts: CatalogParts) -> None:
    async with serving(parts, label_parameters=LabelSpelling.SNAKE) as url:
        search, *_ = await listed(url)

    assert "label_signal_type" in search["inputSchema"]["properties"]
    assert not any("." in name or "-" in name for name in search["inputSchema"]["properties"])


async def test_the_cluster_label_is_listed_where_workflows_declare_clusters_and_taken_everywhere(
    url: str, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    tethered = workflow("tethered")
    tethered["spec"]["labels"]["cluster"] = ["eu-1"]
    manifest = tmp_path / "tethered.yaml"
    manifest.write_text(text(tethered))
    async with catalog([manifest], postgres=postgres, embedder=None) as clustered, serving(clustered) as there:
        search, *_ = await listed(there)
        here = found(await call(there, "search_workflow_catalog", {"query": "restart", "label.cluster": "eu-1"}))

    assert "label.cluster" in search["inputSchema"]["properties"]
    assert here == ["tethered"]
    assert "label.cluster" not in (await listed(url))[0]["inputSchema"]["properties"]
    for spelling in ("label.cluster", "label_cluster"):
        assert found(await call(url, "search_workflow_catalog", {"query": "restart", spelling: "eu-1"})) == []


@pytest.mark.parametrize("mode", ERAS)
async def test_the_server_says_who_it_is_and_how_to_use_it(url: str, mode: str) -> None:
    async with agent(url, mode=mode) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("formulary", __version__)
        assert client.instructions is not None
        assert len(client.instructions.split()) < 100


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_earlier_revision_is_served(url: str, revision: str) -> None:
    async with httpx2.AsyncClient(headers={"Accept": "application/json, text/event-stream"}) as http:
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
        hello = await http.post(
            f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        )
        found = await http.post(
            f"{url}/mcp",
            headers={"MCP-Protocol-Version": revision},
            json={
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "search_workflow_catalog", "arguments": {"query": "OOMKilled"}},
            },
        )

    assert hello.json()["result"]["protocolVersion"] == revision
    assert json.loads(found.json()["result"]["content"][0]["text"])["total_results"] == 0
