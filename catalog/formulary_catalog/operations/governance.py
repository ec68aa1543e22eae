"""Governance: the judgement of actions, as the toolset `governance`, and the contracts in force, for people."""

from formulary_catalog.domain.reading import ContractList
from formulary_catalog.operations.arguments.governance import (
    EnforceArguments,
    GateArguments,
    ReplayArguments,
    VerdictArguments,
)
from formulary_catalog.operations.arguments.reading import ContractsPageArguments
from formulary_catalog.operations.operation import Operation, Route, Tool, as_it_is
from formulary_catalog.services.governance.answers import EnforceAnswer, GateAnswer, ReplayAnswer, VerdictAnswer
from formulary_catalog.settings import Toolset

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
