"""Argo Workflows: a workflow is a WorkflowTemplate of the cluster.

`engines.ENGINES` lists it for `execution.engine: argo`; `runs.execution` creates what `manifest` returns and reads it
back with `observe` and `outputs`. Sensitive values are refused, since Argo shows parameters to all readers. Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from formulary_operator.api.names import Json, Resource
from formulary_operator.engines import config as reading
from formulary_operator.engines import observations
from formulary_operator.engines.config import EngineConfig, unrunnable
from formulary_operator.engines.observations import bounded
from formulary_operator.engines.parameters import literal_parameters, text_of
from formulary_operator.engines.plan import DEFAULT_ACCOUNT, TTL_SECONDS, Observation, RunPlan

ARGO_WORKFLOWS = Resource(group="argoproj.io", version="v1alpha1", plural="workflows", kind="Workflow")

_ENDED_BADLY = ("Failed", "Error")


class ArgoEngine:
    """Runs a workflow as an Argo Workflow."""

    name = "argo"
    resource = ARGO_WORKFLOWS

    def manifest(self, plan: RunPlan) -> Json:
        """The Argo Workflow of a run; see `Engine.manifest`."""
        parameters = literal_parameters(plan, engine="Argo Workflows", placeholder="{{")
        return {
            "apiVersion": ARGO_WORKFLOWS.api_version,
            "kind": ARGO_WORKFLOWS.kind,
            "metadata": plan.metadata,
            "spec": {
                "workflowTemplateRef": _template(plan),
                # Parameters of Argo are texts.
                "arguments": {
                    "parameters": [{"name": name, "value": text_of(value, name=name)} for name, value in parameters]
                },
                "activeDeadlineSeconds": plan.deadline_seconds,
                "ttlStrategy": {"secondsAfterCompletion": TTL_SECONDS},
                **({} if plan.argo_strict else _pods(plan)),
            },
        }

    def observe(self, document: Mapping[str, Any]) -> Observation:
        """How the Argo Workflow stands; see `Engine.observe`."""
        status = reading.mapping(document, "status")
        phase, message = reading.text(status.get("phase")), reading.text(status.get("message"))
        started_at, finished_at = (reading.moment(status.get(field)) for field in ("startedAt", "finishedAt"))
        if phase == "Succeeded":
            return observations.succeeded(started_at=started_at, finished_at=finished_at, message=message)
        if phase not in _ENDED_BADLY:
            return observations.running(started_at=started_at, message=message)
        return observations.failed(
            timed_out=_is_over_deadline(document, started_at=started_at, finished_at=finished_at),
            started_at=started_at,
            finished_at=finished_at,
            message=": ".join(part for part in (phase, message) if part),
        )

    def outputs(self, document: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Json:
        """The output parameters of the entrypoint; see `Engine.outputs`."""
        parameters = reading.mappings(reading.mapping(document, "status", "outputs").get("parameters"))
        return bounded({each["name"]: each.get("value") for each in parameters if reading.text(each.get("name"))})


def _pods(plan: RunPlan) -> Json:
    """What of the pods a Workflow may say itself, unless Argo runs with `templateReferencing: Strict` or `Secure`.

    It ends a Workflow then that sets a field other than `arguments`, `workflowTemplateRef`, `activeDeadlineSeconds`,
    `ttlStrategy` and some that are not used here: docs/workflow-restrictions.md of argoproj/argo-workflows, "Allowed
    Workflow Fields Under templateReferencing".
    """
    return {
        "serviceAccountName": plan.workflow.spec.execution.service_account_name or DEFAULT_ACCOUNT,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def _is_over_deadline(
    document: Mapping[str, Any], *, started_at: datetime | None, finished_at: datetime | None
) -> bool:
    """Whether it ran as long as it may. Argo's messages about that change from version to version."""
    deadline = reading.number(reading.mapping(document, "spec").get("activeDeadlineSeconds"))
    if deadline is None or started_at is None or finished_at is None:
        return False
    return (finished_at - started_at).total_seconds() >= deadline


def _template(plan: RunPlan) -> Json:
    config = EngineConfig(plan.workflow)
    name = config.text("workflowTemplate")
    if not name:
        raise unrunnable(
            plan.workflow,
            "it names no template; give the name of a WorkflowTemplate in spec.execution.engineConfig.workflowTemplate",
        )
    return {"name": name, **({"clusterScope": True} if config.flag("clusterScope") else {})}
