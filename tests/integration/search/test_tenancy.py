"""Tenancy is held by the database: whatever our queries ask, rows of other namespaces do not come back."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.workflows.identity import parse_reference
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.search.service import CatalogService
from formulary_catalog.store.alert_rules import AlertRuleWriter, RuleObject
from formulary_catalog.store.database.connection import Connection, Database, Role
from formulary_catalog.store.incidents import ContextReader, ContextWriter
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.search.page import PageReader
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader
from formulary_catalog.store.workflows.listing import ListingQuestion, ListingReader
from formulary_catalog.store.workflows.reader import WorkflowReader
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_catalog.workflows.listing import Listing
from support import manifest
from support.access import Rights
from support.filling import fill, refusal

NOWHERE = ContextReference()
IN_ALPHA = ContextReference(remediation_id="rr-alpha")
ALICE = Caller(name="alice", access=Rights(see={"alpha"}, use={"alpha"}))
TABLES = (
    "admission_record",
    "alembic_version",
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
    "insight_key",
    "invocation",
    "invocation_approval",
    "invocation_secret",
    "knowledge_document",
    "knowledge_progress",
    "leadership",
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
    "alert_rule",
    "digest_key",
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
    "alert_rule",
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
    await ResyncWriter(writing).note("formulary/operator", listed=8, differed=0, refused=None, every_seconds=300)
    return ids


@pytest.fixture
async def reading(database: str) -> AsyncIterator[Database]:
    """One connection as the server's role, so that every transaction follows another on it."""
    opened = await Database.open(database, role=Role.SERVER, size=1)
    yield opened
    await opened.close()


@pytest.fixture
async def owner(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def _rows(database: Database, statement: str, *arguments: object) -> list[Any]:
    async def read(connection: Connection) -> list[Any]:
        return [tuple(row) for row in await connection.fetch(statement, *arguments)]

    return await database.read(read)


@pytest.mark.parametrize("form", ["restart", "restart@1.0.0", "restart@2.0.0"])
async def test_a_name_means_the_workflow_of_the_callers_own_namespace(
    tenants: dict[str, str], service: CatalogService, form: str
) -> None:
    found = await service.details(form, context=IN_ALPHA, caller=ALICE)
    assert found.namespace == "alpha"
    assert [line.version for line in found.versions] == ["2.0.0", "1.0.0"]


async def test_no_form_of_a_name_reaches_another_namespace(tenants: dict[str, str], service: CatalogService) -> None:
    forms = (
        "beta/restart",
        "beta/restart@1.0.0",
        "beta/restart@2.0.0",
        "only-beta",
        "only-beta@1.0.0",
        tenants["beta"],
    )
    for form in forms:
        with pytest.raises(NotFound):
            await service.details(form, context=IN_ALPHA, caller=ALICE)
        with pytest.raises(NotFound):
            await service.record_selection(workflow_id=form, reasoning="r", context=IN_ALPHA, caller=ALICE)


async def test_searches_and_listings_hold_only_visible_namespaces(
    tenants: dict[str, str], service: CatalogService
) -> None:
    request = search_request(query="OOMKilled betaword restart", top_k=50, context=IN_ALPHA)
    answer = await service.search(request, caller=ALICE)
    assert {hit.namespace for hit in answer.workflows} == {"alpha"}
    assert answer.total_results == 2
    listed = await Listing(service.parts).page(context=IN_ALPHA, caller=ALICE)
    assert {line.namespace for line in listed.workflows} == {"alpha"}
    assert listed.total_results == 2


async def test_what_is_in_use_elsewhere_changes_nothing_here(
    service: CatalogService, workflows: CatalogWriter, contexts: ContextWriter
) -> None:
    labels = manifest.workflow("")["spec"]["labels"]
    theirs = manifest.workflow("theirs", labels=labels | {"signalType": ["BetaAlert"], "riskTolerance": ["betalow"]})
    await fill(workflows, [theirs], namespace="beta")
    other = manifest.workflow("other", labels=labels | {"riskTolerance": ["alphalow"]})
    await fill(workflows, [manifest.workflow("mine"), other], namespace="alpha")
    await contexts.save(RequestContext(namespace="alpha", name="oom", remediation_id="rr-alpha"))
    request = search_request(
        query="BetaAlert high restart", labels={"risk_tolerance": ["betalow"]}, top_k=50, context=IN_ALPHA
    )
    mine = await service.search(request, caller=ALICE)
    assert [hit.workflow_id for hit in mine.workflows] == ["mine"]
    assert mine.inferred == {}
    assert any("betalow" in note for note in mine.notes)
    theirs_too = await service.search(request, caller=Caller(name="all", access=EVERYTHING))
    assert theirs_too.inferred == {"signal_type": "BetaAlert", "severity": "high"}
    assert not any("betalow" in note for note in theirs_too.notes)


@pytest.mark.parametrize("namespaces", [frozenset[str](), frozenset({"gamma"}), frozenset({"Alpha"}), frozenset({"1"})])
async def test_a_caller_without_a_known_namespace_sees_nothing(
    tenants: dict[str, str], reading: Database, namespaces: frozenset[str]
) -> None:
    workflows, candidates = WorkflowReader(reading), CandidateReader(reading)
    question = CandidateQuery(constraints=Constraints(), words=["restart"], signal="oomkilled", severity="critical")
    found = await candidates.read(question, namespaces=namespaces)
    assert (found.evidence, found.total, found.rows) == ((), 0, {})
    assert not found.signal_declared
    asked = {"signal_type": frozenset({"oomkilled"}), "cluster": frozenset({"east"})}
    unfamiliar = await candidates.unfamiliar(asked, constraints=Constraints(), namespaces=namespaces)
    assert unfamiliar == ("cluster",)
    assert await PageReader(reading).read([*tenants.values()], known=(), namespaces=namespaces) == {}
    everything = ListingQuestion(constraints=Constraints())
    assert await ListingReader(reading).read(everything, namespaces=namespaces, limit=10) == ([], 0)
    for form in ("restart", "beta/restart", "restart@1.0.0", *tenants.values()):
        assert await workflows.find(parse_reference(form), namespaces=namespaces) == []


async def test_a_caller_who_sees_everything_must_say_which_of_two_it_means(
    tenants: dict[str, str], service: CatalogService
) -> None:
    everyone = Caller(name="admin", access=EVERYTHING)
    with pytest.raises(InvalidInput, match="alpha/restart, beta/restart"):
        await service.details("restart", context=NOWHERE, caller=everyone)
    assert (await service.details("beta/restart", context=NOWHERE, caller=everyone)).namespace == "beta"


async def test_a_context_is_found_only_by_its_own_names(tenants: dict[str, str], reading: Database) -> None:
    contexts = ContextReader(reading)
    found = await contexts.find(remediation_ids=frozenset({"rr-alpha"}), analysis="")
    assert [context.namespace for context in found] == ["alpha"]
    found = await contexts.find(remediation_ids=frozenset(), analysis="beta/oom")
    assert [context.namespace for context in found] == ["beta"]
    for unknown in ("", "rr", "RR-alpha", "rr-alpha ", "%", "rr-alpha\x1frr-beta", "beta/oom"):
        assert await contexts.find(remediation_ids=frozenset({unknown}), analysis="") == []


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
    names = (*tenants, *trail, "alert_rule", "request_context", *RUNS_OF_NAMESPACES)
    # What the webhook noted, and which runs are being started, is for the writer alone.
    writers = ("admission_record", "run_start", "workflow_author")
    assert {row["relname"]: row["secured"] for row in rows} == dict.fromkeys(names, True) | dict.fromkeys(
        writers, False
    )


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_owns_nothing_and_has_no_power_over_the_server(owner: Any, role: Role) -> None:
    powers = await owner.fetchrow(
        "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication from pg_roles where rolname = $1",
        role,
    )
    assert list(powers) == [False] * 5
    owned = await owner.fetchval(
        "select count(*) from pg_shdepend where refobjid = $1::regrole and deptype = 'o'", role
    )
    assert owned == 0
    assert await owner.fetch("select from pg_auth_members where member = $1::regrole", role) == []


async def test_the_server_may_change_nothing_and_only_append_to_the_audit_trail(owner: Any) -> None:
    allowed = set()
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
            assert not column or (table, privilege) in allowed
    assert allowed == {
        (table, "INSERT")
        for table in ("audit_event", "decision_basis", "invocation", "invocation_approval", "invocation_secret")
    }
    assert not await owner.fetchval("select has_schema_privilege($1, 'formulary', 'CREATE')", Role.SERVER)


@pytest.mark.parametrize(
    "statement",
    [
        "update workflow_version set status = 'Active'",
        "delete from workflow_version",
        "truncate workflow_search",
        "insert into tenant (namespace) values ('x')",
        "update request_context set context = '{}'",
        "delete from audit_event",
        "update audit_event set outcome = 'ok'",
        "select * from audit_event",
        "delete from refused_workflow",
        "update resync set differed = 0",
        "delete from halt",
        "delete from ended_session",
        "update ended_session set over_at = now()",
        "update invocation set halted = ''",
        "insert into halt (namespace, contract, reason, by, trace_id) values ('', '', 'x', 'me', 'tr_1')",
        "select formulary.begin_halt('', 'formulary/stop', 'x', 'me', 'tr_1')",
        "select formulary.end_halted('', '', 'x')",
        "select formulary.append_trace('tr_1', 'halt.begun', '{\"caller\": \"me\"}')",
        "select formulary.append_trace('tr_1', 'halt.lifted', '{\"caller\": \"me\"}')",
        "select formulary.begin_checkpoint(1)",
        "select formulary.prepare_trace_months(1)",
        "select * from embedding",
        "delete from alembic_version",
        "alter table workflow_version disable row level security",
        "drop policy server on workflow_version",
        "set row_security = off; select * from workflow_version",
        "set role formulary_writer; select * from workflow_version",
        "create table formulary.mine (id integer)",
    ],
)
async def test_the_servers_role_is_refused_what_it_must_not_do(
    tenants: dict[str, str], database: str, statement: str
) -> None:
    connection = await asyncpg.connect(database, user="formulary_server")
    try:
        await connection.execute("set search_path = formulary, public")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "statement", ["select * from audit_event", "update audit_event set outcome = ''", "delete from audit_event"]
)
async def test_the_writer_can_neither_read_nor_change_the_audit_trail(
    writing: Database, database: str, statement: str
) -> None:
    connection = await asyncpg.connect(database, user="formulary_writer")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement.replace("audit_event", "formulary.audit_event"))
    finally:
        await connection.close()


async def test_what_runs_as_the_owner_may_be_called_only_by_those_who_need_it(owner: Any) -> None:
    rows = await owner.fetch(
        """
        select proname::text as name, proconfig,
               array(select rolname::text from pg_roles
                     where rolname in ('formulary_server', 'formulary_writer')
                       and has_function_privilege(rolname, pg_proc.oid, 'EXECUTE') order by 1) as callers
        from pg_proc where pronamespace = 'formulary'::regnamespace and prosecdef
        """
    )
    server, writer = ["formulary_server"], ["formulary_writer"]
    assert {row["name"]: row["callers"] for row in rows} == {
        "append_sealed": server + writer,
        "append_trace": server + writer,
        "begin_checkpoint": writer,
        "begin_halt": server + writer,
        "checkpoints_from": writer,
        "end_checkpoint": writer,
        "demand_for": server,
        "end_halted": server + writer,
        "end_session": server,
        "ended_traces": writer,
        "holders": server,
        "known_namespaces": server,
        "lift_halt": server + writer,
        "may_append": [],
        "namespaces_of_trace": server,
        "namespaces_with_rules": server,
        "namespaces_with_workflows": server,
        "prepare_trace_months": writer,
        "recent_failures": server + writer,
        "record_hold": [],
        "search_recorded": server + writer,
        "sealed_namespaces": server,
        "search_returned": server,
        "searches_by_mode": server,
        "selection_of": server + writer,
        "starts_under_way": server + writer,
        "tenants_of": server + writer,
        "trace_marks": server + writer,
        "trace_of_search": server,
        "traces_in": server,
        "unanswered_queries": server,
        "use_of": server,
        "uses_of_workflows": server,
        "weak_queries": server,
    }
    assert {tuple(row["proconfig"]) for row in rows} == {("search_path=formulary, pg_temp",)}
