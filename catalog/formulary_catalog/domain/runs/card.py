"""What a person decides on, on one card (DESIGN section 14): a run that waits, from the alert to its commands.

`services.runs.approvals` reads what it needs of the trace, and whether the caller may know that. The words are those
that were recorded when the run was asked for: the card shows the risk that was decided, not the one that the author
declares.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from formulary_catalog.domain.answers.browsing import PendingApproval
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.governance.gate import Severity
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.reading import AgentChoice, StepText, WaitingRun
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import DATA_LOSS, RESTARTS
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, title_of

_INPUT = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MOST_OFFERED = 5


def waiting_run(
    run: Invocation,
    *,
    pending: PendingApproval,
    workflow: RemediationWorkflow | None,
    choice: AgentChoice | None,
    may_approve: bool,
) -> WaitingRun:
    """The card of a run. `workflow`: None if this release cannot read it. `choice`: None if the caller may not know."""
    decision = Recorded(run.decision)
    risks = decision.inner("gate").each("risks")
    spec = workflow.spec if workflow is not None else None
    return WaitingRun(
        **pending.model_dump(),
        version_id=run.version_id,
        title=title_of(workflow) if workflow is not None else "",
        purpose=spec.description.what if spec else "",
        environment=visible(Recorded(run.facts).text("environment")),
        restarts=_declared(spec.custom_labels, RESTARTS) if spec else "",
        data_loss=_declared(spec.custom_labels, DATA_LOSS) if spec else "",
        undo=[step.name for step in spec.rollback_steps] if spec else [],
        choice=choice,
        risk=decided_risk(run),
        risks=[visible(risk.text("message")) for risk in risks],
        rules=[visible(rule) for rule in _rules(decision)],
        steps=filled_steps(run.content),
        risk_level=(spec.risk_level if spec else "") or "unknown",
        why=[visible(each) for each in decision.texts("why")],
        content=dict(run.content),
        digest=run.content_digest,
        remediation_id=run.remediation_id,
        trace_id=run.trace_id,
        may_approve=may_approve,
    )


def decided_risk(run: Invocation) -> str:
    """The worst of the risks that were found when a run was decided on; low without any."""
    if not run.decision:
        return "unknown"
    found = {risk.text("severity") for risk in Recorded(run.decision).inner("gate").each("risks")}
    return next((level.value for level in Severity if level in found), Severity.LOW.value)


def agent_choice(
    version_id: str, *, incident: RequestContext | None, selection: Recorded, chosen_by: str, search: Recorded
) -> AgentChoice:
    """What is wrong, and why `chosen_by` chose this version, by the payloads of the selection and its search."""
    said = selection.inner("arguments")
    reasoning = said.as_dict().get("reasoning")
    returned = [each for each in search.inner("result").each("candidates") if each.flag("returned")]
    others = [each.text("workflow") for each in returned if each.text("version_id") != version_id]
    return AgentChoice(
        signal_name=visible(incident.signal_name) if incident is not None else "",
        severity=visible(incident.severity) if incident is not None else "",
        reasoning=visible(reasoning) if isinstance(reasoning, str) else "",
        confidence=said.number("confidence"),
        chosen_by=visible(chosen_by),
        offered=[visible(each) for each in others[:_MOST_OFFERED]],
    )


def filled_steps(content: Mapping[str, Any]) -> list[StepText]:
    """The commands of what would run, with the values of its inputs in their places."""
    values = {name: _plain(value) for name, value in Recorded(content).inner("parameters").as_dict().items()}

    def value(found: re.Match[str]) -> str:
        return values.get(found[1] or found[2], found[0])

    said = [step.as_dict() for step in Recorded(content).each("steps")]
    texts = [(str(step.get("name", "")), _INPUT.sub(value, str(step.get("command", "")))) for step in said]
    return [StepText(name=visible(name), command=visible(command)) for name, command in texts]


def _declared(labels: Mapping[str, Any], key: str) -> str:
    return ", ".join(labels.get(key, ()))


def _rules(decision: Recorded) -> Iterator[str]:
    for rule in decision.each("rules"):
        rationale = rule.text("rationale")
        yield f"{rule.text('effect')}, rule {rule.text('id')} of contract {rule.text('contract')}" + (
            f": {rationale}" if rationale else ""
        )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
