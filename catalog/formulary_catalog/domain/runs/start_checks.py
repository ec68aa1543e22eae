"""Whether what a run was accepted for still holds when it starts: its workflow, the labels, the incident or the target.

`store/runs/lifecycle` calls it right before a run begins. A workflow that was suspended or relabelled since the
request must not run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.incidents import RequestContext, constraints_of, target_parts
from formulary_catalog.domain.runs.run import Invocation, Reason, RunTarget, Source
from formulary_catalog.domain.workflows.invocable import hidden_from_readers
from formulary_catalog.domain.workflows.labels import Constraints, fold
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.errors import InvalidManifest

_AGAIN = "nothing was run; search again for what fits now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Why a run that was accepted must not start any more."""

    reason: Reason
    message: str


TargetNow = tuple[RequestContext, ...] | Withdrawn | None
"""What the owners of a target demand now, or why that is not known; None where nobody has read it.

Of a run about a target, its context comes first; the others are of what the run names besides. Of a run for an
AIAnalysis there is that of its namespace, which holds, too.

An operator that reads no targets still runs what people created in the cluster, whom no label of a target constrained.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What a run refers to, as it is now.

    `deleted`: the version of the run is. `suspended`: the workflow is, in whatever version. `served` is the document
    of the version that is served now. `incident` is the context of the AIAnalysis of the run, `target` what was read
    of its target.
    """

    deleted: bool
    suspended: bool
    served: Mapping[str, Any] | None = field(repr=False)
    incident: RequestContext | None
    target: TargetNow


def facts_now(run: Invocation, present: Present, *, strict_keys: frozenset[str]) -> Mapping[str, Any] | Withdrawn:
    """The facts of a run, as the rules judge them, with what its incident or target says now; or why it must not
    start.

    `strict_keys` are the custom label keys of the settings that a workflow must declare.
    """
    workflow = f"workflow {run.workflow_namespace}/{run.workflow_name}@{run.workflow_version}"
    if present.deleted:
        return Withdrawn(reason=Reason.WORKFLOW_NOT_FOUND, message=f"{workflow} was deleted meanwhile; {_AGAIN}")
    if present.suspended:
        return Withdrawn(reason=Reason.NOT_INVOCABLE, message=f"{workflow} was suspended meanwhile; {_AGAIN}")
    if problem := hidden_from_readers(run.document.get("spec", {})):
        message = f"{workflow} cannot be invoked: {problem}; nothing was run"
        return Withdrawn(reason=Reason.NOT_INVOCABLE, message=message)
    found = _contexts_of_target(run, present) if run.is_of_target else _contexts_of_incident(run, present)
    if isinstance(found, Withdrawn):
        return found
    if not found:
        return run.facts
    for each in found:
        if not _all_allowed([run.document, present.served], constraints_of(each, strict_keys=strict_keys)):
            who = "the incident demands" if each.analysis else f"the owners of {each.target} demand"
            return Withdrawn(
                reason=Reason.DENIED,
                message=f"the labels of {workflow}, or of its version that is served now, do not fit what {who} now; "
                f"{_AGAIN}",
            )
    context, *_ = found
    # Where they contradict each other it is not known, which counts against the run.
    environments = {fold(each.environment) for each in found if each.environment}
    environment = context.environment if len(environments) <= 1 else ""
    signal = context.signal_name or run.facts.get("signal", "")
    return {**run.facts, "environment": environment, "signal": signal, "priority": context.priority}


def _contexts_of_target(run: Invocation, present: Present) -> tuple[RequestContext, ...] | Withdrawn:
    """The context of the target of a run, then those of what it names besides; none where people may go without."""
    target = present.target
    if target is None and run.source is Source.CLUSTER:
        return ()
    if isinstance(target, Withdrawn):
        return target
    if not target or _is_about_another(target[0], run.target):
        return Withdrawn(
            reason=Reason.INPUT_INVALID,
            message=f"what the owners of {run.target} demand now is not known; {_AGAIN}",
        )
    return target


def _contexts_of_incident(run: Invocation, present: Present) -> tuple[RequestContext, ...] | Withdrawn:
    """The context of the incident of a run, then that of its namespace; none for a run without an incident."""
    if not run.analysis:
        return ()
    if isinstance(present.target, Withdrawn):
        return present.target
    incident = present.incident
    if incident is None:
        return Withdrawn(
            reason=Reason.INPUT_INVALID,
            message=f"the AIAnalysis {run.analysis} is not known any more, so its constraints cannot be applied; "
            "nothing was run",
        )
    if incident.remediation_id != run.remediation_id or _is_about_another(incident, run.target):
        return Withdrawn(
            reason=Reason.INPUT_INVALID,
            message=f"the AIAnalysis {run.analysis} is about another incident or target by now; nothing was run, ask "
            "for a run of what it is about",
        )
    return (incident, *(present.target or ()))


def _is_about_another(incident: RequestContext, target: RunTarget) -> bool:
    """Whether the incident names a target, and it is not this one. Where it names none, the request may name one."""
    known = (target.api_version, target.kind, target.name, target.namespace)
    return bool(incident.target_name) and target_parts(incident) != known


def _all_allowed(documents: list[Mapping[str, Any] | None], constraints: Constraints) -> bool:
    """Whether the constraints allow each version. What cannot be read is not allowed."""
    try:
        entries = [
            catalog_entry(each, source="catalog", default_namespace="default") for each in documents if each is not None
        ]
    except InvalidManifest:
        return False
    return all(allowed(entry.labels, constraints) for entry in entries)
