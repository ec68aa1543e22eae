"""No tool, resource or prompt reveals what incident or tenant exclude: an answer is that of a catalog from which it
is deleted."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.server.lowlevel import Server
from pydantic import BaseModel
from starlette.datastructures import Headers

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.analytics.answers import QueryAnswer, TableStatistics
from formulary_catalog.domain.analytics.statement import TABLES
from formulary_catalog.domain.answers.catalog import Answer, InvocationAnswer
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.runs.run import NewInvocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.labels import normalize_detected
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.domain.workflows.relations import RELATIONS
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.errors import FormularyError, Unavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.calls.incident import ANALYSIS_HEADER
from formulary_catalog.server.calls.readiness import Readiness
from formulary_catalog.server.calls.services import Opening, Services
from formulary_catalog.server.mcp.server import mcp_server
from formulary_catalog.server.mcp.size import compact
from formulary_catalog.server.mcp.tools.catalog_tools import Call, CatalogTool
from formulary_catalog.server.mcp.tools.tool_list import OTHER_NAMES, TOOLS_BY_NAME, tools_of
from formulary_catalog.settings import ContextPolicy, Settings, Toolset
from formulary_catalog.store.analytics.connection import ROLE
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest, runs
from support.access import Rights
from support.databases import migrated_database
from support.filling import entry
from support.insight import as_user
from support.services import open_service

SECRET = "v4ult"
LIST_SKILLS, GET_SKILL = "skills/list", "skills/get"
LIST_RESOURCES, LIST_TEMPLATES, READ_RESOURCE = "resources/list", "resources/templates/list", "resources/read"
LIST_PROMPTS, GET_PROMPT = "prompts/list", "prompts/get"
METHODS = {LIST_SKILLS, GET_SKILL, LIST_RESOURCES, LIST_TEMPLATES, READ_RESOURCE, LIST_PROMPTS, GET_PROMPT}
"""Methods of the protocol, which no tool answers."""
STATUS, OWN_RUN, FOREIGN_RUN = "get_invocation_status", "own", "foreign"
"""Runs have other ids in each database: the last one that was asked for, and one of a namespace that is not seen."""
NO_RUN = "inv-00000000000000000000"
OF_THE_CONNECTION = {"initialize", "ping", "server/discover", "tools/list", "tools/call"}
"""What the server answers beside them: it says nothing of the catalog, or is asked by tool."""
NAMES = ["oom-raise", "oom-scale-out", "node-drain"]
SIGNALS = ["OOMKilled", "Evicted", "DiskAlert", "*"]
ACTIONS = ["RestartPod", "DrainNode"]
TIMES = re.compile(
    r'("(?:time_ms|indexed_at|last_indexed|asked_at|waits_until|created_at|started_at|finished_at|search_id)":)'
    r'("[^"]*"|\d+)|(inv-|tr_)[0-9a-f]+'
)

CHANCE = (
    "at",
    "created_at",
    "changed_at",
    "started_at",
    "finished_at",
    "gone_at",
    "duration_ms",
    "duration_seconds",
    "waited_seconds",
    "run_id",
    "search_id",
)
"""Columns of `insight` that differ from one database to the other."""

some_custom = st.dictionaries(
    st.sampled_from(["team", "region"]), st.lists(st.sampled_from([SECRET, "other", "*"]), min_size=1), max_size=2
)
some_detected = st.dictionaries(st.just("hpaEnabled"), st.sampled_from([True, False]), max_size=1)


@dataclass(frozen=True)
class Declared:
    """A version of a workflow: of a namespace that the caller sees, or of a foreign one."""

    namespace: str
    name: str
    version: str
    suspended: bool
    spec: Mapping[str, Any]

    def entry(self, number: int) -> CatalogEntry:
        document = manifest.workflow(self.name, version=self.version, **self.spec)
        document["spec"]["suspend"] = self.suspended
        return entry(document, namespace=f"{self.namespace}{number}")


def _spec(
    signals: list[str],
    environment: list[str],
    custom: dict[str, list[str]],
    detected: dict[str, bool],
    related: list[tuple[str, str]],
    mentioned: str,
    action: str,
    risk: str,
) -> dict[str, Any]:
    labels = {"severity": "*", "component": "*", "priority": "*", "signalType": signals, "environment": environment}
    return {
        "labels": labels,
        "customLabels": custom,
        "detectedLabels": detected,
        "related": [{"name": name, "relation": relation} for name, relation in related],
        "description": {"what": "It acts.", "whenToUse": "memory", "whenNotToUse": f"Rather take {mentioned} then."},
        "actionType": action,
        "riskLevel": risk,
        "steps": [{"name": "go", "command": "kubectl rollout restart deployment/web"}],
        "execution": {"engine": "job", "bundle": "registry.example/tools:1.0.0"},
    }


specs = st.builds(
    _spec,
    st.lists(st.sampled_from(SIGNALS), max_size=2, unique=True),
    st.lists(st.sampled_from(["production", "staging", "*"]), min_size=1, max_size=2),
    some_custom,
    some_detected,
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["escalatesTo", "requires", "rollbackOf", "supersedes"])),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(NAMES),
    st.sampled_from(ACTIONS),
    st.sampled_from(["low", "high"]),
)
catalogs = st.lists(
    st.builds(
        Declared,
        namespace=st.sampled_from("aabbc"),
        name=st.sampled_from(NAMES),
        version=st.sampled_from(["1.0.0", "2.0.0"]),
        suspended=st.sampled_from([False, False, False, True]),
        spec=specs,
    ),
    min_size=3,
    max_size=9,
    unique_by=lambda each: (each.namespace, each.name, each.version),
)
incidents = st.builds(
    replace,
    st.just(RequestContext(namespace="", name="oom", remediation_id="")),
    environment=st.sampled_from(["", "production", "staging"]),
    custom_labels=some_custom.map(
        lambda given: {key: tuple(values) for key, values in given.items() if "*" not in values}
    ),
    strict_keys=st.frozensets(st.sampled_from(["team", "region"]), max_size=1),
    detected_labels=some_detected.map(lambda given: {key: normalize_detected(value) for key, value in given.items()}),
)
WITHOUT_CHANCE = f"(to_jsonb(t) - array{list(CHANCE)})::text"
STATEMENTS = [
    f"select {WITHOUT_CHANCE} from insight.{{}} as t order by 1",
    f"select count(*), count(distinct {WITHOUT_CHANCE}) from insight.{{}} as t",
    f"select length({WITHOUT_CHANCE}), count(*) from insight.{{}} as t group by 1 order by 1",
]
ATTACKS = [
    "select cast(name as integer) from insight.versions where namespace like 'c%'",
    "select 1 / (case when namespace like 'c%' then 0 else 1 end) from insight.catalog",
    "select count(*) from insight.versions where xmlparse(document name) is null",
    "select rank, workflow, confidence from insight.candidates order by search_id is null, 1, 2, 3",
    "select c.workflow, count(r.*) from insight.catalog as c left join insight.runs as r using (version_id) group by 1 "
    "order by 1",
]
"""Where an error, a rank or a join would reveal a row that is not shown."""
references = st.one_of(
    st.sampled_from(NAMES),
    st.builds("{}{{0}}/{}".format, st.sampled_from("abc"), st.sampled_from(NAMES)),
    st.builds("{}@{}".format, st.sampled_from(NAMES), st.sampled_from(["1.0.0", "2.0.0"])),
    st.sampled_from(["oom-rais", "{1}", "{2}"]),
)
"""`{0}` stands for the number of the case, `{1}` and `{2}` for ids of versions that the catalog may hold."""
queries = st.sampled_from(["OOMKilled critical memory", "DiskAlert", "restart pod", "rather take oom-raise"])
addresses = st.builds("workflow://{}".format, references) | st.builds(
    "workflow://{}{{0}}/{}@{}".format,
    st.sampled_from("abc"),
    st.sampled_from([*NAMES, "oom-rais", "node-dran"]),
    st.sampled_from(["1.0.0", "2.0.0"]),
)
sections = st.sampled_from(SECTIONS)
documents = st.builds("{}#{}".format, addresses | st.sampled_from(["{1}", "{2}", "{1}0"]), sections)
tables = st.sampled_from(TABLES)
ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "search_workflow_catalog": st.fixed_dictionaries({"query": queries}, optional={"top_k": st.just(50)}),
    "kdd_search": st.fixed_dictionaries({"query": queries}, optional={"top_k": st.just(50)}),
    "get_workflow_details": st.fixed_dictionaries({"workflow_id": references}),
    "record_workflow_selection": st.fixed_dictionaries({"workflow_id": references, "reasoning": st.just("r")}),
    "list_workflows": st.fixed_dictionaries(
        {},
        optional={
            "signal_type": st.sampled_from([*SIGNALS[:3], "DiskAlrt"]),
            "action_type": st.sampled_from([*ACTIONS, "DrainNod"]),
            "namespace": st.sampled_from(["a{0}", "b{0}", "c{0}"]),
            "risk_level": st.sampled_from(["low", "high"]),
            "limit": st.integers(1, 3),
        },
    ),
    "related_workflows": st.fixed_dictionaries(
        {"entity": references | st.sampled_from([*SIGNALS[:3], *ACTIONS, "DiskAlrt", "DrainNod"])},
        optional={
            "depth": st.integers(1, 3),
            "relations": st.lists(st.sampled_from(RELATIONS), min_size=1, max_size=2),
            "limit": st.integers(1, 3),
        },
    ),
    "invoke_workflow": st.fixed_dictionaries(
        {"workflow_id": references, "dry_run": st.sampled_from([True, True, False])},
        optional={"input": st.just({"NOTHING": 1}), "version": st.sampled_from(["1.0.0", "2.0.0"])},
    ),
    STATUS: st.fixed_dictionaries({"invocation_id": st.sampled_from([OWN_RUN, FOREIGN_RUN])}),
    "governance_gate": st.fixed_dictionaries({"task": queries}, optional={"trace_id": st.just("rr-case-{0}")}),
    "governance_enforce": st.fixed_dictionaries(
        {
            "contract": st.just({"rules": [{"id": "one", "effect": "DENY", "match": {"path_prefix": "/workflows"}}]}),
            "actions": st.builds(
                lambda named: [{"action_type": "run", "path_prefix": f"/workflows/{named}"}], references
            ),
        }
    ),
    "governance_verdict": st.just({"gate_report": {"version": "1.0.0", "decision": "ALLOW", "risks": []}}),
    "governance_replay": st.just({"trace_id": "rr-case-{0}"}),
    "find_workflow": st.fixed_dictionaries(
        {"name": references | st.sampled_from(["oom", "drain", "OOMKilled", "DiskAlrt", "Node add"])}
    ),
    "workflow_impact": st.fixed_dictionaries({"workflow_id": references}),
    "read_workflow_section": st.fixed_dictionaries({"workflow_id": references, "section": sections}),
    "catalog_stats": st.just({}),
    "semantic_search": st.fixed_dictionaries(
        {"query": queries}, optional={"top_k": st.just(50), "collection": st.just("workflows")}
    ),
    "similar_docs": st.fixed_dictionaries({"doc_id": documents}) | st.fixed_dictionaries({"text": queries}),
    "get_document": st.fixed_dictionaries({"doc_id": documents}),
    "list_collections": st.just({}),
    "execute_query": st.fixed_dictionaries(
        {"sql": st.builds(str.format, st.sampled_from(STATEMENTS), tables) | st.sampled_from(ATTACKS)}
    ),
    "list_tables": st.just({}),
    "get_schema": st.fixed_dictionaries({"table": tables}),
    "get_sample": st.fixed_dictionaries(
        {"table": st.sampled_from([each for each in TABLES if each != "candidates"]), "n": st.just(50)}
    ),
    "describe_stats": st.fixed_dictionaries({"table": tables}),
    "list_pending_approvals": st.just({}),
    LIST_SKILLS: st.just({}),
    GET_SKILL: st.fixed_dictionaries({"uri": st.builds("skill://workflows/{}/SKILL.md".format, references)}),
    LIST_RESOURCES: st.just({}),
    LIST_TEMPLATES: st.just({}),
    READ_RESOURCE: st.fixed_dictionaries(
        {
            "uri": addresses
            | st.builds("{}#{}".format, addresses, sections)
            | st.builds("skill://workflows/{}/SKILL.md".format, references)
        }
    ),
    LIST_PROMPTS: st.just({}),
    GET_PROMPT: st.fixed_dictionaries({"incident": references}),
}
calls = st.one_of([st.tuples(st.just(name), arguments) for name, arguments in ARGUMENTS.items()])


BATTERY: list[tuple[str, dict[str, Any]]] = [
    ("search_workflow_catalog", {"query": "OOMKilled critical memory"}),
    ("record_workflow_selection", {"workflow_id": NAMES[0], "reasoning": "r"}),
    *(("invoke_workflow", {"workflow_id": named, "dry_run": True}) for named in ("{1}", "{2}", NAMES[0])),
    *((STATUS, {"invocation_id": run}) for run in (OWN_RUN, FOREIGN_RUN)),
    ("governance_gate", {"task": "restart", "proposed_actions": [{"action_type": "run", "resource": NAMES[0]}]}),
    ("governance_enforce", {"contract": {"rules": []}, "actions": [{"action_type": "run"}]}),
    ("governance_verdict", {"gate_report": {"decision": "ALLOW", "risks": []}}),
    ("governance_replay", {"trace_id": "rr-case-{0}"}),
    ("find_workflow", {"name": "oom"}),
    ("workflow_impact", {"workflow_id": "{1}"}),
    ("read_workflow_section", {"workflow_id": "{1}", "section": "versions"}),
    ("semantic_search", {"query": "rather take oom-raise", "top_k": 50}),
    ("similar_docs", {"text": "rather take oom-raise", "top_k": 50}),
    *(
        ("get_document", {"doc_id": named})
        for named in ("{1}#when_not_to_use", "{2}#steps", "workflow://c{0}/oom-rais@1.0.0#steps")
    ),
    ("list_collections", {}),
    ("get_schema", {"table": "runs"}),
    ("get_sample", {"table": "runs", "n": 50}),
    ("describe_stats", {"table": "catalog"}),
    ("catalog_stats", {}),
    ("list_pending_approvals", {}),
    (LIST_RESOURCES, {}),
    (LIST_TEMPLATES, {}),
    *(
        (READ_RESOURCE, {"uri": uri})
        for uri in ("workflow://{1}", "workflow://{2}#steps", f"workflow://c{{0}}/{NAMES[0]}#labels")
    ),
    (LIST_PROMPTS, {}),
    (GET_PROMPT, {"incident": NAMES[0]}),
    *(("related_workflows", {"entity": name, "depth": 3}) for name in NAMES),
    *(
        ("get_workflow_details", {"workflow_id": f"{namespace}{{0}}/{name}"})
        for namespace in "ab"
        for name in NAMES[:2]
    ),
    ("list_workflows", {}),
    (LIST_SKILLS, {}),
    *((GET_SKILL, {"uri": f"skill://workflows/{namespace}{{0}}/{NAMES[0]}/SKILL.md"}) for namespace in "abc"),
    ("list_tables", {}),
    (
        "execute_query",
        {
            "sql": " union all ".join(
                f"select {WITHOUT_CHANCE} from insight.{table} as t" for table in ("catalog", "versions", "runs")
            )
            + " order by 1"
        },
    ),
]
"""Asked of every catalog: where what is excluded shows most easily, and everything else once."""


def test_every_tool_and_every_method_that_reads_is_asked_of_every_catalog() -> None:
    tools = {tool.name for tool in tools_of(tuple(Toolset))}
    assert tools | METHODS == {name for name, _ in BATTERY}
    assert tools | METHODS == {OTHER_NAMES.get(name, name) for name in ARGUMENTS}
    server = protocol(Opening(), analysis="", caller=Caller(name="nobody", access=Rights()))
    assert METHODS == set(server._request_handlers) - OF_THE_CONNECTION  # there is no public way


def protocol(opening: Opening, *, analysis: str, caller: Caller) -> Server[Any]:
    """The MCP server for the calls of one caller under one incident."""
    return mcp_server(
        opening=opening,
        settings=Settings(),
        readiness=Readiness(),
        metrics=Metrics(),
        caller_of=lambda _: caller,
        own_headers=Headers({ANALYSIS_HEADER: analysis}),
    )


class Catalog:
    """One database and the services on it."""

    def __init__(self, service: CatalogService, writing: Database, *, dsn: str) -> None:
        settings = Settings(analytics_database_url=as_user(dsn, ROLE), analytics_per_minute=1000)
        self.services = Services.on(service, settings=settings)
        self._writing = writing
        self._workflows, self._contexts = CatalogWriter(writing), ContextWriter(writing)
        self._runs = InvocationStore(writing, shared_namespace="formulary")
        self._approvals = ApprovalStore(writing)
        self._named_runs: dict[str, str] = {}

    async def load(self, entries: list[CatalogEntry], *, served: set[str], incident: RequestContext) -> None:
        """The versions, of which all but the served ones are history; of each an outcome, and a run that waits for an
        approval and was rejected."""
        self._named_runs.clear()
        for each in sorted(entries, key=lambda one: one.version_id in served):
            await self._workflows.apply(each, superseded=each.version_id not in served)
            submitted = await self._runs.submit(_waiting(each))
            if each.namespace.startswith("c"):
                self._named_runs[FOREIGN_RUN] = submitted.invocation.id
            await self._approvals.add(
                NewApproval(
                    invocation_id=submitted.invocation.id,
                    namespace=each.namespace,
                    decision="Reject",
                    approver="boss",
                    reason="not now",
                )
            )
            await self._writing.execute(
                "insert into workflow_outcome (version_id, succeeded, failed, median_seconds) values ($1, 3, 1, 42)",
                each.version_id,
            )
        await self._contexts.save(incident)

    async def answer(self, name: str, arguments: Mapping[str, Any], *, incident: RequestContext, caller: Caller) -> str:
        """What a tool or a method says, without what is another with every call."""
        analysis = f"{incident.namespace}/{incident.name}"
        try:
            if name in METHODS:
                said = await self._read(name, arguments, analysis=analysis, caller=caller)
            else:
                context = ContextReference(analysis=analysis)
                said = await self._answer(TOOLS_BY_NAME[name], arguments, context=context, caller=caller)
        except Unavailable:
            raise
        except FormularyError as error:
            said = f"{type(error).__name__}: {error}"
        return TIMES.sub(r"\1", said)

    async def _answer(
        self, tool: CatalogTool[Any], arguments: Mapping[str, Any], *, context: ContextReference, caller: Caller
    ) -> str:
        if tool.name == STATUS:
            arguments = {"invocation_id": self._named_runs.get(arguments["invocation_id"], NO_RUN)}
        read = tool.arguments.read(arguments)
        call = Call(services=self.services, arguments=read, context=context, caller=caller)
        answer = await tool.run(call)
        if isinstance(answer, InvocationAnswer):
            self._named_runs[OWN_RUN] = answer.invocation_id
        return compact(tool.shrink(_without_chance(answer).as_json()))

    async def _read(self, method: str, arguments: Mapping[str, Any], *, analysis: str, caller: Caller) -> str:
        context, skills = ContextReference(analysis=analysis), self.services.skills
        if method == LIST_SKILLS:
            return str(await skills.listed(context=context, caller=caller))
        if method == GET_SKILL:
            return str(await skills.read(arguments["uri"], context=context, caller=caller))
        server = protocol(Opening(self.services), analysis=analysis, caller=caller)
        async with Client(server, cache=None) as client:
            asked: dict[str, Callable[[], Awaitable[BaseModel]]] = {
                LIST_RESOURCES: client.list_resources,
                LIST_TEMPLATES: client.list_resource_templates,
                READ_RESOURCE: lambda: client.read_resource(arguments["uri"]),
                LIST_PROMPTS: client.list_prompts,
                GET_PROMPT: lambda: client.get_prompt("remediate", dict(arguments)),
            }
            try:
                return (await asked[method]()).model_dump_json()
            except MCPError as error:
                return f"{error.error}"


def _without_chance(answer: Answer) -> Answer:
    """Rows of `insight` in an order of their own, without what differs from one database to the other."""
    if isinstance(answer, TableStatistics):
        numbers = {"min", "max", "mean", "stddev", "p50", "p95"}
        columns = [
            each.model_copy(update=dict.fromkeys(numbers if each.name in CHANCE else ())) for each in answer.columns
        ]
        return answer.model_copy(update={"columns": columns})
    if isinstance(answer, QueryAnswer) and not set(CHANCE).isdisjoint(answer.columns):
        kept = [place for place, name in enumerate(answer.columns) if name not in CHANCE]
        rows = sorted(([row[place] for place in kept] for row in answer.rows), key=str)
        return answer.model_copy(update={"rows": rows})
    return answer


def _waiting(each: CatalogEntry) -> NewInvocation:
    """A request for a run in the namespace of the workflow, for production: a person has to approve it."""
    facts = replace(
        runs.HARMLESS,
        workflow_name=each.name,
        workflow_namespace=each.namespace,
        namespace=each.namespace,
        risk_level="high",
        environment="production",
    )
    return runs.request(
        facts=facts,
        namespace=each.namespace,
        workflow_namespace=each.namespace,
        workflow_name=each.name,
        workflow_version=each.version,
        version_id=each.version_id,
        document=each.document,
    )


@dataclass(frozen=True)
class Pair:
    """The same service over a catalog as it is, and over what is left of it without what is excluded."""

    whole: Catalog
    left: Catalog


@pytest.fixture(scope="module")
async def pair(postgres: EmbeddedPostgres) -> AsyncIterator[Pair]:
    async with migrated_database(postgres) as one, migrated_database(postgres) as other:
        services = [await open_service(dsn, policy=ContextPolicy.REQUIRED) for dsn in (one, other)]
        writing = [await Database.open(dsn, role=Role.WRITER, deadline=30) for dsn in (one, other)]
        yield Pair(
            *(
                Catalog(service, database, dsn=dsn)
                for service, database, dsn in zip(services, writing, (one, other), strict=True)
            )
        )
        for service, database in zip(services, writing, strict=True):
            await service.close()
            await database.close()


NUMBERS = itertools.count()


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    catalog=catalogs,
    incident=incidents,
    asked=st.lists(calls, min_size=4, max_size=6),
    see=st.sampled_from(["ab", "ab", "a", "b"]),
)
async def test_an_answer_is_that_of_a_catalog_without_what_is_excluded(
    pair: Pair,
    catalog: list[Declared],
    incident: RequestContext,
    asked: list[tuple[str, dict[str, Any]]],
    see: str,
) -> None:
    number = next(NUMBERS)
    incident = replace(
        incident, namespace=f"a{number}", target_namespace=f"b{number}", remediation_id=f"rr-case-{number}"
    )
    declared = {each.entry(number).version_id: each for each in catalog}
    newest = {(each.namespace, each.name): each for each in sorted(catalog, key=lambda each: each.version)}
    served = {id_ for id_, each in declared.items() if newest[each.namespace, each.name] is each}
    suspended = {place for place, each in newest.items() if each.suspended}
    constraints = constraints_of(incident, strict_keys=frozenset())
    entries = [each.entry(number) for each in catalog]
    left = [
        each
        for each in entries
        if each.namespace[0] in see
        and (each.namespace[0], each.name) not in suspended
        and allowed(each.labels, constraints)
    ]
    await pair.whole.load(entries, served=served, incident=incident)
    await pair.left.load(left, served=served, incident=incident)
    namespaces = {f"{name}{number}" for name in see}
    caller = Caller(
        name=f"agent-{number}",
        access=Rights(
            see=namespaces,
            use={incident.namespace},
            read={f"{name}{number}" for name in "abc"},
            invoke={incident.target_namespace},
            analyse={"*"},
        ),
    )
    # A run by its id is read by right alone: this one may not read those of the foreign namespace.
    follower = replace(caller, access=Rights(see=namespaces, use={incident.namespace}, read={f"b{number}"}))
    for name, template in [*BATTERY, *asked]:
        given = json.dumps(template).replace("{0}", str(number))
        given = given.replace("{1}", entries[0].version_id).replace("{2}", entries[-1].version_id)
        by = follower if name == STATUS else caller
        answers = [
            await each.answer(name, json.loads(given), incident=incident, caller=by) for each in (pair.whole, pair.left)
        ]
        assert answers[0] == answers[1], (name, given)
        assert SECRET not in answers[0]
