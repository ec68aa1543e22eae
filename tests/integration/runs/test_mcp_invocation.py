"""Running workflows as an agent does, through a real MCP client; a test plays the operator."""

import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from mcp import Client, StdioServerParameters
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from formulary_catalog.domain.answers.answer_size import MAX_ANSWER_BYTES
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.contracts import ContractWriter
from support import playing
from support.agent import ERAS, agent, answer_of, call, refused, text_of
from support.runnable import TARGET, nobody_runs_anything
from support.services import open_parts
from support.serving import serving
from support.stdio_program import SERVER

INVOKE = "invoke_workflow"
STATUS = "get_invocation_status"
STAGING = {"X-Remediation-Id": "rr-staging"}
PRODUCTION = {"X-Remediation-Id": "rr-production"}
ASKED = {"workflow_id": "scale-out", "input": {"REPLICAS": 3}}


@pytest.fixture(scope="module")
async def url(dsn: str) -> AsyncIterator[str]:
    async with open_parts(dsn) as parts, serving(parts) as at:
        yield at


@pytest.fixture(autouse=True)
async def owner(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    async with nobody_runs_anything(dsn) as connection:
        yield connection


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_searches_selects_runs_and_reads_the_outcome(url: str, dsn: str, mode: str) -> None:
    async with playing.operator(dsn), agent(url, mode=mode, headers=STAGING) as client:
        with capture_logs(processors=[merge_contextvars]) as lines:
            found = answer_of(await client.call_tool("search_workflow_catalog", {"query": "OOMKilled scale out"}))
            details = answer_of(await client.call_tool("get_workflow_details", {"workflow_id": "scale-out"}))
            chosen = {"workflow_id": "scale-out", "search_id": found["search_id"]}
            await client.call_tool("record_workflow_selection", {**chosen, "reasoning": "It is reversible."})
            ran = answer_of(await client.call_tool(INVOKE, {**chosen, "input": {"REPLICAS": 2}}))
            status = answer_of(await client.call_tool(STATUS, {"invocation_id": ran["invocation_id"]}))

    assert (details["invocable"], details["not_invocable_because"]) == (True, "")
    assert details["input_schema"]["required"] == ["REPLICAS"]
    assert (ran["state"], ran["output"]) == ("completed", {"healed": True})
    assert {**status, "notes": []} == {**ran, "notes": []}
    assert "status" not in ran
    assert [line["trace_id"] for line in lines if line["event"] == "tool_call"] == [ran["trace_id"]] * 5


async def test_what_cannot_be_run_is_said_where_it_is_found_and_where_it_is_read(url: str) -> None:
    found = answer_of(await call(url, "search_workflow_catalog", {"query": "only words on ansible", "top_k": 20}))
    details = answer_of(await call(url, "get_workflow_details", {"workflow_id": "only-words"}))

    (warning,) = [note for note in found["notes"] if note.startswith("not invocable")]
    assert {"only-words", "on-ansible"} <= set(warning.replace(",", " ").replace(";", " ").split())
    assert "scale-out" not in warning
    assert not details["invocable"]
    assert "declares no parameters" in details["not_invocable_because"]
    assert any("not invoked" in note for note in details["notes"])


async def test_arguments_as_models_send_them_are_understood(url: str, dsn: str) -> None:
    quoted = {
        "workflow_id": "formulary/scale-out@1.0.0",
        "input": json.dumps({"REPLICAS": "3", "SAY": None}),
        "timeout_ms": "60000",
        "dry_run": "true",
        "idempotency_key": None,
        "search_id": "",
    }
    async with playing.operator(dsn):
        begun = answer_of(await call(url, INVOKE, quoted, headers=STAGING))

    assert begun["dry_run"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"input": {"REPLICAS": 0}}, "REPLICAS: must be at least 1, given 0"),
        ({"input": {}}, "nothing was run: REPLICAS: missing."),
        ({"input": "three"}, "input is not an object"),
        ({"input": {"REPLICAS": 1}, "dry_run": "perhaps"}, "dry_run"),
        ({"input": {"REPLICAS": 1}, "timeout": 5}, "did you mean 'timeout_ms'"),
        ({"input": {"REPLICAS": 1}, "timeout_ms": 10}, "timeout_ms"),
        ({"input": {"REPLICAS": 1}, "search_id": "made-up"}, "search_id"),
    ],
)
async def test_a_refusal_names_the_value_the_rule_and_the_next_step(
    url: str, dsn: str, arguments: dict[str, Any], told: str
) -> None:
    async with playing.operator(dsn):
        message = refused(await call(url, INVOKE, {"workflow_id": "scale-out", **arguments}, headers=STAGING))

    assert told in message
    assert "etry" in message


async def test_a_run_in_production_waits_and_says_what_a_person_must_do(url: str, dsn: str) -> None:
    async with playing.operator(dsn):
        waiting = answer_of(await call(url, INVOKE, ASKED, headers=PRODUCTION))

    assert waiting["state"] == "awaiting_approval"
    assert "the environment is production" in waiting["message"]
    assert any("kubectl create" in note and waiting["invocation_id"] in note for note in waiting["notes"])
    assert f"follow it with {STATUS}, invocation_id {waiting['invocation_id']}" in waiting["notes"][-1]


async def test_a_denial_is_an_error_that_names_rule_and_rationale(url: str, dsn: str) -> None:
    database = await Database.open(dsn, role=Role.WRITER, size=1, deadline=10)
    spec = {"rules": [{"id": "quiet-hours", "effect": "DENY", "rationale": "Nobody is awake."}]}
    await ContractWriter(database, shared_namespace="formulary").save(spec, namespace=TARGET, name="nights", uid="1")
    await database.close()
    async with playing.operator(dsn):
        message = refused(await call(url, INVOKE, ASKED, headers=STAGING))

    assert "quiet-hours" in message
    assert "Nobody is awake." in message


async def test_a_contract_about_signals_decides_runs_for_incidents_of_these(url: str, dsn: str) -> None:
    rules = {
        signal: {"rules": [{"id": "look-first", "effect": "DENY", "match": {"signals": [signal]}}]}
        for signal in ("Evicted", "oomkilled")
    }
    async with playing.operator(dsn), Database.opened(dsn, role=Role.WRITER, size=1, deadline=10) as database:
        contracts = ContractWriter(database, shared_namespace="formulary")
        await contracts.save(rules["Evicted"], namespace=TARGET, name="signals", uid="1")
        ran = answer_of(await call(url, INVOKE, ASKED, headers=STAGING))
        await contracts.save(rules["oomkilled"], namespace=TARGET, name="signals", uid="1")
        message = refused(await call(url, INVOKE, ASKED, headers=STAGING))

    assert ran["state"] == "completed"
    assert "DENY by rule look-first" in message


async def test_without_an_executor_only_a_dry_run_is_answered(url: str) -> None:
    message = refused(await call(url, INVOKE, ASKED, headers=STAGING))
    dry = answer_of(await call(url, INVOKE, {**ASKED, "dry_run": True}, headers=STAGING))

    assert "no executor" in message
    assert dry["manifest"]["kind"] == "Job"


async def test_status_of_an_unknown_run_is_refused(url: str) -> None:
    assert "not found" in refused(await call(url, STATUS, {"invocation_id": "inv-1"}))
    assert "wait_ms" in refused(await call(url, STATUS, {"invocation_id": "inv-1", "wait_ms": 30_001}))


async def test_an_answer_that_is_too_large_loses_its_manifest_and_says_where_it_is(
    url: str, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.operator(dsn):
        dry = answer_of(await call(url, INVOKE, {**ASKED, "dry_run": True}, headers=STAGING))
    large = json.dumps({"kind": "Job", "spec": ["x" * 1000] * 40})
    await owner.execute("update formulary.invocation set manifest = $2 where id = $1", dry["invocation_id"], large)

    result = await call(url, STATUS, {"invocation_id": dry["invocation_id"]})
    assert len(text_of(result).encode()) <= MAX_ANSWER_BYTES
    assert answer_of(result)["manifest"] == {}
    assert any(f"/api/v1/invocations/{dry['invocation_id']}" in note for note in answer_of(result)["notes"])


async def test_an_output_that_is_too_large_is_cut_and_says_where_the_whole_is(
    url: str, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.operator(dsn):
        run = answer_of(await call(url, INVOKE, ASKED, headers=STAGING))["invocation_id"]
    large = json.dumps({"log": "x" * 40_000})
    await owner.execute("update formulary.invocation set outputs = $2 where id = $1", run, large)

    result = await call(url, STATUS, {"invocation_id": run})
    assert len(text_of(result).encode()) <= MAX_ANSWER_BYTES
    assert answer_of(result)["notes"] == [f"cut to fit: output.log; GET /api/v1/invocations/{run} has the whole"]


async def test_progress_reaches_a_client_over_standard_input_and_output(dsn: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    server = StdioServerParameters(command=sys.executable, args=["-c", SERVER, dsn], env=dict(os.environ))
    async with playing.operator(dsn), Client(server) as client:
        meta: Any = {"kubernaut.ai/remediation-id": "rr-staging"}
        result = await client.call_tool(INVOKE, {**ASKED}, meta=meta, progress_callback=tell)

    assert answer_of(result)["state"] == "completed"
    assert told
    assert told[0][1:] == (30.0, "pending")
