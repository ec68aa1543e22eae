"""No tool tells of what incident or tenant exclude: an answer is that of a catalog from which it is deleted."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.analytics.answers import QueryAnswer, TableStatistics
from formulary_catalog.domain.analytics.statement import TABLES
from formulary_catalog.domain.answers import Answer
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.runs.run import NewInvocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.labels import normalize_detected
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.domain.workflows.relations import RELATIONS
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.calls.services import Services
from formulary_catalog.server.mcp.size import compact
from formulary_catalog.server.mcp.tools.catalog_tools import Call, CatalogTool
from formulary_catalog.server.mcp.tools.tool_list import TOOLS_BY_NAME
from formulary_catalog.settings import ContextPolicy, Settings
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
LIST_SKILLS, READ_SKILL = "skills/list", "skills/read"
"""Methods of the protocol, which no tool answers."""
NAMES = ["oom-raise", "oom-scale-out", "node-drain"]
SIGNALS = ["OOMKilled", "Evicted", "DiskAlert", "*"]
ACTIONS = ["RestartPod", "DrainNode"]
TIMES = re.compile(
    r'("(?:time_ms|indexed_at|last_indexed|asked_at|waits_until|invocation_id|search_id)":)("[^"]*"|\d+)'
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
    st.just("oom-rais"),
)
calls = st.one_of(
    st.tuples(
        st.sampled_from(["search_workflow_catalog", "kdd_search"]),
        st.fixed_dictionaries(
            {"query": st.sampled_from(["OOMKilled critical memory", "DiskAlert", "restart pod"])},
            optional={"top_k": st.just(50)},
        ),
    ),
    st.tuples(st.sampled_from(["get_workflow_details"]), st.fixed_dictionaries({"workflow_id": references})),
    st.tuples(
        st.just("record_workflow_selection"),
        st.fixed_dictionaries({"workflow_id": references, "reasoning": st.just("r")}),
    ),
    st.tuples(
        st.just("list_workflows"),
        st.fixed_dictionaries(
            {},
            optional={
                "signal_type": st.sampled_from([*SIGNALS[:3], "DiskAlrt"]),
                "action_type": st.sampled_from([*ACTIONS, "DrainNod"]),
                "namespace": st.sampled_from(["a{0}", "b{0}", "c{0}"]),
                "risk_level": st.sampled_from(["low", "high"]),
                "limit": st.integers(1, 3),
            },
        ),
    ),
    st.tuples(
        st.just("related_workflows"),
        st.fixed_dictionaries(
            {"entity": references | st.sampled_from([*SIGNALS[:3], *ACTIONS, "DiskAlrt", "DrainNod"])},
            optional={
                "depth": st.integers(1, 3),
                "relations": st.lists(st.sampled_from(RELATIONS), min_size=1, max_size=2),
                "limit": st.integers(1, 3),
            },
        ),
    ),
    st.tuples(
        st.just("find_workflow"),
        st.fixed_dictionaries(
            {"name": references | st.sampled_from(["oom", "drain", "OOMKilled", "DiskAlrt", "Node add"])}
        ),
    ),
    st.tuples(st.just("workflow_impact"), st.fixed_dictionaries({"workflow_id": references})),
    st.tuples(
        st.just("read_workflow_section"),
        st.fixed_dictionaries({"workflow_id": references, "section": st.sampled_from(SECTIONS)}),
    ),
    st.tuples(
        st.just(READ_SKILL),
        st.fixed_dictionaries({"uri": st.builds("skill://workflows/{}/SKILL.md".format, references)}),
    ),
    st.tuples(st.just("catalog_stats"), st.just({})),
    st.tuples(st.just("list_pending_approvals"), st.just({})),
    st.tuples(st.just("list_tables"), st.just({})),
    st.tuples(
        st.just("get_sample"),
        st.fixed_dictionaries(
            {"table": st.sampled_from([each for each in TABLES if each != "candidates"]), "n": st.just(50)}
        ),
    ),
    st.tuples(st.just("describe_stats"), st.fixed_dictionaries({"table": st.sampled_from(TABLES)})),
    st.tuples(
        st.just("execute_query"),
        st.fixed_dictionaries(
            {
                "sql": st.builds(str.format, st.sampled_from(STATEMENTS), st.sampled_from(TABLES))
                | st.sampled_from(ATTACKS)
            }
        ),
    ),
)


BATTERY: list[tuple[str, dict[str, Any]]] = [
    *(("related_workflows", {"entity": name, "depth": 3}) for name in NAMES),
    *(
        ("get_workflow_details", {"workflow_id": f"{namespace}{{0}}/{name}"})
        for namespace in "ab"
        for name in NAMES[:2]
    ),
    ("list_workflows", {}),
    (LIST_SKILLS, {}),
    *((READ_SKILL, {"uri": f"skill://workflows/{namespace}{{0}}/{NAMES[0]}/SKILL.md"}) for namespace in "abc"),
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
"""Asked of every catalog: where what is excluded shows most easily."""


class Catalog:
    """One database and the services on it."""

    def __init__(self, service: CatalogService, writing: Database, *, dsn: str) -> None:
        settings = Settings(analytics_database_url=as_user(dsn, ROLE), analytics_per_minute=1000)
        self.services = Services.on(service, settings=settings)
        self._writing = writing
        self._workflows, self._contexts = CatalogWriter(writing), ContextWriter(writing)
        self._runs = InvocationStore(writing, shared_namespace="formulary")
        self._approvals = ApprovalStore(writing)

    async def load(self, entries: list[CatalogEntry], *, served: set[str], incident: RequestContext) -> None:
        """The versions, of which all but the served ones are history; of each an outcome, and a run that waits for an
        approval and was rejected."""
        for each in sorted(entries, key=lambda one: one.version_id in served):
            await self._workflows.apply(each, superseded=each.version_id not in served)
            submitted = await self._runs.submit(_waiting(each))
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
        context = ContextReference(analysis=f"{incident.namespace}/{incident.name}")
        try:
            if name == LIST_SKILLS:
                said = str(await self.services.skills.listed(context=context, caller=caller))
            elif name == READ_SKILL:
                said = str(await self.services.skills.read(arguments["uri"], context=context, caller=caller))
            else:
                said = await self._answer(TOOLS_BY_NAME[name], arguments, context=context, caller=caller)
        except (NotFound, InvalidInput) as error:
            said = f"{type(error).__name__}: {error}"
        return TIMES.sub(r"\1", said)

    async def _answer(
        self, tool: CatalogTool[Any], arguments: Mapping[str, Any], *, context: ContextReference, caller: Caller
    ) -> str:
        read = tool.arguments.read(arguments)
        call = Call(services=self.services, arguments=read, context=context, caller=caller)
        return compact(tool.shrink(_without_chance(await tool.run(call)).as_json()))


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
    incident = replace(incident, namespace=f"a{number}", target_namespace=f"b{number}", remediation_id=f"rr-{number}")
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
            analyse={"*"},
        ),
    )
    for name, template in [*BATTERY, *asked]:
        arguments = json.loads(json.dumps(template).replace("{0}", str(number)))
        answers = [
            await each.answer(name, arguments, incident=incident, caller=caller) for each in (pair.whole, pair.left)
        ]
        assert answers[0] == answers[1], (name, arguments)
        assert SECRET not in answers[0]
