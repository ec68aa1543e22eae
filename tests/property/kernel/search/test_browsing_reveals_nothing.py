"""No tool, resource or prompt reveals what incident or tenant exclude: an answer is that of a catalog from which it
is deleted."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.analytics.statement import TABLES
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.domain.workflows.relations import RELATIONS
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.edges.mcp.tools import OTHER_NAMES, tools_of
from formulary_catalog.settings import ContextPolicy, Toolset
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import Rights
from support.databases import migrated_database
from support.drawn_catalogs import ACTIONS, NAMES, SECRET, SIGNALS, Declared, catalogs, incidents
from support.examples import few_and_many
from support.services import open_parts
from support.tool_answers import (
    CHANCE,
    FOREIGN_RUN,
    GET_PROMPT,
    GET_SKILL,
    LIST_PROMPTS,
    LIST_RESOURCES,
    LIST_SKILLS,
    LIST_TEMPLATES,
    METHODS,
    OWN_RUN,
    READ_RESOURCE,
    STATUS,
    Catalog,
    protocol,
)

OF_THE_CONNECTION = {"initialize", "ping", "server/discover", "tools/list", "tools/call"}
"""What the server answers beside `METHODS`: it says nothing of the catalog, or is asked by tool."""
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


@dataclass(frozen=True)
class Pair:
    """The same service over a catalog as it is, and over what is left of it without what is excluded."""

    whole: Catalog
    left: Catalog


@pytest.fixture(scope="module")
async def pair(postgres: EmbeddedPostgres) -> AsyncIterator[Pair]:
    async with _catalog(postgres) as one, _catalog(postgres) as other:
        yield Pair(one, other)


@asynccontextmanager
async def _catalog(postgres: EmbeddedPostgres) -> AsyncIterator[Catalog]:
    async with (
        migrated_database(postgres) as dsn,
        open_parts(dsn, policy=ContextPolicy.REQUIRED) as parts,
        Database.opened(dsn, role=Role.WRITER, deadline=30) as writing,
    ):
        yield Catalog(parts, writing, dsn=dsn)


NUMBERS = itertools.count()


async def _answers_as_a_catalog_without_what_is_excluded(
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


test_an_answer_is_that_of_a_catalog_without_what_is_excluded, test_so_are_many_answers = few_and_many(
    _answers_as_a_catalog_without_what_is_excluded,
    few=8,
    many=50,
    catalog=catalogs,
    incident=incidents,
    asked=st.lists(calls, min_size=4, max_size=6),
    see=st.sampled_from(["ab", "ab", "a", "b"]),
)
