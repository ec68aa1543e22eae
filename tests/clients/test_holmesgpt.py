"""HolmesGPT finds the workflows of the incident it was asked about, and no others (DESIGN sections 6 and 7).

All chats are held at once in one HolmesGPT process, through its real library; only the model is scripted.
"""

import json
from typing import Protocol

import pytest

from support.holmes import CallReport, Chat, Report, ToolCall, converse

# The first run on a machine also installs HolmesGPT.
pytestmark = pytest.mark.timeout(900)

SEARCH = "search_workflow_catalog"
DETAILS = "get_workflow_details"
RECORD = "record_workflow_selection"
LIST, RELATED = "list_workflows", "related_workflows"
GATE, ENFORCE, VERDICT, REPLAY = (f"governance_{name}" for name in ("gate", "enforce", "verdict", "replay"))
INVOKE, STATUS = "invoke_workflow", "get_invocation_status"

RESTART = "oom-raise-memory-limit"

UNKNOWN_ID = "rr-of-no-incident"

# In strict mode a model has to send every parameter; null is how it leaves one out.
OPTIONAL = (
    "label.signal-type",
    "label.severity",
    "label.environment",
    "label.priority",
    "label.risk-tolerance",
    "label.business-category",
    "label.component",
    "action_type",
    "namespace",
    "keywords",
    "exclude_keywords",
    "min_confidence",
    "target_kind",
    "target_name",
    "target_namespace",
    "top_k",
)

DELETION = {
    "task": "Free memory",
    "proposed_actions": [{"action_type": "delete_pod", "tool": None, "resource": "web-1"}, None],
}
WRITING = {"action_type": "write", "path_prefix": "/prod/orders"}
FREEZE = {
    "version": None,
    "scope": None,
    "rules": [{"id": "freeze", "effect": "DENY", "match": {"path_prefix": "/prod"}, "rationale": None}],
}


class Incidents(Protocol):
    """Ids of two incidents whose custom labels name one team each and of an alert, and two labelled namespaces."""

    payments: str
    search: str
    calm: str
    strict: str
    alert: str


def chat(remediation_id: str, *calls: ToolCall) -> Chat:
    # In lower case, as an HTTP server hands header names to HolmesGPT.
    return Chat(headers={"x-remediation-id": remediation_id}, calls=calls)


def without_header(*calls: ToolCall) -> Chat:
    return Chat(headers={}, calls=calls)


def target(namespace: str) -> dict[str, object]:
    return {"target_namespace": namespace, "target_kind": "Deployment", "target_name": "carts"}


def search(**arguments: object) -> ToolCall:
    return ToolCall(tool=SEARCH, arguments={"query": "OOMKilled critical", **arguments})


@pytest.fixture(scope="module")
def report(formulary_url: str, incidents: Incidents) -> Report:
    nulls = dict.fromkeys(OPTIONAL)
    chosen = {"workflow_id": "oom-payments-only"}
    return converse(
        url=f"{formulary_url}/mcp?toolsets=search,runs,governance",
        chats={
            "payments": chat(incidents.payments, search()),
            "search": chat(incidents.search, search()),
            "nulls": chat(incidents.payments, search(**nulls)),
            "null in a list": chat(incidents.payments, search(**{**nulls, "exclude_keywords": [None]})),
            "unknown": chat(UNKNOWN_ID, search()),
            "whole": chat(
                incidents.payments,
                search(),
                ToolCall(tool=DETAILS, arguments={**chosen, "version": None}),
                ToolCall(tool=RECORD, arguments={**chosen, "reasoning": "The heap outgrew its limit."}),
            ),
            "other team": chat(incidents.search, ToolCall(tool=DETAILS, arguments=chosen)),
            "calm": without_header(search(**target(incidents.calm))),
            "strict": without_header(
                search(**target(incidents.strict)),
                ToolCall(tool=DETAILS, arguments={"workflow_id": RESTART, **target(incidents.strict)}),
            ),
            "alert": chat(incidents.alert, search()),
            "missing": without_header(search(**target(incidents.strict) | {"target_name": "cart"})),
            "governed": chat(
                incidents.payments,
                ToolCall(tool=GATE, arguments={**DELETION, "context": None, "trace_id": None}),
                ToolCall(tool=ENFORCE, arguments={"contract": FREEZE, "actions": [WRITING], "trace_id": None}),
                ToolCall(
                    tool=VERDICT,
                    arguments={"gate_report": {"decision": "ALLOW"}, "enforce_result": None, "trace_id": None},
                ),
                ToolCall(tool=REPLAY, arguments={"trace_id": incidents.payments}),
            ),
        },
    )


def only_call(report: Report, chat: str) -> CallReport:
    (call,) = report.chats[chat].calls
    return call


def found(report: Report, chat: str) -> list[str]:
    """Names of the workflows that the search of `chat` gave."""
    call = report.chats[chat].calls[0]
    assert call.status == "success", call.read_by_model
    assert call.data is not None
    return [workflow["workflow_id"] for workflow in json.loads(call.data)["workflows"]]


def test_the_toolset_loads_although_its_header_is_empty_at_startup(report: Report) -> None:
    assert (report.toolset.status, report.toolset.error) == ("enabled", None)


def test_the_model_is_offered_every_tool_under_its_own_name(report: Report) -> None:
    tools = [SEARCH, DETAILS, RECORD, LIST, RELATED, INVOKE, STATUS, GATE, ENFORCE, VERDICT, REPLAY]

    assert sorted(report.toolset.tools) == sorted(report.offered) == sorted(tools)


def test_strict_mode_makes_the_model_send_every_parameter(report: Report) -> None:
    offered = report.offered[SEARCH]

    assert offered["strict"] is True
    assert sorted(offered["parameters"]["required"]) == sorted(["query", *OPTIONAL])


@pytest.mark.parametrize("chat", ["payments", "nulls", "null in a list"])
def test_a_search_sees_the_workflows_of_its_own_team_only(chat: str, report: Report) -> None:
    names = found(report, chat)

    assert "oom-payments-only" in names
    assert "oom-search-only" not in names


def test_parameters_left_out_by_null_change_nothing(report: Report) -> None:
    assert found(report, "nulls") == found(report, "null in a list") == found(report, "payments")


def test_two_incidents_in_one_process_keep_their_own_constraints(report: Report) -> None:
    names = found(report, "search")

    assert "oom-search-only" in names
    assert "oom-payments-only" not in names


def test_an_unknown_remediation_id_is_an_error_that_the_model_can_read(report: Report) -> None:
    call = only_call(report, "unknown")

    assert call.status == "error"
    assert UNKNOWN_ID in call.read_by_model
    assert "workflows" not in (call.data or "")


def test_the_workflow_of_another_team_is_not_found_by_its_name_either(report: Report) -> None:
    assert only_call(report, "other team").status == "error"


def test_one_question_has_two_answers_under_two_labelled_namespaces_and_no_header(report: Report) -> None:
    assert RESTART in found(report, "calm")
    strict = found(report, "strict")
    assert strict
    assert RESTART not in strict
    asked_by_name = report.chats["strict"].calls[1]
    assert asked_by_name.status == "error"
    assert f"'{RESTART}' is not found among the workflows allowed here" in asked_by_name.read_by_model


def test_an_alert_gets_what_its_target_gets(report: Report) -> None:
    assert found(report, "alert") == found(report, "strict")


def test_a_target_that_is_not_there_gets_nothing_and_says_so(report: Report) -> None:
    call = only_call(report, "missing")
    assert call.status == "error"
    assert "cart" in call.read_by_model


def test_a_conversation_finds_reads_and_records_a_workflow(report: Report) -> None:
    whole = report.chats["whole"]

    assert [(call.tool, call.status) for call in whole.calls] == [
        (SEARCH, "success"),
        (DETAILS, "success"),
        (RECORD, "success"),
    ]
    assert whole.answer == "That is all."


def test_nested_arguments_arrive_with_and_without_nulls(report: Report) -> None:
    calls = report.chats["governed"].calls

    assert [call.status for call in calls] == ["success"] * 4
    gated, enforced, judged, replayed = (json.loads(call.data or "") for call in calls)
    assert gated["gate_report"]["decision"] == "BLOCK"  # the incident happened in production
    assert enforced["enforce_result"]["blocked_rule_ids"] == ["freeze"]
    assert judged["verdict"]["final_decision"] == "ALLOW"
    assert replayed["replay"]["pass"] is True


def test_nothing_is_asked_of_the_outside_world(report: Report) -> None:
    assert report.dialled == []
