"""The verdict: gate and contract in one answer that a person can read.

`services.governance.service` calls it for the tools, after gate and contract have been evaluated. Pure.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.governance.actions import EnforceResult
from formulary_catalog.domain.governance.gate import VERSION, GateDecision, GateReport
from formulary_catalog.domain.text import one_line

_ID_LENGTH = 20
_SUMMARIES = {
    GateDecision.ALLOW: "Allowed: no risk and no rule is against it.",
    GateDecision.DEGRADE: "Allowed only as a dry run or with a person's approval.",
    GateDecision.UNKNOWN: "Undecided: too little is known.",
    GateDecision.BLOCK: "Blocked: do not do it.",
}
_NEXT_STEPS = {
    GateDecision.ALLOW: ["Go ahead, and record the result."],
    GateDecision.DEGRADE: ["Make a dry run first.", "Ask a person to approve the real action."],
    GateDecision.UNKNOWN: ["Describe each action by a verb, a tool and a resource, then ask the gate again."],
    GateDecision.BLOCK: ["Do not do it.", "Choose another action, or ask the owner of the rules."],
}
_CONFIDENCE = {
    GateDecision.BLOCK: 0.95,
    GateDecision.ALLOW: 0.9,
    GateDecision.DEGRADE: 0.8,
    GateDecision.UNKNOWN: 0.3,
}
_WITHOUT_CONTRACT = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The final decision and why. `confidence` is in 0..1, from a table in docs/governance.md; no probability."""

    version: str = VERSION
    decision_id: str
    final_decision: GateDecision
    summary: str
    why: tuple[str, ...]
    next_steps: tuple[str, ...]
    confidence: float

    def as_json(self) -> dict[str, Any]:
        """The verdict as the wire has it."""
        return {
            "version": self.version,
            "decision_id": self.decision_id,
            "final_decision": self.final_decision.value,
            "summary": self.summary,
            "why": list(self.why),
            "next_steps": list(self.next_steps),
            "confidence": self.confidence,
        }


def verdict(gate: GateReport, enforced: EnforceResult | None = None) -> Verdict:
    """The strictest of what gate and contract say. The same input has the same verdict, with the same id."""
    final = max(_said(gate, enforced), key=lambda decision: decision.strength)
    factor = 1.0 if enforced is not None else _WITHOUT_CONTRACT
    return Verdict(
        decision_id=_decision_id(gate, enforced),
        final_decision=final,
        summary=_SUMMARIES[final],
        why=tuple(_why(gate, enforced)),
        next_steps=tuple(_NEXT_STEPS[final]),
        confidence=round(_CONFIDENCE[final] * factor, 2),
    )


def verdict_markdown(verdict: Verdict) -> str:
    """The verdict as a page."""
    why = "\n".join(f"- {one_line(reason)}" for reason in verdict.why)
    steps = "\n".join(f"{number}. {one_line(step)}" for number, step in enumerate(verdict.next_steps, start=1))
    return (
        f"# Verdict: {verdict.final_decision}\n\n{one_line(verdict.summary)}\n\n## Why\n\n{why}\n\n"
        f"## Next steps\n\n{steps}\n\nDecision `{verdict.decision_id}`, confidence {verdict.confidence:g}\n"
    )


def _said(gate: GateReport, enforced: EnforceResult | None) -> Iterable[GateDecision]:
    yield gate.decision
    if gate.has_critical:
        yield GateDecision.BLOCK  # whatever the report, which has been in the hands of the caller, makes of it
    if enforced is None:
        return
    if enforced.decision_summary == "BLOCK" or enforced.blocked_count or enforced.blocked_rule_ids:
        yield GateDecision.BLOCK
    if enforced.degraded_count:
        yield GateDecision.DEGRADE


def _why(gate: GateReport, enforced: EnforceResult | None) -> Iterable[str]:
    yield f"the gate says {gate.decision}" + ("" if gate.risks else ": no risks found")
    yield from (f"{risk.severity} risk, {risk.category}: {risk.message}" for risk in gate.risks)
    if enforced is None:
        yield "no contract was consulted"
        return
    yield f"contract {enforced.contract_id} says {enforced.decision_summary}: " + ", ".join(
        f"{count} {what}"
        for count, what in (
            (enforced.allowed_count, "allowed"),
            (enforced.degraded_count, "degraded"),
            (enforced.blocked_count, "blocked"),
        )
    )
    if enforced.blocked_rule_ids:
        yield f"blocking rules: {', '.join(enforced.blocked_rule_ids)}"


def _decision_id(gate: GateReport, enforced: EnforceResult | None) -> str:
    content = [gate.as_json(), enforced.as_json() if enforced is not None else None]
    return f"dec_{hashlib.sha256(canonical_json(content).encode('utf-8', 'replace')).hexdigest()[:_ID_LENGTH]}"
