"""Two incidents, their searches and a run that waits, as people read them over REST and on the command line."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import Finished, formulary
from support.filling import fill
from support.rest_agent import worked_on
from support.runnable import runnable
from support.services import open_parts

KEY, VALUE = "k3y-team", "v4lue-payments"
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
SHOP = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-shop",
    environment="staging",
    signal_name=HOSTILE,
    target_namespace="shop-apps",
    target_kind="Deployment",
    target_name="web",
    custom_labels={KEY: (VALUE,)},
)
BANK = RequestContext(namespace="bank", name="oom", remediation_id="rr-bank", environment="production")
HERE = {"formulary", "shop", "shop-apps"}
CALLERS = KnownCallers(
    agent=Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
    sre=Rights(
        see=HERE, use={"shop"}, constraints={"shop"}, read={"shop-apps"}, approve={"shop-apps"}, contracts={"shop-apps"}
    ),
    banker=Rights(see={"formulary", "bank"}, use={"bank"}, constraints={"bank"}, read={"bank"}, contracts={"bank"}),
    auditor=Rights(
        see={EVERYWHERE}, use={EVERYWHERE}, constraints={EVERYWHERE}, read={EVERYWHERE}, contracts={EVERYWHERE}
    ),
    blind=Rights(see={"formulary"}),
    nobody=Rights(),
)


@dataclass(frozen=True)
class World:
    """A server, and what happened there: a search for each incident, and a run that waits in `shop-apps`."""

    url: str
    searches: dict[str, str]
    waiting: str
    client: httpx2.AsyncClient

    async def get(self, path: str, *, by: str, **parameters: Any) -> httpx2.Response:
        headers = parameters.pop("headers", {}) | {"Authorization": f"Bearer {by}"}
        return await self.client.get(f"/api/v1{path}", params=parameters or None, headers=headers)

    async def read(self, path: str, *, by: str, **parameters: Any) -> Any:
        response = await self.get(path, by=by, **parameters)
        assert response.status_code == 200, response.text
        return response.json()

    async def command(self, *arguments: str, by: str, **environment: str) -> Finished:
        return await formulary(*arguments, FORMULARY_URL=self.url, FORMULARY_TOKEN=by, **environment)


@asynccontextmanager
async def _opened(dsn: str) -> AsyncIterator[CatalogParts]:
    writing = await Database.open(dsn, role=Role.WRITER, size=2, deadline=30)
    await fill(
        CatalogWriter(writing),
        [
            runnable("scale-out", title=f"Scale out {HOSTILE[:25]}"),
            runnable("risky", riskLevel="high"),
            runnable("only-production", labels={**runnable("x")["spec"]["labels"], "environment": ["production"]}),
            runnable("other-team", customLabels={KEY: "0ther"}),
        ],
    )
    contexts = ContextWriter(writing)
    for incident in (SHOP, BANK):
        await contexts.save(incident)
    spec = {"rules": [{"id": "ask", "effect": "REQUIRE_EVIDENCE", "rationale": "Say why."}]}
    for namespace in ("shop-apps", "bank"):
        await ContractWriter(writing, shared_namespace="formulary").save(
            spec, namespace=namespace, name="c", uid=namespace
        )
    await writing.close()
    async with open_parts(dsn) as opened:
        yield opened


@asynccontextmanager
async def served(dsn: str, *, directory: Path) -> AsyncIterator[World]:
    """A server of all that on an empty database; its key file is written into the directory."""
    async with (
        _opened(dsn) as parts,
        worked_on(parts, dsn, authenticator=CALLERS, directory=directory) as (url, client, agent),
    ):
        searches = {
            incident: await agent.search(incident, f"OOMKilled risky {HOSTILE[:25]}")
            for incident in ("rr-shop", "rr-bank")
        }
        result = await agent.invoke("rr-shop", "risky", {"REPLICAS": 3}, search_id=searches["rr-shop"])
        assert result["state"] == "awaiting_approval", result
        yield World(url, searches, result["invocation_id"], client)
