"""Arguments of the governance tools, nested where the seed has them so; `services/governance/reading` checks what is
nested."""

from typing import Annotated, Any

from pydantic import Field

from formulary_catalog.domain.governance.contract import MAX_RULES, Effect
from formulary_catalog.domain.governance.gate import GateDecision, Severity
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Items, Object
from formulary_catalog.services.governance.reading import MAX_ACTIONS

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer"}


def _object(*required: str, **members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def _report(*required: str, **members: dict[str, Any]) -> dict[str, Any]:
    """The shape of something that another tool answered; what it says besides is not read."""
    return {"properties": members, "required": list(required)}


def _actions(**members: dict[str, Any]) -> dict[str, Any]:
    return {"maxItems": MAX_ACTIONS, "items": _object("action_type", action_type=_TEXT, **members)}


def _enum(values: Any) -> dict[str, Any]:
    return {"type": "string", "enum": [value.value for value in values]}


_CONTRACT = _object(
    "rules",
    version=_TEXT,
    scope=_object(name=_TEXT),
    rules={
        "type": "array",
        "maxItems": MAX_RULES,
        "items": _object(
            "id", "effect", id=_TEXT, effect=_enum(Effect), match=_object(path_prefix=_TEXT), rationale=_TEXT
        ),
    },
)
_RISK = _report("severity", "category", "message", severity=_enum(Severity), category=_TEXT, message=_TEXT)
_GATE_REPORT = _report(
    "decision",
    version=_TEXT,
    decision=_enum(GateDecision),
    risks={"type": "array", "items": _RISK | {"type": "object"}},
)
_ENFORCE_RESULT = _report(
    "contract_id",
    "decision_summary",
    contract_id=_TEXT,
    decision_summary={"type": "string", "enum": ["ALLOW", "BLOCK"]},
    blocked_rule_ids={"type": "array", "items": _TEXT},
    allowed_count=_COUNT,
    blocked_count=_COUNT,
    degraded_count=_COUNT,
)
_TRACE = "tr_5f0c2a9b1d3e4f60718293a4b5c6d7e8"
TraceId = Annotated[
    str,
    Field(
        max_length=MAX_LABEL_LENGTH,
        description="trace_id of an earlier answer, to go on with its trace.",
        examples=[_TRACE],
    ),
]


class GateArguments(Arguments):
    """The actions whose risks are to be judged."""

    task: str = Field(
        max_length=4000,
        description="What is to be achieved, in a sentence.",
        examples=["Free the disk of node worker-3 in production"],
    )
    context: Object | None = Field(
        None,
        description="What is known of the surroundings; the environment matters most.",
        examples=[{"environment": "staging", "namespace": "shop"}],
        json_schema_extra={"additionalProperties": True},
    )
    proposed_actions: Items = Field(
        default_factory=list,
        description="Every action: action_type is a verb, resource what it acts on or the command itself.",
        examples=[[{"action_type": "delete_pod", "tool": "kubectl", "resource": "pod/web-1"}]],
        json_schema_extra=_actions(tool=_TEXT, resource=_TEXT),
    )
    trace_id: TraceId = ""


class EnforceArguments(Arguments):
    """A contract, and the actions to be checked against it."""

    trace_id: TraceId = ""
    contract: Object = Field(
        description="The rules; an empty match matches every action.",
        examples=[{"rules": [{"id": "no-deletes", "effect": "DENY", "match": {"path_prefix": "/prod"}}]}],
        json_schema_extra=_CONTRACT,
    )
    actions: Items = Field(
        description="The actions to check; path_prefix is the path that an action touches.",
        examples=[[{"action_type": "delete", "path_prefix": "/prod/orders"}]],
        json_schema_extra=_actions(path_prefix=_TEXT),
    )


class VerdictArguments(Arguments):
    """What gate and contract said."""

    trace_id: TraceId = ""
    gate_report: Object = Field(
        description="gate_report as governance_gate answered it.",
        examples=[{"version": "1.0.0", "decision": "ALLOW", "risks": []}],
        json_schema_extra=_GATE_REPORT,
    )
    enforce_result: Object | None = Field(
        None,
        description="enforce_result as governance_enforce answered it, if a contract was checked.",
        examples=[{"contract_id": "shop@1.0.0", "decision_summary": "ALLOW", "allowed_count": 1}],
        json_schema_extra=_ENFORCE_RESULT,
    )


class ReplayArguments(Arguments):
    """The trace to be verified."""

    trace_id: str = Field(
        max_length=MAX_LABEL_LENGTH,
        description="trace_id of an earlier answer, or the remediation id of the incident of this call.",
        examples=[_TRACE],
    )
