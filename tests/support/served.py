"""A catalog that is served, asked by its service and by an agent, with and without an incident."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.services.search.service import CatalogService
from support import manifest
from support.agent import agent, answer_of

CALLER = Caller(name="test", access=EVERYTHING)
PAYMENTS = "rr-payments"
"""The incident of the payments team."""


@dataclass(frozen=True)
class Served:
    """A catalog that is served, and how to ask it."""

    service: CatalogService
    url: str

    async def ask(self, query: str, *, incident: str = "", **asked: Any) -> SearchAnswer:
        """What the service answers."""
        request = search_request(query=query, context=ContextReference(remediation_id=incident), **asked)
        return await self.service.search(request, caller=CALLER)

    async def tool(self, query: str, *, incident: str = "", **arguments: Any) -> dict[str, Any]:
        """What an agent of this incident gets from the tool."""
        headers = {"X-Remediation-Id": incident} if incident else {}
        async with agent(self.url, headers=headers) as client:
            return answer_of(await client.call_tool("search_workflow_catalog", {"query": query, **arguments}))


def written(documents: Iterable[dict[str, Any]], *, into: Path) -> Path:
    (into / "more.yaml").write_text(manifest.text(*documents), encoding="utf-8")
    return into


def incident_of(name: str, *, labels: dict[str, list[str]]) -> dict[str, Any]:
    """An AIAnalysis that says nothing but its custom labels."""
    return manifest.analysis(name, remediation_id=f"rr-{name}", labels=labels, environment="")


def names(answer: SearchAnswer) -> list[str]:
    return [hit.workflow_id for hit in answer.workflows]


def noted(notes: Iterable[str], words: str) -> list[str]:
    return [note for note in notes if words in note]
