"""Many agents at once, each with an incident of its own, against one server process (DESIGN section 6)."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from support.manifest import analysis, text, workflow
from support.process import Up, formulary_up, private_directory

CLIENTS = 50
SECONDS = 60
SETTLED_SECONDS = 15
MAX_GROWTH_BYTES = 24 * 1024**2
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
}


def _write_manifests(directory: Path) -> None:
    """A workflow and an incident for each team, and one workflow for everybody."""
    teams = [f"team-{number:02d}" for number in range(CLIENTS)]
    documents = [workflow("oom-everybody")]
    documents += [workflow(f"oom-{team}", customLabels={"team": [team]}) for team in teams]
    documents += [analysis(team, remediation_id=f"rr-{team}", labels={"team": [team]}) for team in teams]
    directory.mkdir()
    (directory / "teams.yaml").write_text(text(*documents))


@pytest.fixture(scope="module")
def server() -> Iterator[Up]:
    with private_directory() as directory:
        _write_manifests(directory / "manifests")
        with formulary_up(data_dir=directory / "data", manifests=[directory / "manifests"]) as up:
            yield up


async def _search(client: httpx.AsyncClient, *, team: str, number: int) -> dict[str, Any]:
    arguments = {"query": f"OOMKilled critical attempt {number % 7}"}
    params = {"name": "search_workflow_catalog", "arguments": arguments, "_meta": META}
    response = await client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params},
        headers={
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "search_workflow_catalog",
            "X-Remediation-Id": f"rr-{team}",
        },
    )
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result.get("isError"), result
    answer: dict[str, Any] = json.loads(result["content"][0]["text"])
    return answer


async def _keep_searching(url: str, *, team: str, until: float) -> int:
    """How many searches one client made; each answer holds its own team's workflow and nobody else's."""
    done = 0
    async with httpx.AsyncClient(base_url=url, timeout=20, verify=False) as client:  # reading authorities takes long
        while time.monotonic() < until:
            answer = await _search(client, team=team, number=done)
            assert {hit["workflow_id"] for hit in answer["workflows"]} == {f"oom-{team}", "oom-everybody"}
            assert answer["total_results"] == 2
            assert answer["search_mode"] == "hybrid"
            done += 1
    return done


async def _memory_once_settled(process: psutil.Process) -> int:
    await asyncio.sleep(SETTLED_SECONDS)  # caches and pools are full by then; this is the base, not a wait for it
    return int(process.memory_info().rss)


async def test_fifty_clients_for_a_minute_see_only_their_own_labels_and_memory_stays_flat(server: Up) -> None:
    process = psutil.Process(server.process.pid)
    until = time.monotonic() + SECONDS

    *searches, settled = await asyncio.gather(
        *(_keep_searching(server.url, team=f"team-{number:02d}", until=until) for number in range(CLIENTS)),
        _memory_once_settled(process),
    )

    assert min(searches) > 0
    assert sum(searches) > CLIENTS * 10
    assert process.memory_info().rss - settled < MAX_GROWTH_BYTES
