"""A catalog of two tenants with a past, and analytics on it whose walls a test may take away."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from formulary_catalog.domain.access import EVERYTHING, Access, Caller
from formulary_catalog.domain.analytics.scope import AnalyticsScope
from formulary_catalog.domain.entry import incident_context
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.analytics import AnalyticsService, Rate
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.analytics.connection import InsightDatabase
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import databases, manifest
from support.databases import as_user
from support.filling import fill
from support.runs import request
from support.services import open_parts, service_on

SHARED, SHOP, BANK = "formulary", "shop", "bank"
TEAM_OF_THE_BANK, TEAM_OF_THE_SHOP = "vault-team-secret", "till-team-secret"
"""Values of a custom label: of the incident and the workflow of the bank, and of the incident of the shop."""
QUERY_OF_THE_BANK = "ledger of account 4711 is locked"
REASON_OF_THE_BANK = "because the vault is open"
FOREIGN = ("bank", "ledger", "vault", "pin-4711", TEAM_OF_THE_SHOP)
"""What no caller of the shop may ever read."""
EVERYBODY = AnalyticsScope(caller="local", namespaces=None, incidents=None, runs=None)
OF_THE_SHOP = AnalyticsScope(
    caller="alice",
    namespaces=frozenset({SHARED, SHOP}),
    incidents=frozenset({SHOP}),
    runs=frozenset({SHOP}),
)
LOCAL = Caller(name="local", access=EVERYTHING)
NOWHERE = ContextReference()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The filled database: its owner's DSN, and what the services on it share."""

    dsn: str
    parts: CatalogParts

    @property
    def insight_dsn(self) -> str:
        """The DSN of the role for analytics."""
        return as_user(self.dsn, ROLE)

    def database(self, **walls: Any) -> InsightDatabase:
        """The connection for SQL of callers."""
        return InsightDatabase(walls.pop("dsn", self.insight_dsn), catalog=self.parts.database, **walls)

    def service(
        self, *, database: InsightDatabase | None = None, per_minute: int = 10_000, **walls: Any
    ) -> AnalyticsService:
        """Analytics on it."""
        return AnalyticsService(
            parts=self.parts,
            database=database or self.database(),
            rate=walls.pop("rate", Rate(per_minute)),
            **walls,
        )


def caller(access: Access, *, name: str = "alice") -> Caller:
    """Somebody with these rights."""
    return Caller(name=name, access=access)


@asynccontextmanager
async def managed_database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a migrated database whose owner is no superuser, as in managed PostgreSQL."""
    async with databases.migrated_database(postgres), databases.empty_database(postgres) as dsn:
        owner = f"owner_{uuid.uuid4().hex[:12]}"
        admin = await asyncpg.connect(dsn)
        await admin.execute(f"create role {owner} login")
        await admin.execute(f"grant formulary_server, formulary_writer to {owner}")
        await admin.execute(f"alter database {await admin.fetchval('select current_database()')} owner to {owner}")
        try:
            await asyncio.to_thread(migrate, as_user(dsn, owner))
            yield as_user(dsn, owner)
        finally:
            await admin.execute(f"reassign owned by {owner} to postgres; drop owned by {owner}; drop role {owner}")
            await admin.close()


@asynccontextmanager
async def staged(dsn: str) -> AsyncIterator[Stage]:
    """Fill an empty catalog: for each tenant a workflow, an incident, a search, a selection and an approved run."""
    async with (
        Database.opened(dsn, role=Role.WRITER, deadline=30) as writing,
        Database.opened(dsn, role=Role.SERVER, deadline=30) as serving,
        open_parts(dsn) as parts,
    ):
        catalog = service_on(parts)
        writer, contexts = CatalogWriter(writing), ContextWriter(writing)
        (shared,) = await fill(writer, [manifest.workflow("shared-restart")], namespace=SHARED)
        await fill(writer, [manifest.workflow("shop-restart")], namespace=SHOP)
        secret = manifest.workflow("ledger-unlock", customLabels={"team": TEAM_OF_THE_BANK})
        await fill(writer, [secret], namespace=BANK)
        await _happened(
            catalog,
            serving,
            contexts,
            SHOP,
            query="OOMKilled",
            chosen="shop-restart",
            reason="it fits",
            labels={"team": [TEAM_OF_THE_SHOP]},
        )
        await _happened(
            catalog,
            serving,
            contexts,
            BANK,
            query=QUERY_OF_THE_BANK,
            chosen="ledger-unlock",
            reason=REASON_OF_THE_BANK,
            labels={"team": [TEAM_OF_THE_BANK]},
        )
        await writing.execute(
            "insert into workflow_outcome (version_id, succeeded, failed, median_seconds, helped, verified) "
            "values ($1, 3, 1, 42.5, 6, 8)",
            shared.version_id,
        )
        yield Stage(dsn=dsn, parts=parts)


async def _happened(
    catalog: CatalogService,
    serving: Database,
    contexts: ContextWriter,
    namespace: str,
    *,
    query: str,
    chosen: str,
    reason: str,
    labels: dict[str, list[str]],
) -> None:
    document = manifest.analysis("oom", remediation_id=f"rr-{namespace}", labels=labels)
    document["metadata"]["namespace"] = namespace
    document["spec"]["analysisRequest"]["signalContext"]["signalName"] = "OOMKilled"
    await contexts.save(incident_context(document, source="test", default_namespace=namespace))
    incident = ContextReference(remediation_id=f"rr-{namespace}")
    agent = caller(EVERYTHING, name=f"agent-of-{namespace}")
    found = await catalog.search(search_request(query=query, context=incident), caller=agent)
    receipt = await catalog.record_selection(
        workflow_id=f"{namespace}/{chosen}",
        reasoning=reason,
        context=incident,
        caller=agent,
        search_id=found.search_id,
        confidence=0.9,
    )
    runs = InvocationStore(serving, shared_namespace=SHARED)
    submitted = await runs.submit(
        request(
            caller=agent.name,
            namespace=namespace,
            workflow_namespace=namespace,
            workflow_name=chosen,
            version_id=receipt.version_id,
            remediation_id=f"rr-{namespace}",
            analysis=f"{namespace}/oom",
            values={"PIN": "pin-4711"},
        )
    )
    await ApprovalStore(serving).add(
        NewApproval(
            invocation_id=submitted.invocation.id,
            namespace=namespace,
            decision="Approve",
            approver=f"boss-of-{namespace}",
            reason=reason,
        )
    )
