"""The governance tools through a real MCP client: judgements, their traces, and the proof that a trace is whole."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import asyncpg
import jsonschema
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import EVERYWHERE, KnownCallers, Rights
from support.agent import ERAS, agent, answer_of, call, refused
from support.services import open_parts
from support.serving import catalog, serving
from support.tenants import BANK, BANK_INCIDENT, COPIED_INCIDENT, SECRET, SHARED, SHOP, SHOP_INCIDENT, write_manifests
from support.trail import recorded

GATE, ENFORCE, VERDICT, REPLAY = (f"governance_{name}" for name in ("gate", "enforce", "verdict", "replay"))
CALLERS = KnownCallers(
    responder=Rights(see={SHARED, SHOP}, use={SHOP}),
    colleague=Rights(see={SHARED, SHOP}, use={SHOP}),
    auditor=Rights(see={EVERYWHERE}, use={EVERYWHERE}),
)
READING = {"task": "look around", "proposed_actions": [{"action_type": "get_pods", "tool": "kubectl"}]}
DELETING = {"task": "free memory", "proposed_actions": [{"action_type": "delete_pod", "resource": "web-1"}]}
NO_PRODUCTION = {
    "version": "1.2.0",
    "scope": {"name": "shop"},
    "rules": [
        {"id": "no-prod", "effect": "DENY", "match": {"path_prefix": "/prod"}, "rationale": "Releases do that."},
        {"id": "dry", "effect": "DEGRADE", "match": {"path_prefix": "/staging"}, "rationale": ""},
    ],
}
ACTIONS = [
    {"action_type": "write", "path_prefix": "/prod/orders"},
    {"action_type": "write", "path_prefix": "/staging/orders"},
    {"action_type": "write", "path_prefix": "/production"},
]


def by(name: str, incident: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of a caller."""
    return {"Authorization": f"Bearer {name}", **(incident or {})}


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A server that asks for an incident with every search."""
    manifests = write_manifests(tmp_path_factory.mktemp("tenants"))
    strict = catalog(
        [manifests], postgres=postgres, embedder=None, policy=ContextPolicy.REQUIRED, context_wait_seconds=0
    )
    async with strict as parts, serving(parts, authenticator=CALLERS) as at:
        yield at


async def asked(
    url: str, tool: str, arguments: Mapping[str, Any], *, caller: str = "responder", mode: str = "auto", **incident: Any
) -> dict[str, Any]:
    """The answer of a call."""
    return answer_of(await call(url, tool, arguments, mode=mode, headers=by(caller, incident)))


async def denied(
    url: str, tool: str, arguments: Mapping[str, Any], *, caller: str = "responder", **incident: Any
) -> str:
    """The refusal of a call."""
    return refused(await call(url, tool, arguments, headers=by(caller, incident)))


@pytest.mark.parametrize("mode", ERAS)
async def test_gate_contract_verdict_and_replay_go_on_with_one_trace(url: str, mode: str) -> None:
    gated = await asked(url, GATE, DELETING, mode=mode)
    trace = {"trace_id": gated["trace_id"]}
    enforced = await asked(url, ENFORCE, {"contract": NO_PRODUCTION, "actions": ACTIONS, **trace}, mode=mode)
    judged = await asked(
        url,
        VERDICT,
        {"gate_report": gated["gate_report"], "enforce_result": enforced["enforce_result"], **trace},
        mode=mode,
    )
    replayed = await asked(url, REPLAY, trace, mode=mode)

    assert gated["gate_report"]["version"] == "1.0.0"
    assert gated["gate_report"]["decision"] == "DEGRADE"
    assert [risk["severity"] for risk in gated["gate_report"]["risks"]] == ["high"]
    assert enforced["enforce_result"] == {
        "contract_id": "shop@1.2.0",
        "decision_summary": "BLOCK",
        "blocked_rule_ids": ["no-prod"],
        "allowed_count": 1,
        "blocked_count": 1,
        "degraded_count": 1,
    }
    assert judged["verdict"]["final_decision"] == "BLOCK"
    assert judged["verdict_md"].startswith("# Verdict: BLOCK")
    assert replayed["replay"] == {
        "status": "PASS",
        "pass": True,
        "event_count": 3,
        "error_count": 0,
        "checks": {"schema_valid": True, "hash_chain_valid": True, "structure_valid": True},
    }
    assert {answer["trace_id"] for answer in (enforced, judged, replayed)} == {gated["trace_id"]}
    assert gated["trace_id"].startswith("tr_")


async def test_every_answer_is_valid_against_the_listed_schema(url: str) -> None:
    gated = await asked(url, GATE, READING)
    answers = {
        GATE: gated,
        ENFORCE: await asked(url, ENFORCE, {"contract": NO_PRODUCTION, "actions": []}),
        VERDICT: await asked(url, VERDICT, {"gate_report": gated["gate_report"]}),
        REPLAY: await asked(url, REPLAY, {"trace_id": gated["trace_id"]}),
    }
    async with agent(url, headers=by("responder"), path="/mcp?toolsets=governance") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    for name, answer in answers.items():
        jsonschema.validate(answer, tools[name].output_schema or {})


async def test_the_example_of_each_parameter_is_valid_and_taken(url: str) -> None:
    async with agent(url, headers=by("responder"), path="/mcp?toolsets=governance") as client:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}

    for name in (GATE, ENFORCE, VERDICT):
        given = {
            parameter: schema["examples"][0]
            for parameter, schema in tools[name]["properties"].items()
            if parameter != "trace_id"
        }
        jsonschema.validate(given, tools[name])
        assert (await asked(url, name, given))["trace_id"]


async def test_the_gate_answers_allow_for_reading_and_unknown_without_actions(url: str) -> None:
    assert (await asked(url, GATE, READING))["gate_report"] == {"version": "1.0.0", "decision": "ALLOW", "risks": []}
    assert (await asked(url, GATE, {"task": "think"}))["gate_report"]["decision"] == "UNKNOWN"


async def test_a_trace_of_another_caller_is_not_found_and_nobody_learns_that_it_exists(url: str) -> None:
    trace = (await asked(url, GATE, READING))["trace_id"]
    made_up = "tr_0123456789abcdef0123456789abcdef"

    for tool, arguments in (
        (GATE, READING),
        (ENFORCE, {"contract": NO_PRODUCTION, "actions": ACTIONS}),
        (VERDICT, {"gate_report": {"decision": "ALLOW"}}),
        (REPLAY, {}),
    ):
        theirs = await denied(url, tool, {**arguments, "trace_id": trace}, caller="auditor")
        nobodys = await denied(url, tool, {**arguments, "trace_id": made_up}, caller="auditor")
        assert "not found among yours" in theirs
        assert ("leave it out" in theirs) is (tool != REPLAY)
        assert theirs.replace(trace, made_up) == nobodys
    assert (await asked(url, REPLAY, {"trace_id": trace}))["replay"]["event_count"] == 1


async def test_the_trace_of_an_incident_is_shared_by_its_calls_alone(url: str) -> None:
    begun = await asked(url, GATE, READING, **SHOP_INCIDENT)
    joined = await asked(url, GATE, READING | {"trace_id": "rr-shop"}, caller="colleague", **SHOP_INCIDENT)
    replayed = await asked(url, REPLAY, {"trace_id": "rr-shop"}, caller="colleague", **SHOP_INCIDENT)

    assert begun["trace_id"] == joined["trace_id"] == replayed["trace_id"] == "rr-shop"
    assert replayed["replay"]["status"] == "PASS"
    assert "not found" in await denied(url, REPLAY, {"trace_id": "rr-shop"})
    assert "not found" in await denied(url, REPLAY, {"trace_id": "rr-shop"}, caller="auditor", **BANK_INCIDENT)


async def test_a_caller_goes_on_with_its_own_trace_within_an_incident(url: str) -> None:
    trace = (await asked(url, GATE, READING))["trace_id"]

    assert (await asked(url, GATE, READING | {"trace_id": trace}, **SHOP_INCIDENT))["trace_id"] == trace


async def test_an_incident_without_events_has_nothing_to_replay(url: str) -> None:
    copied = COPIED_INCIDENT | {"X-AIAnalysis": f"{BANK}/copied"}

    assert "not found" in await denied(url, REPLAY, {"trace_id": "rr-copied"}, caller="auditor", **copied)


async def test_an_incident_that_may_not_be_used_fails_closed(url: str) -> None:
    assert "is not known here" in await denied(url, GATE, READING, **BANK_INCIDENT)
    assert "not known here" in await denied(url, GATE, READING, **{"X-Remediation-Id": "rr-nobody"})


async def test_the_environment_of_the_incident_counts_whatever_the_caller_says(url: str) -> None:
    claimed = DELETING | {"context": {"environment": "staging"}}

    assert (await asked(url, GATE, claimed))["gate_report"]["decision"] == "DEGRADE"
    inside = await call(url, GATE, claimed, headers=by("responder", SHOP_INCIDENT))
    assert answer_of(inside)["gate_report"]["decision"] == "BLOCK"
    assert SECRET not in str(inside)


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        (GATE, {}, "task is missing"),
        (GATE, READING | {"proposed_action": []}, "did you mean 'proposed_actions'?"),
        (GATE, READING | {"proposed_actions": {"action_type": "get"}}, "is not a list"),
        (GATE, READING | {"proposed_actions": [{"tool": "x"}]}, "0.action_type: is required"),
        (GATE, READING | {"proposed_actions": [{"action_type": "get", "why": "x"}]}, "0.why: is unknown"),
        (GATE, READING | {"proposed_actions": ["get"]}, "proposed_actions is invalid"),
        (GATE, READING | {"proposed_actions": [{"action_type": "get"}] * 101}, "at most 100"),
        (GATE, READING | {"context": "none of your business"}, "is not an object"),
        (GATE, READING | {"task": "x" * 4001}, "at most 4000"),
        (ENFORCE, {"actions": ACTIONS}, "contract is missing"),
        (ENFORCE, {"contract": NO_PRODUCTION}, "actions is missing"),
        (ENFORCE, {"contract": {}, "actions": ACTIONS}, "rules: is required"),
        (ENFORCE, {"contract": {"rules": [{"id": "a", "effect": "FORBID"}]}, "actions": ACTIONS}, "'FORBID'"),
        (VERDICT, {}, "gate_report is missing"),
        (VERDICT, {"gate_report": {}}, "decision: is required"),
        (VERDICT, {"gate_report": {"decision": "MAYBE"}}, "'MAYBE'"),
        (VERDICT, {"gate_report": {"decision": "ALLOW"}, "enforce_result": {"contract_id": "x"}}, "decision_summary"),
        (REPLAY, {}, "trace_id is missing"),
        (REPLAY, {"trace_id": "tr_" + "x" * 300}, "at most 253"),
    ],
)
async def test_what_cannot_be_read_is_refused_in_one_line(
    url: str, tool: str, arguments: dict[str, Any], told: str
) -> None:
    assert told in await denied(url, tool, arguments)


async def test_a_nul_or_half_a_character_inside_an_argument_is_refused(url: str) -> None:
    for text in ('"a\\u0000b"', '"a\\ud800b"'):
        quoted = f'[{{"action_type": {text}}}]'
        assert "NUL or an unpaired surrogate" in await denied(url, GATE, READING | {"proposed_actions": quoted})


async def test_nulls_and_quoted_json_are_read_as_they_are_meant(url: str) -> None:
    nulls = {"context": None, "trace_id": None, "proposed_actions": [{"action_type": "get_pods", "tool": None}, None]}
    quoted = {"proposed_actions": json.dumps(DELETING["proposed_actions"])}

    assert (await asked(url, GATE, READING | nulls))["gate_report"]["decision"] == "ALLOW"
    assert (await asked(url, GATE, READING | quoted))["gate_report"]["decision"] == "DEGRADE"


async def test_the_whole_answer_of_another_tool_is_taken_for_its_report(url: str) -> None:
    gated = await asked(url, GATE, DELETING)
    enforced = await asked(url, ENFORCE, {"contract": NO_PRODUCTION, "actions": ACTIONS[2:]})

    judged = await asked(url, VERDICT, {"gate_report": gated, "enforce_result": enforced})

    assert judged["verdict"]["final_decision"] == "DEGRADE"


@pytest.fixture
async def parts(database: str) -> AsyncIterator[CatalogParts]:
    async with open_parts(database) as opened:
        yield opened


@pytest.fixture
async def owner(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def test_every_call_leaves_an_event_with_what_was_asked_and_answered(
    parts: CatalogParts, owner: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with serving(parts, authenticator=CALLERS) as at:
        gated = await asked(at, GATE, DELETING)
        await denied(at, ENFORCE, {"contract": {}, "actions": ACTIONS, "trace_id": gated["trace_id"]})
        await denied(at, REPLAY, {"trace_id": "rr-other"})
        await denied(at, GATE, DELETING | {"team": SECRET})

    first, second, third, fourth = await recorded(owner)
    assert (first["kind"], first["caller"], first["outcome"]) == ("governance.gate", "responder", "ok")
    assert first["arguments"] == DELETING
    assert first["result"] == {"gate_report": gated["gate_report"]}
    assert first["gate"] == {"decision": "ALLOW", "class": "read-only"}
    assert (second["kind"], second["outcome"]) == ("governance.enforce", "InvalidInput")
    assert second["trace_id"] == first["trace_id"]
    assert (third["kind"], third["outcome"]) == ("governance.replay", "NotFound")
    assert third["trace_id"] not in ("rr-other", first["trace_id"])
    assert (fourth["outcome"], fourth["arguments"]["unknown_arguments"]) == ("InvalidInput", ["team"])
    assert SECRET not in str(fourth)


async def test_the_trace_of_a_search_can_be_gone_on_with(parts: CatalogParts) -> None:
    async with serving(parts, authenticator=CALLERS) as at:
        search_id = (await asked(at, "search_workflow_catalog", {"query": "OOMKilled"}))["search_id"]
        trace = f"tr_{search_id.replace('-', '')}"

        assert (await asked(at, GATE, READING | {"trace_id": trace}))["trace_id"] == trace
        assert "not found" in await denied(at, GATE, READING | {"trace_id": trace}, caller="auditor")


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        ("update formulary.trace_event set body = replace(body, 'DEGRADE', 'ALLOW') where seq = 1", "hash_chain_valid"),
        ("delete from formulary.trace_event where seq = 2", "structure_valid"),
        ("delete from formulary.trace_event where seq = 3", "structure_valid"),
        ("update formulary.trace_event set caller = 'nobody' where seq = 2", "schema_valid"),
    ],
)
async def test_a_trace_that_somebody_changed_fails_its_replay(
    parts: CatalogParts, owner: "asyncpg.Connection[asyncpg.Record]", tampering: str, broken: str
) -> None:
    async with serving(parts, authenticator=CALLERS) as at:
        trace = (await asked(at, GATE, DELETING))["trace_id"]
        for _ in range(2):
            await asked(at, GATE, DELETING | {"trace_id": trace})
        await owner.execute("set session_replication_role = replica")
        await owner.execute(tampering)

        replay = (await asked(at, REPLAY, {"trace_id": trace}))["replay"]

    assert (replay["status"], replay["pass"]) == ("FAIL", False)
    assert replay["error_count"] >= 1
    assert replay["checks"][broken] is False
