"""`formulary serve` as a process that checks its callers with a real API server (DESIGN section 9)."""

import asyncio
from contextlib import suppress
from pathlib import Path

import httpx2

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent, refused
from support.callers import QUERY, by, search
from support.control_plane import Cluster
from support.operator_process import server
from support.roles import bind
from support.tenants import SHARED
from support.waiting import wait_until


async def test_the_command_serves_on_every_address_those_who_have_a_token(
    postgres: EmbeddedPostgres, database: str, reviewer: Path, responder: str
) -> None:
    settings = {"host": "0.0.0.0", "authentication": "kubernetes", "request_context": "required"}
    with server(dsn=database, kubeconfig=reviewer, **settings) as process:
        await asyncio.to_thread(process.start().wait_ready)
        async with agent(process.url, headers=by(responder)) as client:
            tools = await client.list_tools()
            unknown = await client.call_tool("search_workflow_catalog", QUERY)
        stranger = await search(process.url, "garbage")
        async with httpx2.AsyncClient(base_url=process.url) as http:
            ready = await http.get("/readyz")
        output = process.output()

    assert len(tools.tools) == 7
    assert "is not known here" in refused(unknown)
    assert stranger.status_code == 401
    assert ready.json()["callers"] == "ok"
    assert '"caller_unknown"' in output
    assert responder not in output
    assert "garbage" not in output


async def test_the_command_is_not_ready_while_it_may_not_check_callers_and_gets_ready_once_it_may(
    database: str, cluster: Cluster, roles: None
) -> None:
    kubeconfig = cluster.kubeconfig_for(cluster.service_account(SHARED, "late", audiences=[]))
    with server(dsn=database, kubeconfig=kubeconfig, authentication="kubernetes") as process:
        process.start()
        before = await asyncio.to_thread(_readiness, process.url)
        bind(cluster, "system:auth-delegator", to=("late", SHARED))
        await asyncio.to_thread(process.wait_ready)

    assert (before["status"], before["callers"]) == ("starting", "unchecked")


def _readiness(url: str) -> dict[str, str]:
    """What a server says of itself once it listens."""
    readiness: dict[str, str] = {}

    def listens() -> bool:
        with suppress(httpx2.TransportError):
            readiness.update(httpx2.get(f"{url}/readyz", timeout=5).json())
        return bool(readiness)

    wait_until(listens, what="the server to listen")
    return readiness
