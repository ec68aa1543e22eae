"""The facts of a run that is asked for, from what the server and the operator know alike.

`domain.runs.submission` collects them for both when it builds a request, and they are stored with the run: rules judge
a request of an agent and an object of a person by the same facts. Pure.
"""

from enum import StrEnum

from formulary_catalog.domain.governance.commands import destructive_steps
from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import RunTarget, duration_seconds
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

_TEKTON = "tekton"
_ARGO = "argo"


def target_of(context: RequestContext | None) -> RunTarget:
    """The object that the incident is about, as far as it says."""
    if context is None:
        return RunTarget()
    return RunTarget(
        api_version=context.target_api_version,
        kind=context.target_kind,
        name=context.target_name,
        namespace=context.target_namespace,
    )


def run_facts(
    workflow: RemediationWorkflow,
    *,
    workflow_namespace: str,
    namespace: str,
    target: RunTarget,
    context: RequestContext | None,
    caller: str,
    caller_may_target: bool,
    allowed_here: bool,
    timeout_seconds: float,
    foreign: bool = False,
    unproven: bool = False,
    tekton_bundles: bool = False,
    argo_templates: bool = False,
) -> RunFacts:
    """What is known before the database is asked for selections and earlier failures.

    `namespace` is that of the run. `caller_may_target`: the caller may run workflows where the target is.
    `allowed_here`: the labels of the incident allow the workflow. `foreign`: it belongs to another team's namespace.
    `unproven`: nobody proved who asks. `tekton_bundles`, `argo_templates`: as for `unseen_pods`.
    """
    spec = workflow.spec
    return RunFacts(
        workflow_name=workflow.metadata.name,
        workflow_namespace=workflow_namespace,
        action_type=spec.action_type,
        namespace=namespace,
        caller=caller,
        target_namespace=target.namespace,
        risk_level=spec.risk_level or "",
        environment=context.environment if context is not None else "",
        signal=context.signal_name if context is not None else "",
        priority=context.priority if context is not None else "",
        has_steps=any(step.command for step in spec.steps),
        has_rollback=bool(spec.rollback_steps),
        destructive=destructive_steps(spec.steps),
        caller_may_target=caller_may_target,
        allowed_here=allowed_here,
        foreign=foreign,
        unproven=unproven,
        **unseen_pods(spec.execution.engine, tekton_bundles=tekton_bundles, argo_templates=argo_templates),
        timeout_seconds=timeout_seconds,
        estimated_seconds=duration_seconds(spec.estimated_duration),
    )


def unseen_pods(engine: object, *, tekton_bundles: bool, argo_templates: bool) -> dict[str, bool]:
    """The facts about pods that somebody else than the author of the workflow may have described.

    `tekton_bundles`: neither a bundle nor a Pipeline of Tekton needs an approval for that. `argo_templates`: no
    WorkflowTemplate of Argo does.
    """
    return {
        "bundled": engine == _TEKTON and not tekton_bundles,
        "templated": engine == _ARGO and not argo_templates,
    }


class UnknownAuthors(StrEnum):
    """What an operator does with workflows whose author the admission webhook did not see, the mildest first.

    It announces that, so that `services/runs/preparation` answers a request as the operator will judge the run.
    """

    RUN = "run"
    APPROVE = "approve"
    REFUSE = "refuse"

    @property
    def strength(self) -> int:
        """Greater is stricter."""
        return list(UnknownAuthors).index(self)


def why_author_refused(workflow: str) -> str:
    """Why a workflow of an unknown author is not run where such are refused; `workflow` is namespace and name."""
    return (
        f"nobody knows who wrote workflow {workflow}; delete it and apply it again, while the admission webhook runs "
        "(FORMULARY_PROVEN_AUTHORS)"
    )
