"""Whether a workflow can be run at all, from its manifest alone."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.visible import first_hidden
from formulary_catalog.domain.workflows.inputs import schema_problem
from formulary_catalog.domain.workflows.manifest import WorkflowSpec

_ENGINES = ("job", "tekton", "argo")
_RUN = ("execution", "dependencies", "parameters", "steps")
_DESCRIPTION = "description"


def not_invocable_because(spec: WorkflowSpec) -> str:
    """Why the workflow can be read and followed, but not run; empty if it can be run where its engine is."""
    if problem := hidden_from_readers(spec.model_dump(by_alias=True, include=set(_RUN))):
        return problem
    if problem := schema_problem(spec.parameters):
        return problem
    return engine_problem(spec.execution.engine)


def engine_problem(engine: str) -> str:
    """What is wrong with an engine; empty for one that runs something."""
    if engine in _ENGINES:
        return ""
    return f"spec.execution.engine is {engine}, which is not supported; supported are {', '.join(_ENGINES)}"


def hidden_from_readers(spec: Mapping[str, Any]) -> str:
    """What would be run and cannot be seen in a stored spec; empty if what people read is what is run.

    Nobody can approve that. Descriptions run nothing, and are shown without what they hide.
    """
    for part in _RUN:
        members = spec.get(part)
        read = [_without_description(each) for each in members] if isinstance(members, list) else members
        if hidden := first_hidden(read, field=f"spec.{part}"):
            return f"{hidden.field} {hidden.problem} in a new version"
    return ""


def _without_description(member: Any) -> Any:
    if not isinstance(member, Mapping):
        return member
    return {name: value for name, value in member.items() if name != _DESCRIPTION}
