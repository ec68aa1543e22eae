"""The views of `insight` show the caller's tenants and incident, no custom labels, and nothing to strangers."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.analytics.scope import AnalyticsScope
from formulary_catalog.domain.analytics.statement import TABLES
from formulary_catalog.domain.stored import wilson_interval
from formulary_catalog.store.analytics.sessions import ROLE, Connection, StatementLimits
from formulary_catalog.store.analytics.tables import InsightTables
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import databases
from support.databases import as_user
from support.insight import EVERYBODY, FOREIGN, OF_THE_SHOP, SHOP, Stage, managed_database, staged


@pytest.fixture(scope="module", params=["embedded", "managed"])
async def stage(request: pytest.FixtureRequest, postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    opened = databases.migrated_database if request.param == "embedded" else managed_database
    async with opened(postgres) as dsn, staged(dsn) as filled:
        yield filled


async def _rows(stage: Stage, table: str, scope: AnalyticsScope) -> list[dict[str, Any]]:
    found = await stage.database().query(f"select * from insight.{table}", scope=scope, at_most=1000)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


@pytest.mark.parametrize("table", TABLES)
async def test_who_may_see_all_sees_rows_of_both_tenants_and_no_custom_label(stage: Stage, table: str) -> None:
    rows = await _rows(stage, table, EVERYBODY)
    assert rows
    assert "team-secret" not in str(rows)
    if table != "outcomes":
        assert "bank" in str(rows)


@pytest.mark.parametrize("table", TABLES)
async def test_who_may_see_the_shop_alone_sees_its_rows_and_nothing_of_the_bank(stage: Stage, table: str) -> None:
    rows = await _rows(stage, table, OF_THE_SHOP)
    assert rows
    assert not [word for word in FOREIGN if word in str(rows)]


@pytest.mark.parametrize("table", TABLES)
async def test_a_session_without_a_scope_sees_nothing(stage: Stage, table: str) -> None:
    connection = await asyncpg.connect(stage.insight_dsn)
    try:
        assert await connection.fetch(f"select * from insight.{table}") == []
    finally:
        await connection.close()


async def test_the_owner_makes_temporary_tables_and_the_role_of_analytics_none(plain_owner: str) -> None:
    made = "create temporary table made (id integer)"
    owner = await asyncpg.connect(plain_owner)
    role = await asyncpg.connect(as_user(plain_owner, ROLE))
    try:
        await owner.execute(made)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="temporary tables"):
            await role.execute(made)
    finally:
        await role.close()
        await owner.close()


async def test_the_views_are_those_that_are_listed_and_all_are_documented(stage: Stage) -> None:
    owner = await asyncpg.connect(stage.dsn)
    try:
        found = await owner.fetch(
            """
            select relname, obj_description(c.oid) is not null as described, reloptions,
                   (select count(*) from pg_attribute where attrelid = c.oid and attnum > 0
                    and col_description(c.oid, attnum) is null) as silent
            from pg_class as c where relnamespace = 'insight'::regnamespace
            """
        )
    finally:
        await owner.close()
    assert {row["relname"] for row in found} == set(TABLES)
    assert all(row["described"] and row["silent"] == 0 for row in found)
    assert all("security_barrier=true" in row["reloptions"] for row in found)


@pytest.mark.parametrize(
    ("table", "column"),
    [("searches", "query"), ("selections", "reasoning"), ("approvals", "reason"), ("searches", "remediation_id")],
)
async def test_free_text_takes_the_right_to_use_the_incident(stage: Stage, table: str, column: str) -> None:
    assert [row[column] for row in await _rows(stage, table, OF_THE_SHOP)] != [None]
    without = replace(OF_THE_SHOP, incidents=frozenset())
    rows = await _rows(stage, table, without)
    assert [row[column] for row in rows] == [None]


async def test_alerts_and_runs_take_rights_of_their_own(stage: Stage) -> None:
    poor = replace(OF_THE_SHOP, incidents=frozenset(), runs=frozenset())
    for table in ("alerts", "runs", "decisions", "approvals"):
        assert await _rows(stage, table, poor) == []


async def test_what_the_incident_of_a_call_excludes_is_in_no_table(stage: Stage) -> None:
    (shared,) = [row for row in await _rows(stage, "catalog", EVERYBODY) if row["name"] == "shared-restart"]
    bound = replace(EVERYBODY, versions=frozenset({shared["version_id"]}), remediation_id=f"rr-{SHOP}")
    for table in TABLES:
        rows = str(await _rows(stage, table, bound))
        assert not [word for word in (*FOREIGN, "shop-restart") if word in rows], table
    assert [row["name"] for row in await _rows(stage, "catalog", bound)] == ["shared-restart"]
    (search,) = await _rows(stage, "searches", bound)
    assert (search["candidates"], search["first_workflow"]) == (1, "formulary/shared-restart")
    assert [row["rank"] for row in await _rows(stage, "candidates", bound)] == [1]


async def test_versions_that_an_incident_allows_may_be_none_or_very_many(stage: Stage) -> None:
    database = stage.database(limits=StatementLimits(seconds=30))
    count = "select count(*) from insight.versions union all select count(*) from insight.candidates"
    known = await database.query("select version_id from versions", scope=EVERYBODY, at_most=10)
    own = {row[0] for row in known.rows}
    many = {f"wf_ver_{number:020x}" for number in range(100_000)}
    for versions, expected in ((own, 3), (own | many, 3), (many, 0), (set[str](), 0)):
        scope = replace(EVERYBODY, versions=frozenset(versions), remediation_id="rr-shop")
        assert (await database.query(count, scope=scope, at_most=10)).rows[0] == (expected,)


async def test_a_server_of_an_earlier_release_says_the_versions_in_the_scope(stage: Stage) -> None:
    async def read(connection: Connection) -> list[str]:
        owner = await asyncpg.connect(stage.dsn)
        key = await owner.fetchval("select key from formulary.insight_key")
        await owner.close()
        transaction = await connection.fetchval("select pg_backend_pid() || ' ' || extract(epoch from now())")
        content = json.dumps({"transaction": transaction, "versions": ["wf_ver_1", "wf_ver_2"]})
        inner = hashlib.sha256(key + content.encode()).digest()
        proof = hashlib.sha256(key + inner).hexdigest()
        await connection.execute("set local formulary.insight_versions = ''")
        await connection.execute(f"set local formulary.insight = '{proof} {content}'")
        return [row[0] for row in await connection.fetch("select insight.versions()")]

    assert await stage.database().read(read, scope=EVERYBODY) == ["wf_ver_1", "wf_ver_2"]


async def test_callers_see_their_own_searches_whatever_their_rights(stage: Stage) -> None:
    own = AnalyticsScope(caller="agent-of-shop", namespaces=frozenset({SHOP}), incidents=frozenset(), runs=frozenset())
    (search,) = await _rows(stage, "searches", own)
    assert (search["query"], search["caller"]) == ("OOMKilled", "agent-of-shop")


async def test_outcomes_are_those_of_visible_versions(stage: Stage) -> None:
    (row,) = await _rows(stage, "outcomes", OF_THE_SHOP)
    assert (row["workflow"], row["succeeded"], row["failed"], row["success_rate"], row["median_seconds"]) == (
        "formulary/shared-restart",
        3,
        1,
        0.75,
        42.5,
    )
    assert (row["helped"], row["verified"]) == (6, 8)
    assert (row["success_low"], row["success_high"]) == pytest.approx(wilson_interval(6, 8), abs=1e-4)


async def test_the_page_on_analytics_tells_of_every_column_what_the_database_does(stage: Stage) -> None:
    page = (Path(__file__).parents[3] / "docs" / "analytics.md").read_text(encoding="utf-8")
    tables = InsightTables(stage.database())
    for table in TABLES:
        schema = await tables.schema(table, scope=EVERYBODY)
        lines = "\n".join(f"| `{line.name}` | {line.type} | {line.description} |" for line in schema.columns)
        assert f"### {schema.table}\n\n{schema.description}\n\n" in page
        assert f"|---|---|---|\n{lines}\n" in page
