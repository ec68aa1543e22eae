"""An agent that works on incidents over REST."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from formulary_catalog.domain.access import Authenticator
from formulary_catalog.kernel.parts import CatalogParts
from support import playing
from support.runs import KEY
from support.serving import serving


@dataclass(frozen=True, slots=True)
class RestAgent:
    """What an agent does for an incident; the client sends its token."""

    http: httpx2.AsyncClient

    async def search(self, incident: str, query: str) -> str:
        """Search for the incident; the id of the search."""
        found = await self.http.post("/api/v1/workflows/search", json={"query": query}, headers=_of(incident))
        return str(found.raise_for_status().json()["search_id"])

    async def select(self, incident: str, workflow_id: str, *, search_id: str, reasoning: str) -> None:
        """Record the choice of a workflow."""
        body = {"workflow_id": workflow_id, "search_id": search_id, "reasoning": reasoning, "confidence": 0.9}
        (await self.http.post("/api/v1/selections", json=body, headers=_of(incident))).raise_for_status()

    async def invoke(
        self, incident: str, workflow_id: str, values: Mapping[str, Any], *, search_id: str = ""
    ) -> dict[str, Any]:
        """Ask for a run; the answer."""
        params = {"workflow_id": workflow_id, "input": values, "search_id": search_id}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": params}
        answer = (await self.http.post("/api/v1/invoke", json=asked, headers=_of(incident))).json()
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result


@asynccontextmanager
async def rest_agent(url: str) -> AsyncIterator[RestAgent]:
    """An agent with the token `agent`."""
    async with httpx2.AsyncClient(base_url=url, timeout=50, headers={"Authorization": "Bearer agent"}) as http:
        yield RestAgent(http)


def _of(incident: str) -> dict[str, str]:
    return {"X-Remediation-Id": incident}


@asynccontextmanager
async def worked_on(
    parts: CatalogParts, dsn: str, *, authenticator: Authenticator, directory: Path
) -> AsyncIterator[tuple[str, httpx2.AsyncClient, RestAgent]]:
    """A server whose runs are carried out: its address, a client of nobody, and an agent. Its key file is written into
    the directory."""
    keys = directory / "input.key"
    keys.write_text(KEY)
    async with (
        serving(parts, authenticator=authenticator, input_key_file=keys) as url,
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
        rest_agent(url) as agent,
        playing.operator(dsn),
    ):
        yield url, client, agent
