"""The governance tools: what a model is told about them, and what each does."""

from formulary_catalog.governance.answers import EnforceAnswer, GateAnswer, ReplayAnswer, VerdictAnswer
from formulary_catalog.operations.arguments.governance import (
    EnforceArguments,
    GateArguments,
    ReplayArguments,
    VerdictArguments,
)
from formulary_catalog.operations.operation import Call, as_it_is
from formulary_catalog.server.mcp.tools.catalog_tools import catalog_tool


async def _gate(call: Call[GateArguments]) -> GateAnswer:
    return await call.services.governance.gate(reference=call.context, caller=call.caller, **dict(call.arguments))


async def _enforce(call: Call[EnforceArguments]) -> EnforceAnswer:
    return await call.services.governance.enforce(reference=call.context, caller=call.caller, **dict(call.arguments))


async def _verdict(call: Call[VerdictArguments]) -> VerdictAnswer:
    return await call.services.governance.verdict(reference=call.context, caller=call.caller, **dict(call.arguments))


async def _replay(call: Call[ReplayArguments]) -> ReplayAnswer:
    return await call.services.governance.replay(reference=call.context, caller=call.caller, **dict(call.arguments))


GATE_TOOL = catalog_tool(
    name="governance_gate",
    title="Judge proposed actions",
    description=(
        "Rate the risks of actions of any kind before you take them: ALLOW, DEGRADE (dry run first, or ask a person), "
        "UNKNOWN (describe them better) or BLOCK. Judged are the words and commands you give, so name every action. "
        "Runs of workflows are judged again, from facts. Does nothing itself."
    ),
    action="governance.gate",
    arguments=GateArguments,
    answer=GateAnswer,
    run=_gate,
    shrink=as_it_is,
    narrowed_by=("context", "proposed_actions"),
)
ENFORCE_TOOL = catalog_tool(
    name="governance_enforce",
    title="Check actions against a contract",
    description=(
        "Check actions against the rules of a contract. The strongest matching rule decides: DENY, REQUIRE_APPROVAL, "
        "REQUIRE_EVIDENCE block, DEGRADE downgrades, ALLOW or no match allows. Does nothing itself."
    ),
    action="governance.enforce",
    arguments=EnforceArguments,
    answer=EnforceAnswer,
    run=_enforce,
    shrink=as_it_is,
    narrowed_by=("trace_id",),
)
VERDICT_TOOL = catalog_tool(
    name="governance_verdict",
    title="Sum gate and contract up",
    description=(
        "One decision from a gate report and, if there is one, the result of a contract: the stricter one, why, and "
        "what to do next, as a page too. Call it after governance_gate and governance_enforce."
    ),
    action="governance.verdict",
    arguments=VerdictArguments,
    answer=VerdictAnswer,
    run=_verdict,
    shrink=as_it_is,
    narrowed_by=("enforce_result",),
)
REPLAY_TOOL = catalog_tool(
    name="governance_replay",
    title="Verify a trace",
    description=(
        "Verify that everything recorded in a trace is as it was written: schema, hash chain, structure. FAIL means "
        "that somebody changed the records; report it, do not go on."
    ),
    action="governance.replay",
    arguments=ReplayArguments,
    answer=ReplayAnswer,
    run=_replay,
    shrink=as_it_is,
)

GOVERNANCE_TOOLS = (GATE_TOOL, ENFORCE_TOOL, VERDICT_TOOL, REPLAY_TOOL)
