"""The systems that run workflows: pure builders of what they run and readers of what they write."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_operator.api.names import Json
from formulary_operator.engines.argo import ArgoEngine
from formulary_operator.engines.config import unrunnable
from formulary_operator.engines.job import JobEngine
from formulary_operator.engines.plan import Engine, RunPlan
from formulary_operator.engines.tekton import TektonEngine

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (JobEngine(), TektonEngine(), ArgoEngine())}


def engine_of(workflow: RemediationWorkflow) -> Engine:
    """The engine that the workflow asks for.

    Raises:
        NotInvocable: there is none of that name.
    """
    name = workflow.spec.execution.engine
    if name not in ENGINES:
        known = ", ".join(sorted(ENGINES))
        raise unrunnable(workflow, f"spec.execution.engine is {name}, which is not supported; supported are {known}")
    return ENGINES[name]


def job_manifest(**plan: Any) -> Json:
    """Entry point of `formulary.engines`: the Job of a run that is given by the fields of `RunPlan`."""
    return ENGINES["job"].manifest(RunPlan(**plan))


def tekton_manifest(**plan: Any) -> Json:
    """Entry point of `formulary.engines`: the PipelineRun of a run that is given by the fields of `RunPlan`."""
    return ENGINES["tekton"].manifest(RunPlan(**plan))


def argo_manifest(**plan: Any) -> Json:
    """Entry point of `formulary.engines`: the Argo Workflow of a run that is given by the fields of `RunPlan`."""
    return ENGINES["argo"].manifest(RunPlan(**plan))
