"""Incidents of tenants with a past, as the console, REST and commands show them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg
import httpx2

from formulary_catalog.domain.audit.sealing import seal
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.audit.events import TraceEvent, TraceStore
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, KnownCallers, Rights
from support.filling import fill
from support.pages import Element, page_of
from support.rest_agent import worked_on
from support.runnable import runnable
from support.services import open_parts

KEY, VALUE = "k3y-team", "v4lue-payments"
HOSTILE = '<script>alert(1)</script><svg onload="x">\u202e'
SHOP = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-shop",
    environment="staging",
    severity="critical",
    signal_name=HOSTILE,
    target_namespace="shop-apps",
    target_kind="Deployment",
    target_name="web",
    custom_labels={KEY: (VALUE,)},
)
BANK = RequestContext(
    namespace="bank", name="oom", remediation_id="rr-bank", custom_labels={KEY: ("b4nk-secret",)}, severity="low"
)
EARLY = RequestContext(
    namespace="early",
    name="oom",
    remediation_id="rr-early",
    signal_name="EarlySignal",
    target_namespace="early-apps",
    target_kind="Deployment",
    target_name="web",
)
HERE = {"formulary", "shop", "shop-apps"}
CALLERS = KnownCallers(
    agent=Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
    sre=Rights(see=HERE, use={"shop"}, constraints={"shop"}, read={"shop-apps"}, approve={"shop-apps"}),
    oncall=Rights(see=HERE, read={"shop-apps"}, approve={"shop-apps"}),
    banker=Rights(see={"formulary", "bank"}, use={"bank"}, constraints={"bank"}),
    early=Rights(see={"formulary", "early"}, use={"early"}, constraints={"early"}),
    auditor=Rights(see={EVERYWHERE}, use={EVERYWHERE}, constraints={EVERYWHERE}),
    nobody=Rights(),
)
LONG, LONG_EVENTS = "rr/long trace?", 1207
CLAIMED = "rr-claimed"
"""A trace of `shop` whose caller claims the incident of the bank."""


@dataclass(frozen=True)
class World:
    """A server, and what happened there."""

    url: str
    search_id: str
    client: httpx2.AsyncClient

    async def page(self, path: str, *, by: str, status: int = 200, **query: Any) -> str:
        address = f"/console{path}" + (f"?{urlencode(query)}" if query else "")
        response = await self.client.get(address, headers={"Authorization": f"Bearer {by}"})
        assert response.status_code == status, response.text
        return response.text


@asynccontextmanager
async def _opened(dsn: str) -> AsyncIterator[CatalogParts]:
    writing = await Database.open(dsn, role=Role.WRITER, size=2, deadline=30)
    await fill(CatalogWriter(writing), [runnable("risky", riskLevel="high"), runnable("scale-out")])
    for incident in (SHOP, BANK):
        await ContextWriter(writing).save(incident)
    traces = TraceStore(writing)
    sealed = seal(SHOP, strict_keys=frozenset())
    said = {"outcome": "ok", "analysis": "bank/oom", "arguments": {"query": HOSTILE}}
    await traces.append(TraceEvent(trace_id=CLAIMED, kind="search", caller="agent", payload=said, sealed=sealed))
    listed = {"outcome": "ok", "analysis": "shop/oom"}
    first = TraceEvent(trace_id=LONG, kind="list", caller="agent", payload=listed, sealed=sealed)
    await traces.append(first)
    await writing.close()
    owner = await asyncpg.connect(dsn)
    await owner.execute(
        'select formulary.append_trace($1, \'list\', \'{"caller":"agent","outcome":"ok"}\') '
        "from generate_series(2, $2::int)",
        LONG,
        LONG_EVENTS,
    )
    await owner.close()
    async with open_parts(dsn) as opened:
        yield opened


@asynccontextmanager
async def served(dsn: str, *, directory: Path) -> AsyncIterator[World]:
    """A server of all that on an empty database; its key file is written into the directory."""
    async with (
        _opened(dsn) as parts,
        worked_on(parts, dsn, authenticator=CALLERS, directory=directory) as (url, client, agent),
    ):
        search_id = await agent.search("rr-shop", f"OOM {HOSTILE}")
        await agent.search("rr-bank", f"OOM {HOSTILE}")
        await agent.select("rr-shop", "risky", search_id=search_id, reasoning=HOSTILE)
        states = [
            (await agent.invoke("rr-shop", workflow, {"REPLICAS": 3}, search_id=search_id))["state"]
            for workflow in ("scale-out", "risky")
        ]
        assert states == ["completed", "awaiting_approval"]
        yield World(url, search_id, client)


def passages(page: str) -> list[tuple[int, str, list[tuple[str, str]]]]:
    """The passages of a page: number, title, and each line with its label."""
    events = page_of(page).all("li", lambda each: each.attributes.get("id", "").startswith("event-"))
    numbers = [int(each.attributes["id"].removeprefix("event-")) for each in events]
    return [(seq, each.one("h3").text, list(_facts(each))) for seq, each in zip(numbers, events, strict=True)]


def _facts(passage: Element) -> Iterator[tuple[str, str]]:
    label = ""
    for each in passage.inside:
        if each.tag == "dt":
            label = each.text
        elif each.tag == "div":
            yield label, each.text
