"""Governance: the judgement of actions, as the toolset `governance`, and the contracts in force, for people.

Arguments are nested where the seed has them so; `services/governance/reading` checks what is nested.
"""

from typing import Annotated, Any

from pydantic import Field

from formulary_catalog.domain.governance.contract import MAX_RULES, Effect
from formulary_catalog.domain.governance.gate import GateDecision, Severity
from formulary_catalog.domain.reading import ContractList
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Items, Object
from formulary_catalog.operations.arguments.reading import ContractsPageArguments
from formulary_catalog.operations.operation import Operation, Route, Tool, as_it_is
from formulary_catalog.services.governance.answers import EnforceAnswer, GateAnswer, ReplayAnswer, VerdictAnswer
from formulary_catalog.services.governance.reading import MAX_ACTIONS
from formulary_catalog.settings import Toolset

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


GATE = Operation(
    action="governance.gate",
    arguments=GateArguments,
    answer=GateAnswer,
    run=lambda call: call.services.governance.gate(reference=call.context, caller=call.caller, **dict(call.arguments)),
    tool=Tool(
        name="governance_gate",
        toolset=Toolset.GOVERNANCE,
        title="Judge proposed actions",
        description=(
            "Rate the risks of actions of any kind before you take them: ALLOW, DEGRADE (dry run first, or ask a "
            "person), UNKNOWN (describe them better) or BLOCK. Judged are the words and commands you give, so name "
            "every action. Runs of workflows are judged again, from facts. Does nothing itself."
        ),
        narrowed_by=("context", "proposed_actions"),
        shrink=as_it_is,
    ),
    route=Route(
        method="POST",
        path="/governance/gate",
        id="governance_gate",
        tag="governance",
        summary="Judge proposed actions",
        description="The risks of actions of any kind and one decision; nothing is done.",
        errors=(404,),
    ),
)
ENFORCE = Operation(
    action="governance.enforce",
    arguments=EnforceArguments,
    answer=EnforceAnswer,
    run=lambda call: call.services.governance.enforce(
        reference=call.context, caller=call.caller, **dict(call.arguments)
    ),
    tool=Tool(
        name="governance_enforce",
        toolset=Toolset.GOVERNANCE,
        title="Check actions against a contract",
        description=(
            "Check actions against the rules of a contract. The strongest matching rule decides: DENY, "
            "REQUIRE_APPROVAL, REQUIRE_EVIDENCE block, DEGRADE downgrades, ALLOW or no match allows. Does nothing "
            "itself."
        ),
        narrowed_by=("trace_id",),
        shrink=as_it_is,
    ),
    route=Route(
        method="POST",
        path="/governance/enforce",
        id="governance_enforce",
        tag="governance",
        summary="Check actions against a contract",
        description="What the rules of a contract say of actions of any kind; nothing is done.",
        errors=(404,),
    ),
)
VERDICT = Operation(
    action="governance.verdict",
    arguments=VerdictArguments,
    answer=VerdictAnswer,
    run=lambda call: call.services.governance.verdict(
        reference=call.context, caller=call.caller, **dict(call.arguments)
    ),
    tool=Tool(
        name="governance_verdict",
        toolset=Toolset.GOVERNANCE,
        title="Sum gate and contract up",
        description=(
            "One decision from a gate report and, if there is one, the result of a contract: the stricter one, why, "
            "and what to do next, as a page too. Call it after governance_gate and governance_enforce."
        ),
        narrowed_by=("enforce_result",),
        shrink=as_it_is,
    ),
    route=Route(
        method="POST",
        path="/governance/verdict",
        id="governance_verdict",
        tag="governance",
        summary="Sum gate and contract up",
        description="The stricter of a gate report and the result of a contract, why, and what to do next.",
        errors=(404,),
    ),
)
REPLAY = Operation(
    action="governance.replay",
    arguments=ReplayArguments,
    answer=ReplayAnswer,
    run=lambda call: call.services.governance.replay(
        reference=call.context, caller=call.caller, **dict(call.arguments)
    ),
    tool=Tool(
        name="governance_replay",
        toolset=Toolset.GOVERNANCE,
        title="Verify a trace",
        description=(
            "Verify that everything recorded in a trace is as it was written: schema, hash chain, structure. FAIL "
            "means that somebody changed the records; report it, do not go on."
        ),
        shrink=as_it_is,
    ),
    route=Route(
        method="POST",
        path="/governance/replay",
        id="governance_replay",
        tag="governance",
        summary="Verify a trace",
        description="Whether everything recorded in a trace is as it was written.",
        errors=(404,),
    ),
)
CONTRACTS = Operation(
    action="read.contracts",
    arguments=ContractsPageArguments,
    answer=ContractList,
    run=lambda call: call.services.runs.contracts(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/contracts",
        id="list_contracts",
        tag="reading",
        summary="List contracts in force",
        description="Contracts of the namespaces in which the caller may read them, with their rules.",
    ),
    of_incident=False,
)

OPERATIONS = (GATE, ENFORCE, VERDICT, REPLAY, CONTRACTS)
