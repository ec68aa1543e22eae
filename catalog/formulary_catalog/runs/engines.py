"""What a run would create, made by the engine itself: engines are found by name, since they know Kubernetes."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from formulary_catalog.domain.runs.run import NewInvocation
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import NoExecutor

GROUP = "formulary.engines"
"""Entry points from the name of an engine to what builds its manifest."""

_Builder = Callable[..., dict[str, Any]]


def manifest_of(new: NewInvocation, workflow: RemediationWorkflow) -> Mapping[str, Any]:
    """The object that would run the invocation, as no cluster has seen it.

    Raises:
        NoExecutor: nothing here knows the engine.
        NotInvocable, InvalidInput: the engine cannot run the workflow, or not with these values.
    """
    build = _builder(workflow.spec.execution.engine)
    return build(
        invocation_id=new.id,
        namespace=new.namespace,
        workflow=workflow,
        version_id=new.version_id,
        values=new.values,
        sensitive=frozenset(new.secret),
        target=new.target,
        remediation_id=new.remediation_id,
        timeout_seconds=new.timeout_seconds,
    )


@cache
def _builder(engine: str) -> _Builder:
    for found in entry_points(group=GROUP, name=engine):
        builder: _Builder = found.load()
        return builder
    raise NoExecutor(
        f"no executor for the engine {engine} is installed with this server, so that it cannot show what a run would "
        "create; install the formulary distribution as a whole"
    )
