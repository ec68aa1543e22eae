"""Bad input of every kind to every argument of every tool: one clear line that names it, and nothing else happens."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.visible import visible
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME, tools_of
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.input_schema import Schema, input_schema
from formulary_catalog.settings import Toolset
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent, answer_of, refused
from support.databases import as_user, migrated_database
from support.manifest import analysis, text
from support.runnable import runnable
from support.services import open_parts
from support.serving import load, serving

RUN, TRACE = "a run", "a trace"
"""Stand for ids that an earlier answer gave."""
VALID: dict[str, dict[str, Any]] = {
    "search_workflow_catalog": {"query": "restart"},
    "get_workflow_details": {"workflow_id": "ours"},
    "record_workflow_selection": {"workflow_id": "ours", "reasoning": "It fits."},
    "list_workflows": {},
    "related_workflows": {"entity": "ours"},
    "invoke_workflow": {"workflow_id": "ours", "input": {"REPLICAS": 1}, "dry_run": True},
    "get_invocation_status": {"invocation_id": RUN},
    "governance_gate": {"task": "restart"},
    "governance_enforce": {"contract": {"rules": []}, "actions": [{"action_type": "run"}]},
    "governance_verdict": {"gate_report": {"decision": "ALLOW"}},
    "governance_replay": {"trace_id": TRACE},
    "find_workflow": {"name": "ours"},
    "workflow_impact": {"workflow_id": "ours"},
    "read_workflow_section": {"workflow_id": "ours", "section": "steps"},
    "catalog_stats": {},
    "semantic_search": {"query": "restart"},
    "similar_docs": {"text": "restart"},
    "get_document": {"doc_id": "workflow://formulary/ours@1.0.0#steps"},
    "list_collections": {},
    "execute_query": {"sql": "select 1 as one"},
    "list_tables": {},
    "get_schema": {"table": "runs"},
    "get_sample": {"table": "runs"},
    "describe_stats": {"table": "runs"},
    "list_pending_approvals": {},
}
"""A call of each tool that is answered."""
FREE = {"query", "reasoning", "task", "idempotency_key", "sql", "text"}
"""What may hold any character that can be stored; other texts name or narrow, and may hide nothing."""
WRONG: dict[str, list[Any]] = {
    "string": [{"a": 1}, ["a", "b"], 7, True],
    "integer": ["many", 1.5, True, {"a": 1}, [1]],
    "number": ["much", True, {"a": 1}, [1]],
    "boolean": ["perhaps", 2, {"a": 1}, [True]],
    "object": [7, "x", ["a"], True],
    "array": [7, "x", {"a": 1}, True],
}
"""Values of other types, by the type that the schema asks for."""
LISTS = {"relations", "keywords", "exclude_keywords"}
"""Words between commas, which may come as a list."""
NUL, HIDING = "a\x00b", "a\u202eb"
UNKNOWN = [
    ("get_workflow_details", {"workflow_id": "our"}, "nearest names: ours"),
    ("get_workflow_details", {"workflow_id": "ours", "version": "9.9.9"}, "ours@1.0.0"),
    ("record_workflow_selection", {"workflow_id": "our"}, "nearest names: ours"),
    ("record_workflow_selection", {"search_id": "0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10"}, "search_id"),
    ("related_workflows", {"entity": "our"}, "nearest names: ours"),
    ("related_workflows", {"relations": "likes"}, "escalatesTo"),
    ("invoke_workflow", {"workflow_id": "our"}, "nearest names: ours"),
    ("invoke_workflow", {"input": {"REPLICA": 1}}, "REPLICA"),
    ("invoke_workflow", {"search_id": "nothing"}, "search_id"),
    ("get_invocation_status", {"invocation_id": "inv-0"}, "take its id from an earlier answer"),
    ("governance_enforce", {"contract": {"rules": [{"id": "a", "effect": "FORBID"}]}}, "FORBID"),
    ("governance_verdict", {"gate_report": {"decision": "PERHAPS"}}, "PERHAPS"),
    ("governance_gate", {"trace_id": "tr_0"}, "tr_0"),
    ("governance_replay", {"trace_id": "tr_0"}, "tr_0"),
    ("workflow_impact", {"workflow_id": "our"}, "nearest names: ours"),
    ("read_workflow_section", {"workflow_id": "our"}, "nearest names: ours"),
    ("read_workflow_section", {"section": "everything"}, "when_not_to_use"),
    ("list_workflows", {"risk_level": "extreme"}, "low, medium, high, unknown"),
    ("list_workflows", {"status": "Gone"}, "Active, Superseded, Disabled, Invalid, Pending"),
    ("list_workflows", {"cursor": "x"}, "no cursor of a listing"),
    ("semantic_search", {"collection": "books"}, "workflows, incidents, runbooks"),
    ("similar_docs", {"text": None, "doc_id": "workflow://formulary/our#steps"}, "ours@1.0.0#steps"),
    ("get_document", {"doc_id": "workflow://formulary/our@1.0.0#steps"}, "ours@1.0.0#steps"),
    ("get_document", {"doc_id": "wf_ver_0#steps"}, "#steps"),
    ("execute_query", {"sql": "select * from insight.serches"}, "did you mean insight.searches?"),
    ("execute_query", {"sql": "delete from insight.runs"}, "which is no SELECT"),
    ("execute_query", {"sql": "select 1; rollback"}, "more than one statement"),
    ("execute_query", {"sql": "select pg_sleep(9)"}, "pg_sleep"),
    ("get_schema", {"table": "serches"}, "did you mean"),
    ("get_sample", {"table": "formulary.tenant"}, "does not exist"),
    ("describe_stats", {"table": "runs; drop"}, "does not exist"),
]
"""What nothing is called, by tool, and the next step that the refusal names."""
ANSWERED = [
    ("search_workflow_catalog", {"action_type": "Restart"}, "action_type 'Restart'"),
    ("list_workflows", {"action_type": "RestartPd"}, "did you mean RestartPod?"),
    ("find_workflow", {"name": "zzzzzz"}, ""),
    ("list_pending_approvals", {"namespace": "nowhere"}, ""),
]
"""What nothing is called where that is no mistake: the answer is empty, and its notes say the next step."""


@dataclass(frozen=True)
class World:
    """A server, the owner's connection to its database, and ids that stand in valid calls."""

    url: str
    owner: "asyncpg.Connection[asyncpg.Record]"
    ids: dict[str, str]

    def valid(self, tool: str) -> dict[str, Any]:
        return {
            name: self.ids.get(value, value) if isinstance(value, str) else value for name, value in VALID[tool].items()
        }

    async def refusals(self, tool: str, bad: Iterable[dict[str, Any]]) -> list[str]:
        """What is said to each of these, which leave no run and no choice, and after which a good call is answered."""
        before = await self._done()
        async with agent(self.url) as client:
            said = [refused(await client.call_tool(tool, self.valid(tool) | each)) for each in bad]
            assert await self._done() == before
            answer_of(await client.call_tool(tool, self.valid(tool)))
        assert not [line for line in said if "internal error" in line or "does not answer" in line], said
        assert all(len(line) < 900 for line in said), said
        assert said == [visible(line) for line in said]
        return said

    async def _done(self) -> list[int]:
        """How much there is of what a call can bring about."""
        counts = "select count(*) from formulary.invocation union all select count(*) from formulary.trace_event "
        rows = await self.owner.fetch(f"{counts} where kind = 'select' and body like '%\"outcome\":\"ok\"%'")
        return [row["count"] for row in rows]


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(runnable("ours"), runnable("zoo"), analysis("a", remediation_id="rr-1")))
    async with migrated_database(postgres) as dsn:
        await load([own], dsn=dsn, embedder=None)
        owner = await asyncpg.connect(dsn)
        insight = as_user(dsn, ROLE)
        async with (
            open_parts(dsn) as parts,
            serving(parts, analytics_database_url=insight, analytics_per_minute=10_000) as url,
        ):
            async with agent(url) as client:
                run = answer_of(await client.call_tool("invoke_workflow", VALID["invoke_workflow"]))
                gate = answer_of(await client.call_tool("governance_gate", VALID["governance_gate"]))
            yield World(url=url, owner=owner, ids={RUN: run["invocation_id"], TRACE: gate["trace_id"]})
        await owner.close()


def schema_of(tool: str) -> Schema:
    model: type[Arguments] = TOOLS_BY_NAME[tool].arguments
    return input_schema(model)


def arguments(tool: str) -> dict[str, Schema]:
    properties: dict[str, Schema] = schema_of(tool)["properties"]
    return properties


def kind(schema: Schema) -> str:
    found = schema["type"]
    return found if isinstance(found, str) else str(found[0])


def test_every_tool_is_asked() -> None:
    assert set(VALID) == {tool.name for tool in tools_of(tuple(Toolset))}
    named = {tool for tool, _, _ in (*UNKNOWN, *ANSWERED)}
    assert set(VALID) - named == {"catalog_stats", "list_collections", "list_tables"}, "these name nothing"


@pytest.mark.parametrize("tool", VALID)
async def test_an_unknown_argument_is_named_with_the_valid_ones(world: World, tool: str) -> None:
    for said in await world.refusals(tool, [{"custom_labels": {"team": "x"}}, {"Query\n": 1}]):
        assert "unknown argument" in said
        assert all(name in said for name in arguments(tool))


@pytest.mark.parametrize("tool", VALID)
async def test_an_argument_that_is_missing_is_named_with_an_example(world: World, tool: str) -> None:
    for name in schema_of(tool)["required"]:
        empty = [None, " "] if kind(arguments(tool)[name]) == "string" else [None]
        for said in await world.refusals(tool, [{name: nothing} for nothing in empty]):
            assert f"{name} is missing; give it, such as" in said


@pytest.mark.parametrize("tool", VALID)
async def test_a_wrong_type_is_refused_with_the_right_one(world: World, tool: str) -> None:
    for name, schema in arguments(tool).items():
        wrong = [value for value in WRONG[kind(schema)] if name not in LISTS or not isinstance(value, list)]
        for said in await world.refusals(tool, [{name: value} for value in wrong]):
            assert name in said


@pytest.mark.parametrize("tool", VALID)
async def test_a_number_out_of_range_is_refused_with_the_range(world: World, tool: str) -> None:
    for name, schema in arguments(tool).items():
        if kind(schema) in ("integer", "number"):
            below, above = schema["minimum"] - 1, schema["maximum"] + 1
            for said in await world.refusals(tool, [{name: below}, {name: above}]):
                assert f"from {schema['minimum']} to {schema['maximum']}" in said
                assert name in said


@pytest.mark.parametrize("tool", VALID)
async def test_a_text_of_4001_characters_is_refused_with_the_bound(world: World, tool: str) -> None:
    for name, schema in arguments(tool).items():
        if kind(schema) == "string":
            (said,) = await world.refusals(tool, [{name: "x" * 4001}])
            assert name in said
            assert "4001 characters; give at most" in said or "is none of" in said


@pytest.mark.parametrize("tool", VALID)
async def test_a_character_that_cannot_be_stored_is_refused_by_the_name_of_the_argument(
    world: World, tool: str
) -> None:
    holding: dict[str, Any] = {"string": NUL, "object": {"a": [NUL]}, "array": [{"action_type": NUL}]}
    for name, schema in arguments(tool).items():
        if kind(schema) in holding:
            (said,) = await world.refusals(tool, [{name: holding[kind(schema)]}])
            assert f"{name} contains a NUL" in said


@pytest.mark.parametrize("tool", VALID)
async def test_a_character_that_nobody_sees_is_refused_where_a_text_names_something(world: World, tool: str) -> None:
    for name, schema in arguments(tool).items():
        if kind(schema) == "string" and name not in FREE:
            (said,) = await world.refusals(tool, [{name: HIDING} | ({"text": None} if name == "doc_id" else {})])
            assert name in said or "\ufffd" in said or "\\u202e" in said


@pytest.mark.parametrize(("tool", "given", "saying"), UNKNOWN)
async def test_what_nothing_is_called_is_refused_with_the_next_step(
    world: World, tool: str, given: dict[str, Any], saying: str
) -> None:
    (said,) = await world.refusals(tool, [given])
    assert saying in said


@pytest.mark.parametrize(("tool", "given", "saying"), ANSWERED)
async def test_a_filter_that_nothing_has_is_answered_with_nothing_and_the_next_step(
    world: World, tool: str, given: dict[str, Any], saying: str
) -> None:
    async with agent(world.url) as client:
        answer = answer_of(await client.call_tool(tool, VALID[tool] | given))
    assert not [
        value for value in answer.values() if isinstance(value, list) and value is not answer["notes"] and value
    ]
    assert saying in " ".join(answer["notes"])
    assert answer["notes"]
