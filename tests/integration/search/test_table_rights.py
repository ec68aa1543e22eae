"""Tables of the database: a session that entered no tenant reads none of its rows, and the server only appends."""

import itertools
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.search.request import search_request
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Connection, Database, Role
from formulary_catalog.store.incidents import ContextReader
from formulary_catalog.store.workflows.listing import ListingQuestion, ListingReader
from support.tenants import ALICE, IN_ALPHA

pytestmark = pytest.mark.smoke

TABLES = (
    "admission_record",
    "alembic_version",
    "alert",
    "alert_episode",
    "alert_rule",
    "audit_event",
    "decision_basis",
    "digest_key",
    "embedding",
    "embedding_model",
    "ended_session",
    "executor",
    "governance_contract",
    "halt",
    "incident_source",
    "insight_key",
    "invocation",
    "invocation_approval",
    "invocation_secret",
    "knowledge_document",
    "knowledge_progress",
    "leadership",
    "notification",
    "notification_receiver",
    "refused_workflow",
    "request_context",
    "resync",
    "run_start",
    "runbook_source",
    "sealed_constraints",
    "sweep_refusal",
    "tenant",
    "trace_checkpoint",
    "trace_event",
    "trace_head",
    "trace_hold",
    "trace_month",
    "webhook_token",
    "word_revision",
    "workflow_author",
    "workflow_outcome",
    "workflow_relation",
    "workflow_search",
    "workflow_version",
)
FILLED = {
    "alembic_version",
    "alert",
    "alert_episode",
    "alert_rule",
    "digest_key",
    "incident_source",
    "insight_key",
    "knowledge_document",
    "knowledge_progress",
    "refused_workflow",
    "request_context",
    "resync",
    "sealed_constraints",
    "tenant",
    "trace_event",
    "trace_head",
    "trace_month",
    "word_revision",
    "workflow_relation",
    "workflow_search",
    "workflow_version",
}
SECURED = {
    "alert",
    "alert_episode",
    "alert_rule",
    "incident_source",
    "knowledge_document",
    "refused_workflow",
    "request_context",
    "sealed_constraints",
    "tenant",
    "trace_event",
    "trace_head",
    "workflow_relation",
    "workflow_search",
    "workflow_version",
}
RUNS_OF_NAMESPACES = ("decision_basis", "governance_contract", "halt", "invocation", "invocation_approval")
RUNS = {*RUNS_OF_NAMESPACES, "executor", "workflow_outcome"}
"""What the server reads of runs."""
OF_NO_NAMESPACE = {"alembic_version", "digest_key", "embedding_model", "ended_session", "resync", "word_revision"}
OPEN = {
    "formulary_server": OF_NO_NAMESPACE | {"insight_key"},
    # It writes the catalog of all namespaces, so it reads that without having entered one; of the trail nothing.
    "formulary_writer": set(TABLES) - {"audit_event", "sealed_constraints", "trace_event", "trace_head"},
    "formulary_insight": set[str](),
}
"""By role, the tables that may show rows to a session that has entered no tenant."""


async def _rows(database: Database, statement: str, *arguments: object) -> list[Any]:
    async def read(connection: Connection) -> list[Any]:
        return [tuple(row) for row in await connection.fetch(statement, *arguments)]

    return await database.read(read)


async def test_without_a_tenant_the_server_reads_no_row_of_any_table(
    tenants: dict[str, str], reading: Database, owner: Any, service: CatalogService
) -> None:
    await service.search(search_request(query="restart", context=IN_ALPHA), caller=ALICE)
    names = await owner.fetch(
        "select relname::text from pg_class where relnamespace = 'formulary'::regnamespace and relkind in ('r', 'p') "
        "and not relispartition order by 1"
    )
    assert tuple(row[0] for row in names) == TABLES
    filled = {name for name in TABLES if await owner.fetchval(f"select exists (select from formulary.{name})")}
    assert filled == FILLED
    readable = {
        row[0]
        for row in await _rows(
            reading,
            "select name from unnest($1::text[]) name where has_table_privilege(name, 'SELECT')",
            [f"formulary.{name}" for name in TABLES],
        )
    }
    # The revisions are needed to know schema and words, the models to embed queries, the ended sessions to refuse them,
    # the keys to digest custom labels and to prove the scope of analytics, the numbers of the last resync for the
    # health; nothing else is readable.
    needed = (
        "alembic_version",
        "digest_key",
        "embedding_model",
        "ended_session",
        "insight_key",
        "resync",
        "word_revision",
    )
    shared = {f"formulary.{name}" for name in needed}
    assert readable == shared | {f"formulary.{name}" for name in SECURED | RUNS}
    for name in readable - shared:
        assert await _rows(reading, f"select * from {name}") == []


@pytest.mark.parametrize("role", [*map(str, Role), "formulary_insight"])
async def test_a_session_that_entered_no_tenant_reads_nothing_whatever_role_it_has(
    tenants: dict[str, str], database: str, owner: Any, service: CatalogService, role: str
) -> None:
    await service.search(search_request(query="restart", context=IN_ALPHA), caller=ALICE)
    connection = await asyncpg.connect(database, user=role)
    try:
        tables = await connection.fetch(
            """
            select format('%I.%I', nspname, relname) as name from pg_class
            join pg_namespace on pg_namespace.oid = relnamespace
            where relkind in ('r', 'p', 'v', 'm', 'f') and nspname <> 'information_schema' and nspname !~ '^pg_'
              and has_schema_privilege(nspname, 'usage') and has_table_privilege(pg_class.oid, 'select')
            """
        )
        readable = {row["name"] for row in tables}
        filled = {name for name in readable if await connection.fetchval(f"select exists (select from {name})")}
        assert readable > filled
        assert filled <= {f"formulary.{name}" for name in OPEN[role]}
        if role == Role.SERVER:
            assert await connection.fetchval("select count(*) from formulary.tenant") == 0
            await connection.execute("begin; select formulary.enter('{beta}', '', '')")
            seen = await connection.fetch("select namespace from formulary.tenant")
            assert [row["namespace"] for row in seen] == ["beta"]
    finally:
        await connection.close()


async def test_which_tenants_are_visible_is_asked_once_for_a_statement(writing: Database) -> None:
    policies = await writing.fetch(
        "select tablename, qual from pg_policies where schemaname = 'formulary' and qual like '%visible_tenants%'"
    )
    once = {row["tablename"] for row in policies if "SELECT visible_tenants()" in row["qual"]}
    assert once == {row["tablename"] for row in policies}
    assert {"workflow_version", "workflow_search", "refused_workflow"} < once


async def test_a_tenant_is_left_with_the_transaction_that_entered_it(
    tenants: dict[str, str], reading: Database
) -> None:
    for _ in range(2):
        everything = ListingQuestion(constraints=Constraints())
        served = ListingReader(reading).read(everything, namespaces=frozenset({"alpha"}), limit=10)
        assert (await served)[1] == 2
        assert await _rows(reading, "select * from workflow_version") == []
        await ContextReader(reading).find(remediation_ids=frozenset({"rr-alpha"}), analysis="beta/oom")
        assert await _rows(reading, "select * from request_context") == []


@pytest.mark.parametrize("table", ["workflow_version", "workflow_search", "knowledge_document", "refused_workflow"])
async def test_inside_a_tenant_raw_sql_reads_its_rows_alone(
    tenants: dict[str, str], reading: Database, table: str
) -> None:
    async def read(connection: Connection) -> set[str]:
        await connection.execute("select formulary.enter('{alpha}', '', '')")
        return {
            row[0] for row in await connection.fetch(f"select namespace from {table} where true or namespace = 'beta'")
        }

    assert await reading.read(read) == {"alpha"}


async def test_row_security_is_forced_on_every_table_that_belongs_to_a_namespace(owner: Any) -> None:
    rows = await owner.fetch(
        """
        select relname, relrowsecurity and relforcerowsecurity as secured from pg_class
        where relnamespace = 'formulary'::regnamespace and relkind in ('r', 'p')
          and exists (select from pg_attribute where attrelid = pg_class.oid and attname in ('namespace', 'tenant_id'))
           or relname in ('trace_event', 'trace_head') and relnamespace = 'formulary'::regnamespace
        """
    )
    tenants = (
        "tenant",
        "workflow_version",
        "workflow_search",
        "workflow_relation",
        "knowledge_document",
        "refused_workflow",
    )
    trail = ("trace_event", "trace_head", "sealed_constraints")
    alerts = ("alert", "alert_rule", "incident_source")
    names = (*tenants, *trail, *alerts, "request_context", *RUNS_OF_NAMESPACES)
    # What the webhook noted, and which runs are being started, is for the writer alone.
    writers = ("admission_record", "run_start", "workflow_author")
    assert {row["relname"]: row["secured"] for row in rows} == dict.fromkeys(names, True) | dict.fromkeys(
        writers, False
    )


async def test_the_server_may_only_append_to_the_audit_trail_and_keep_what_a_source_reports(owner: Any) -> None:
    allowed = set()
    # Row-level security confines them to the source that the session names; its ended incidents alone may go.
    of_alerts = {("alert", each) for each in ("INSERT", "UPDATE", "DELETE")}
    of_alerts |= {("alert_episode", "INSERT"), ("alert_episode", "UPDATE")}
    for table, privilege in itertools.product(
        TABLES, ["INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "REFERENCES"]
    ):
        whole = "select has_table_privilege($1, $2, $3)"
        if await owner.fetchval(whole, Role.SERVER, f"formulary.{table}", privilege):
            allowed.add((table, privilege))
        if privilege in ("INSERT", "UPDATE", "REFERENCES"):
            column = await owner.fetchval(
                "select has_any_column_privilege($1, $2, $3)", Role.SERVER, f"formulary.{table}", privilege
            )
            # Of a source: when it sent something last, and what of that could not be used.
            assert not column or (table, privilege) in allowed or (table, privilege) == ("incident_source", "UPDATE")
    assert allowed - of_alerts == {
        (table, "INSERT")
        for table in ("audit_event", "decision_basis", "invocation", "invocation_approval", "invocation_secret")
    }
    assert of_alerts <= allowed
    assert not await owner.fetchval("select has_schema_privilege($1, 'formulary', 'CREATE')", Role.SERVER)
