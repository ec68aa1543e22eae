"""A suspended workflow is in no table for agents, in none of its versions; people see it."""

from collections.abc import AsyncIterator

import pytest

from formulary_catalog.domain.analytics.statement import TABLES
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import databases, manifest
from support.filling import fill
from support.insight import LOCAL, NOWHERE, SHOP, Stage, managed_database, staged

OLD, NEW = "1.0.0", "2.0.0"


@pytest.fixture(scope="module", params=["embedded", "managed"])
async def stage(request: pytest.FixtureRequest, postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    """`shop-restart` was searched for, chosen and run, has an older version, and is suspended."""
    opened = databases.migrated_database if request.param == "embedded" else managed_database
    async with opened(postgres) as dsn, staged(dsn) as filled:
        async with Database.opened(dsn, role=Role.WRITER, deadline=30) as writing:
            suspended = manifest.workflow("shop-restart", version=NEW, suspend=True)
            await fill(CatalogWriter(writing), [suspended], namespace=SHOP)
            await writing.execute(
                "insert into workflow_outcome (version_id, succeeded, failed, median_seconds) "
                "select version_id, 1, 0, 1 from workflow_version where name = 'shop-restart'"
            )
        yield filled


@pytest.mark.parametrize("table", TABLES)
async def test_no_table_names_it_to_an_agent(stage: Stage, table: str) -> None:
    agents = await stage.service().get_sample(table, context=NOWHERE, caller=LOCAL)
    assert agents.data
    assert "shop-restart" not in str(agents.data)


@pytest.mark.parametrize("table", [table for table in TABLES if table not in ("searches", "alerts")])
async def test_people_see_it_and_count_it(stage: Stage, table: str) -> None:
    analytics = stage.service()
    people = await analytics.get_sample(table, context=NOWHERE, caller=LOCAL, n=50, browsing=True)
    assert "shop-restart" in str(people.data)
    counted = await analytics.list_tables(context=NOWHERE, caller=LOCAL, browsing=True)
    fewer = await analytics.list_tables(context=NOWHERE, caller=LOCAL)
    (of_people,) = [line.rows for line in counted.tables if line.name == f"insight.{table}"]
    (of_agents,) = [line.rows for line in fewer.tables if line.name == f"insight.{table}"]
    assert of_people is not None
    assert of_agents is not None
    assert of_people > of_agents > 0


async def test_no_statement_and_no_statistic_of_an_agent_counts_it(stage: Stage) -> None:
    analytics = stage.service()
    sql = "select name, version, status from insight.versions where name = 'shop-restart' order by version"
    assert (await analytics.execute_query(sql, context=NOWHERE, caller=LOCAL)).data == []
    seen = await analytics.execute_query(sql, context=NOWHERE, caller=LOCAL, browsing=True)
    assert [list(row.values())[1:] for row in seen.data] == [[OLD, "Superseded"], [NEW, "Disabled"]]
    agents = await analytics.describe_stats("versions", context=NOWHERE, caller=LOCAL)
    people = await analytics.describe_stats("versions", context=NOWHERE, caller=LOCAL, browsing=True)
    assert people.columns[0].count == agents.columns[0].count + 2
