"""Whether a workflow can be run at all, from its manifest alone."""

from formulary_catalog.domain.inputs import schema_problem
from formulary_catalog.domain.workflow import WorkflowSpec

_ENGINES = ("job", "tekton", "argo")


def not_invocable_because(spec: WorkflowSpec) -> str:
    """Why the workflow can be read and followed, but not run; empty if it can be run where its engine is."""
    if problem := schema_problem(spec.parameters):
        return problem
    engine = spec.execution.engine
    if engine not in _ENGINES:
        return f"spec.execution.engine is {engine}, which is not supported; supported are {', '.join(_ENGINES)}"
    return ""
