"""Many agents at once, each with an incident of its own, against one server process (DESIGN section 6)."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from support.manifest import analysis, text, workflow
from support.process import Up, formulary_up, private_directory

TEAMS = 50
SETTLED_SHARE = 0.25
GIVEN_UP_SHARE = 0.05
IN_WORK = 8  # calls, which a standstill of the machine costs
MAX_GROWTH_BYTES = 24 * 1024**2
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
}


def _write_manifests(directory: Path) -> None:
    """A workflow and an incident for each team, and one workflow for everybody."""
    teams = [f"team-{number:02d}" for number in range(TEAMS)]
    documents = [workflow("oom-everybody")]
    documents += [workflow(f"oom-{team}", customLabels={"team": [team]}) for team in teams]
    documents += [analysis(team, remediation_id=f"rr-{team}", labels={"team": [team]}) for team in teams]
    directory.mkdir()
    (directory / "teams.yaml").write_text(text(*documents))


@pytest.fixture(scope="module")
def server() -> Iterator[Up]:
    """One that lets calls wait long: on a slow machine all clients are still answered, only later."""
    with private_directory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORMULARY_CALL_WAIT_SECONDS", "15")
        _write_manifests(directory / "manifests")
        with formulary_up(data_dir=directory / "data", manifests=[directory / "manifests"]) as up:
            yield up


async def _search(client: httpx2.AsyncClient, *, team: str, number: int) -> dict[str, Any] | None:
    """The answer, None where the database was too slow for one."""
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
    told = result["content"][0]["text"]
    if result.get("isError"):
        assert "the database does not answer" in told
        return None
    answer: dict[str, Any] = json.loads(told)
    return answer


async def _keep_searching(url: str, *, team: str, until: float) -> tuple[int, int]:
    """How many searches of one client were answered and given up; each answer holds its own team's workflow and
    nobody else's."""
    done = given_up = 0
    async with httpx2.AsyncClient(base_url=url, timeout=20, verify=False) as client:  # reading authorities takes long
        while time.monotonic() < until:
            answer = await _search(client, team=team, number=done)
            if answer is None:
                given_up += 1
                continue
            assert {hit["workflow_id"] for hit in answer["workflows"]} == {f"oom-{team}", "oom-everybody"}
            assert answer["total_results"] == 2
            assert answer["search_mode"] == "hybrid"
            done += 1
    return done, given_up


async def _memory_once_settled(process: psutil.Process, *, seconds: float) -> int:
    await asyncio.sleep(seconds)  # caches and pools are full by then; this is the base, not a wait for it
    return int(process.memory_info().rss)


@pytest.mark.parametrize(
    ("clients", "seconds"), [(20, 4), pytest.param(TEAMS, 60, marks=pytest.mark.long)], ids=["seconds", "a minute"]
)
async def test_many_clients_see_only_their_own_labels_and_memory_stays_flat(
    server: Up, clients: int, seconds: float
) -> None:
    process = psutil.Process(server.process.pid)
    until = time.monotonic() + seconds

    searches, settled = await asyncio.gather(
        asyncio.gather(
            *(_keep_searching(server.url, team=f"team-{number:02d}", until=until) for number in range(clients))
        ),
        _memory_once_settled(process, seconds=seconds * SETTLED_SHARE),
    )

    done, given_up = zip(*searches, strict=True)
    assert min(done) > 0
    assert sum(done) > clients * seconds / 6
    assert sum(given_up) <= max(IN_WORK, sum(done) * GIVEN_UP_SHARE)
    assert process.memory_info().rss - settled < MAX_GROWTH_BYTES
