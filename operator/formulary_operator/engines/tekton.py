"""Tekton: a workflow is a Pipeline, from its bundle or in the namespace of the run.

`engines.ENGINES` lists it for `execution.engine: tekton`; `runs.execution` creates what `manifest` returns and reads it
back with `observe` and `outputs`. Sensitive values are refused, since Tekton shows parameters to all readers. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from formulary_operator.api.names import Json, Resource
from formulary_operator.engines import config as reading
from formulary_operator.engines import observations
from formulary_operator.engines.config import EngineConfig, bundle_of, unrunnable
from formulary_operator.engines.observations import bounded
from formulary_operator.engines.parameters import literal_parameters
from formulary_operator.engines.plan import DEFAULT_ACCOUNT, Observation, RunPlan

PIPELINE_RUNS = Resource(group="tekton.dev", version="v1", plural="pipelineruns", kind="PipelineRun")
DEFAULT_PIPELINE = "workflow"

_TIMED_OUT = "PipelineRunTimeout"


class TektonEngine:
    """Runs a workflow as a PipelineRun."""

    name = "tekton"
    resource = PIPELINE_RUNS

    def manifest(self, plan: RunPlan) -> Json:
        """The PipelineRun of a run; see `Engine.manifest`."""
        account = plan.workflow.spec.execution.service_account_name or DEFAULT_ACCOUNT
        parameters = literal_parameters(plan, engine="Tekton", placeholder="$(")
        return {
            "apiVersion": PIPELINE_RUNS.api_version,
            "kind": PIPELINE_RUNS.kind,
            "metadata": plan.metadata,
            "spec": {
                "pipelineRef": _pipeline(plan),
                "params": [{"name": name, "value": value} for name, value in parameters],
                "timeouts": {"pipeline": f"{plan.deadline_seconds}s"},
                "taskRunTemplate": {
                    "serviceAccountName": account,
                    "podTemplate": {
                        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
                    },
                },
                "workspaces": _workspaces(plan),
            },
        }

    def observe(self, document: Mapping[str, Any]) -> Observation:
        """How the PipelineRun stands; see `Engine.observe`."""
        status = reading.mapping(document, "status")
        started_at, finished_at = (reading.moment(status.get(field)) for field in ("startTime", "completionTime"))
        done = reading.condition(document, "Succeeded")
        reason, message = reading.text(done.get("reason")), reading.text(done.get("message"))
        if done.get("status") == "True":
            return observations.succeeded(started_at=started_at, finished_at=finished_at, message=message)
        if done.get("status") == "False":
            return observations.failed(
                timed_out=reason == _TIMED_OUT,
                started_at=started_at,
                finished_at=finished_at,
                message=": ".join(part for part in (reason, message) if part),
            )
        return observations.running(started_at=started_at, message=message)

    def outputs(self, document: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Json:
        """The results of the Pipeline; see `Engine.outputs`."""
        results = reading.mappings(reading.mapping(document, "status").get("results"))
        return bounded({result["name"]: result.get("value") for result in results if reading.text(result.get("name"))})


def _pipeline(plan: RunPlan) -> Json:
    config, bundle = EngineConfig(plan.workflow), bundle_of(plan.workflow)
    in_namespace = config.text("pipelineRef")
    if bool(bundle) == bool(in_namespace):
        given = "names two pipelines" if bundle else "names no pipeline"
        raise unrunnable(
            plan.workflow,
            f"it {given}; give either spec.execution.bundle or spec.execution.engineConfig.pipelineRef",
        )
    if in_namespace:
        return {"name": in_namespace}
    parameters = {"bundle": bundle, "name": config.text("pipeline") or DEFAULT_PIPELINE, "kind": "pipeline"}
    return {
        "resolver": "bundles",
        "params": [{"name": name, "value": value} for name, value in parameters.items()],
    }


def _workspaces(plan: RunPlan) -> list[Json]:
    """What the workflow depends on, under the names that pipelines of the existing ecosystem declare."""
    needed = plan.workflow.spec.dependencies
    secrets = dict.fromkeys(reference.name for reference in needed.secrets)
    config_maps = dict.fromkeys(reference.name for reference in needed.config_maps)
    return [
        *({"name": f"secret-{name}", "secret": {"secretName": name}} for name in secrets),
        *({"name": f"configmap-{name}", "configMap": {"name": name}} for name in config_maps),
    ]
