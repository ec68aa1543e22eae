"""From a WorkflowInvocation object to the request for a run.

`runs/submission` calls it. Pure: it checks what only an object can get wrong, and has `domain/runs/submission` build
the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.runs.facts import target_of
from formulary_catalog.domain.runs.run import NewInvocation, RunTarget, Source, id_of_object
from formulary_catalog.domain.runs.submission import RequestedRun, RunRules, new_run
from formulary_catalog.domain.runs.target_input import bound_input
from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.text import all_storable
from formulary_catalog.domain.workflows.identity import WorkflowReference, parse_reference
from formulary_catalog.domain.workflows.invocable import hidden_from_readers
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.domain.workflows.problems import problems
from formulary_catalog.errors import InvalidInput, NotInvocable
from formulary_operator.api.invocation import InvocationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request as its object states it, read and of the right form."""

    namespace: str
    name: str
    uid: str
    reference: WorkflowReference
    search_id: UUID | None
    spec: InvocationSpec


def parse_run_request(document: Mapping[str, Any]) -> RunRequest:
    """The request that an object states.

    Raises:
        InvalidInput: a field breaks a rule.
    """
    try:
        spec = InvocationSpec.model_validate(document.get("spec"))
    except ValidationError as error:
        field, message = problems(error, model=InvocationSpec)
        raise InvalidInput(f"spec.{message}", field=field) from None
    metadata = document["metadata"]
    return RunRequest(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        reference=_reference(spec),
        search_id=_search_id(spec.search_id),
        spec=spec,
    )


def requested_run(
    request: RunRequest,
    *,
    version: StoredManifest,
    history: Sequence[StoredManifest],
    context: RequestContext | None,
    requester: str,
    runs_namespace: str,
    rules: RunRules,
) -> NewInvocation:
    """The run that is asked for. `version` is what the reference means, with the `history` of its workflow. `context`
    is that of its incident or target.

    Raises:
        InvalidInput, InputRefused: the input breaks a rule, or the request contradicts its incident or target.
        NotInvocable: the workflow cannot be run.
    """
    spec = request.spec
    if any(each.status == "Disabled" for each in history):
        raise NotInvocable(f"workflow {version.name}@{version.version} is suspended; its owners switch spec.suspend")
    entry = catalog_entry(version.document, source="catalog", default_namespace=version.namespace)
    if problem := hidden_from_readers(entry.document["spec"]):
        raise NotInvocable(f"workflow {version.name}@{version.version} cannot be invoked: {problem}")
    _require_snapshot(spec, version=version)
    given = spec.input or {}
    _require_nothing_sensitive(given, workflow=entry.workflow)
    _require_storable(given)
    constraints = constraints_of(context, strict_keys=rules.strict_keys) if context is not None else None
    return new_run(
        RequestedRun(
            id=id_of_object(request.uid),
            source=Source.CLUSTER,
            requester=requester,
            namespace=request.namespace,
            object_name=request.name,
            object_uid=request.uid,
            input=bound_input(entry.workflow.spec, given, context=context),
            target=_target(request, context=context, runs_namespace=runs_namespace),
            timeout_seconds=spec.timeout_seconds,
            remediation_id=spec.remediation_id,
            search_id=request.search_id,
            dry_run=spec.dry_run,
        ),
        version=version,
        workflow=entry.workflow,
        context=context,
        allowed_here=constraints is None or allowed(entry.labels, constraints),
        rules=rules,
    )


def _reference(spec: InvocationSpec) -> WorkflowReference:
    """What the reference means; an id of a content wins over a name, which then is there for people."""
    wanted = spec.workflow_ref
    if wanted.version_id:
        return parse_reference(wanted.version_id)
    reference = parse_reference(wanted.workflow_id, version=wanted.version)
    if not wanted.namespace or reference.version_id:
        return reference
    if reference.namespace not in ("", wanted.namespace):
        raise InvalidInput(
            f"spec.workflowRef.namespace: {wanted.namespace!r} contradicts workflowId {wanted.workflow_id!r}; give the "
            "namespace in one place only",
            field="spec.workflowRef.namespace",
        )
    return WorkflowReference(name=reference.name, namespace=wanted.namespace, version=reference.version)


def _search_id(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        raise InvalidInput(
            f"spec.searchId: {text!r} is no id of a search; leave it out, or give the search_id of its answer",
            field="spec.searchId",
        ) from None


def _require_snapshot(spec: InvocationSpec, *, version: StoredManifest) -> None:
    snapshot = spec.workflow_ref.snapshot
    if snapshot is not None and snapshot != version.document.get("spec"):
        raise InvalidInput(
            f"spec.workflowRef.snapshot: is not the content of {version.version_id}; leave it out",
            field="spec.workflowRef.snapshot",
        )


def _require_nothing_sensitive(given: Mapping[str, Any], *, workflow: RemediationWorkflow) -> None:
    sensitive = {parameter.name for parameter in workflow.spec.parameters if parameter.sensitive}
    for name in sorted(sensitive.intersection(given)):
        raise InvalidInput(
            f"spec.input.{name}: is sensitive, and everybody who may read this object can read it now; change "
            "that secret, delete this object, and ask the server for the run, which keeps such values apart",
            field=f"spec.input.{name}",
        )


def _require_storable(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not all_storable([name, value]):
            raise InvalidInput(
                f"spec.input.{name!r}: contains a NUL or an unpaired surrogate character; give plain text",
                field="spec.input",
            )


def _target(request: RunRequest, *, context: RequestContext | None, runs_namespace: str) -> RunTarget:
    """What is to be healed: as the request says, else as its incident does."""
    given, known = request.spec.target, target_of(context)
    home = known.namespace or (runs_namespace if known.name else request.namespace)
    if context is not None and home != request.namespace:
        field = "spec.remediationId" if context.analysis else "spec.target"
        what = repr(request.spec.remediation_id) if context.analysis else str(known)
        raise InvalidInput(f"{field}: {what} is healed in another namespace; create the object in {home}", field=field)
    if given is None or (context is not None and not context.analysis):
        return known
    target = RunTarget(api_version=given.api_version, kind=given.kind, name=given.name, namespace=given.namespace)
    if known.name and (target.kind, target.name) != (known.kind, known.name):
        raise InvalidInput(
            f"spec.target: {target} is not what incident {request.spec.remediation_id!r} is about, {known}; leave "
            "spec.target or spec.remediationId out",
            field="spec.target",
        )
    return known if known.name else target
