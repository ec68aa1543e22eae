"""The tool list is put together once and given to everybody who asks after that."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from formulary_catalog.edges.mcp import server
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.serving import catalog, serving
from support.wire import Wire

EARLIER = ("2025-03-26", "2025-06-18", "2025-11-25")
INVALID_PARAMS = -32602


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with catalog([], postgres=postgres, embedder=None) as empty, serving(empty) as at:
        yield at


async def asked(wire: Wire, revision: str, *, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer to a request for the list, as a client of an earlier revision sends it."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", **({} if params is None else {"params": params})}
    answer: dict[str, Any] = (await wire.post("/mcp", body, headers=headers)).json()
    return answer


async def test_each_revision_gets_its_own_form_of_the_list_every_time(url: str) -> None:
    async with Wire(url) as wire:
        first = [await asked(wire, revision) for revision in EARLIER]
        newest = (await wire.rpc("tools/list", {})).json()
        again = [await asked(wire, revision, params={}) for revision in EARLIER]
        newest_again = (await wire.rpc("tools/list", {})).json()

    assert again == first
    assert newest_again == newest
    assert newest["result"]["resultType"] == "complete"
    assert all("resultType" not in answer["result"] for answer in first)
    assert all(len(answer["result"]["tools"]) == len(newest["result"]["tools"]) for answer in first)


async def test_a_list_that_was_made_while_the_catalog_changed_is_not_given_again(
    parts: CatalogParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    flipping = [False, True, True]  # before the list is made, when it is, and after that

    async def uses_clusters() -> bool:
        return flipping.pop(0) if flipping else False

    monkeypatch.setattr(parts.workflows, "uses_clusters", uses_clusters)
    monkeypatch.setattr(server, "_CLUSTER_USE_SECONDS", -1.0)
    async with serving(parts) as url, Wire(url) as wire:
        between = await wire.rpc("tools/list", {})
        after = await wire.rpc("tools/list", {})

    assert b'"label.cluster"' in between.body
    assert b'"label.cluster"' not in after.body


@pytest.mark.parametrize("params", [{"cursor": 5}, {"_meta": 5}, {"_meta": {"progressToken": []}}])
async def test_a_malformed_request_is_refused_after_good_ones_as_well(url: str, params: dict[str, object]) -> None:
    async with Wire(url) as wire:
        await asked(wire, "2025-11-25")
        refused = await asked(wire, "2025-11-25", params=params)

    assert refused["error"]["code"] == INVALID_PARAMS


async def test_headers_that_repeat_arguments_are_neither_needed_nor_looked_at(url: str) -> None:
    search = {"name": "search_workflow_catalog", "arguments": {"query": "OOMKilled"}}
    async with Wire(url) as wire:
        plain = await wire.rpc("tools/call", search)
        claimed = await wire.rpc("tools/call", search, headers={"Mcp-Param-Query": "something else"})

    assert plain.json()["result"]["structuredContent"]["total_results"] == 0
    assert claimed.json()["result"]["structuredContent"]["total_results"] == 0
