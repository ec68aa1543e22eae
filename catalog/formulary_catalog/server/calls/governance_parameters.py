"""The parameters of the governance tools, nested where the seed has them so."""

from typing import Any

from formulary_catalog.domain.governance.contract import MAX_RULES, Effect
from formulary_catalog.domain.governance.gate import GateDecision, Severity
from formulary_catalog.governance.reading import MAX_ACTIONS
from formulary_catalog.server.calls.parameters import CallParameter, ParameterKind

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def _object(*required: str, **members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def _report(*required: str, **members: dict[str, Any]) -> dict[str, Any]:
    """The shape of something that another tool answered; what it says besides is not read."""
    return {"properties": members, "required": list(required)}


TASK = CallParameter(
    name="task",
    description="What is to be achieved, in a sentence.",
    examples=("Free the disk of node worker-3 in production",),
    required=True,
    max_length=4000,
)
CONTEXT = CallParameter(
    name="context",
    description="What is known about the surroundings, in any shape; the environment matters most.",
    examples=({"environment": "staging", "namespace": "shop"},),
    kind=ParameterKind.OBJECT,
    shape={"additionalProperties": True},
)
PROPOSED_ACTIONS = CallParameter(
    name="proposed_actions",
    description="Every action of the task: action_type is a verb, resource what it acts on or the command itself.",
    examples=([{"action_type": "delete_pod", "tool": "kubectl", "resource": "pod/web-1"}],),
    kind=ParameterKind.LIST,
    shape={
        "maxItems": MAX_ACTIONS,
        "items": _object("action_type", action_type=_TEXT, tool=_TEXT, resource=_TEXT),
    },
)
CONTRACT = CallParameter(
    name="contract",
    description="The rules: effect and path_prefix of each; an empty match matches every action.",
    examples=(
        {
            "version": "1.0.0",
            "scope": {"name": "shop"},
            "rules": [
                {
                    "id": "no-deletes",
                    "effect": "DENY",
                    "match": {"path_prefix": "/prod"},
                    "rationale": "Production is changed by releases.",
                }
            ],
        },
    ),
    kind=ParameterKind.OBJECT,
    required=True,
    shape=_object(
        "rules",
        version=_TEXT,
        scope=_object(name=_TEXT),
        rules={
            "type": "array",
            "maxItems": MAX_RULES,
            "items": _object(
                "id",
                "effect",
                id=_TEXT,
                effect={"type": "string", "enum": [effect.value for effect in Effect]},
                match=_object(path_prefix=_TEXT),
                rationale=_TEXT,
            ),
        },
    ),
)
ACTIONS = CallParameter(
    name="actions",
    description="The actions to check; path_prefix is the path that an action touches.",
    examples=([{"action_type": "delete", "path_prefix": "/prod/orders"}],),
    kind=ParameterKind.LIST,
    required=True,
    shape={"maxItems": MAX_ACTIONS, "items": _object("action_type", action_type=_TEXT, path_prefix=_TEXT)},
)
GATE_REPORT = CallParameter(
    name="gate_report",
    description="gate_report as governance_gate answered it.",
    examples=({"version": "1.0.0", "decision": "ALLOW", "risks": []},),
    kind=ParameterKind.OBJECT,
    required=True,
    shape=_report(
        "decision",
        version=_TEXT,
        decision={"type": "string", "enum": [decision.value for decision in GateDecision]},
        risks={
            "type": "array",
            "items": _report(
                "severity",
                "category",
                "message",
                severity={"type": "string", "enum": [severity.value for severity in Severity]},
                category=_TEXT,
                message=_TEXT,
            )
            | {"type": "object"},
        },
    ),
)
ENFORCE_RESULT = CallParameter(
    name="enforce_result",
    description="enforce_result as governance_enforce answered it; leave out if no contract was checked.",
    examples=(
        {
            "contract_id": "shop@1.0.0",
            "decision_summary": "ALLOW",
            "blocked_rule_ids": [],
            "allowed_count": 1,
            "blocked_count": 0,
            "degraded_count": 0,
        },
    ),
    kind=ParameterKind.OBJECT,
    shape=_report(
        "contract_id",
        "decision_summary",
        contract_id=_TEXT,
        decision_summary={"type": "string", "enum": ["ALLOW", "BLOCK"]},
        blocked_rule_ids={"type": "array", "items": _TEXT},
        allowed_count=_COUNT,
        blocked_count=_COUNT,
        degraded_count=_COUNT,
    ),
)
TRACE_ID = CallParameter(
    name="trace_id",
    description="trace_id of an earlier answer, to go on with its trace; a new one, or that of the incident, without "
    "it.",
    examples=("tr_5f0c2a9b1d3e4f60718293a4b5c6d7e8",),
)
REPLAYED_TRACE = CallParameter(
    name="trace_id",
    description="trace_id of an earlier answer, or the remediation id of the incident of this call.",
    examples=TRACE_ID.examples,
    required=True,
)

GATE = (TASK, CONTEXT, PROPOSED_ACTIONS, TRACE_ID)
ENFORCE = (TRACE_ID, CONTRACT, ACTIONS)
VERDICT = (TRACE_ID, GATE_REPORT, ENFORCE_RESULT)
REPLAY = (REPLAYED_TRACE,)
