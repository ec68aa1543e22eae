"""Two tenants in one database, as the server reads it and as its owner sees it; the starter catalog under incidents."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.alert_rules import AlertRuleWriter, RuleObject
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.alerts import report
from support.filling import fill, refusal
from support.served import Served, incident_of, written
from support.services import service_on
from support.serving import catalog, serving

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
async def tenants(workflows: CatalogWriter, contexts: ContextWriter, writing: Database) -> dict[str, str]:
    """The version id of `restart` by namespace; each also has an older version, an incident, an alert and a refusal."""
    ids = {}
    for namespace in ("alpha", "beta"):
        versions = [manifest.workflow("restart", version="1.0.0"), manifest.workflow("restart", version="2.0.0")]
        linked = [{"name": "restart", "relation": "requires"}]
        own = manifest.workflow(f"only-{namespace}", keywords=[f"{namespace}word"], related=linked)
        entries = await fill(workflows, [*versions, own], namespace=namespace)
        ids[namespace] = entries[1].version_id
        await contexts.save(RequestContext(namespace=namespace, name="oom", remediation_id=f"rr-{namespace}"))
        await AlertRuleWriter(writing).replace(RuleObject(namespace, "rules"), [Alert(name="Down")])
        await RefusalWriter(writing).note(refusal(f"wrong-{namespace}", namespace=namespace))
        await report(writing, namespace=namespace)
    await ResyncWriter(writing).note("formulary/operator", listed=8, differed=0, refused=None, every_seconds=300)
    return ids


@pytest.fixture
async def reading(database: str) -> AsyncIterator[Database]:
    """One connection as the server's role, so that every transaction follows another on it."""
    async with Database.opened(database, role=Role.SERVER, size=1, deadline=30) as opened:
        yield opened


@pytest.fixture
async def owner(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture(scope="module")
async def served(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """The starter catalog with the example of an incident, and incidents that know less."""
    incidents = written(
        [incident_of("payments", labels={"team": ["payments"]}), incident_of("nobody", labels={})],
        into=tmp_path_factory.mktemp("incidents"),
    )
    async with catalog([starter_catalog, EXAMPLES, incidents], postgres=postgres, embedder=embedder) as parts:
        async with serving(parts) as url:
            yield Served(service=service_on(parts), url=url)
