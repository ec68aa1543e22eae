"""The sections of a workflow as documents: what somebody may look for who does not look for a workflow to run.

`domain/entry` calls it; labels are no section, custom ones are in no document.
"""

from collections.abc import Iterable, Iterator

from formulary_catalog.domain.knowledge.documents import Collection, Document, Section, documents
from formulary_catalog.domain.workflows.identity import workflow_uri
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, Step, title_of
from formulary_catalog.domain.workflows.sections import written_steps


def workflow_documents(workflow: RemediationWorkflow, *, namespace: str, version_id: str) -> list[Document]:
    """The documents of one workflow version, `wf_ver_…#when_to_use`, in the order in which they are read."""
    return documents(
        list(_sections(workflow)),
        source_id=version_id,
        collection=Collection.WORKFLOWS,
        namespace=namespace,
        source_file=workflow_uri(namespace=namespace, name=workflow.metadata.name, version=workflow.spec.version),
        title=title_of(workflow),
    )


def _sections(workflow: RemediationWorkflow) -> Iterator[Section]:
    spec = workflow.spec
    described = spec.description
    yield Section("description", "Description", described.what)
    yield Section("when_to_use", "When to use", described.when_to_use)
    yield Section("when_not_to_use", "When not to use", described.when_not_to_use)
    yield Section("preconditions", "Preconditions", "\n".join([described.preconditions, *_listed(spec.prerequisites)]))
    yield Section("steps", "Steps", _written(spec.steps))
    yield Section("rollback_steps", "Rollback steps", _written(spec.rollback_steps))


def _written(steps: Iterable[Step]) -> str:
    return written_steps(step.model_dump(include={"name", "description", "command"}) for step in steps)


def _listed(items: Iterable[str]) -> list[str]:
    return [f"- {item}" for item in items]
