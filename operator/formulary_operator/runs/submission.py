"""Runs that people request by creating WorkflowInvocation objects: submitted as the server submits those of agents.

`runs/reconciler` calls it. It waits for the workflow and the incident for a while, checks who asked, and refuses what
is too late.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.access import USE_CONTEXTS, Right
from formulary_catalog.domain.incidents import RequestContext, same_incident
from formulary_catalog.domain.runs.run import UNPROVEN_USER, Invocation, NewInvocation, Reason, id_of_object
from formulary_catalog.domain.runs.submission import RunRules
from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.targets.reference import (
    TargetReference,
    known_kind,
    parse_target,
    target_reference,
)
from formulary_catalog.errors import ContextError, FormularyError, InvalidInput, InvalidManifest, NotInvocable
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextReader
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_catalog.store.workflows.reader import WorkflowReader
from formulary_operator.access.authorization import Authorizer
from formulary_operator.access.identity import Identity
from formulary_operator.kube.conditions import status_of
from formulary_operator.runs.permits import NotPermitted, Permits
from formulary_operator.runs.request import RunRequest, parse_run_request, requested_run
from formulary_operator.runs.status import RunRefusal, is_of_the_server, is_settled, is_unchanged
from formulary_operator.runs.targets import RunTargets, named_in

PATIENCE_SECONDS = 10.0
"""What an object names may have been applied a moment after it."""
_WHOLE_SECONDS = 1.0
"""Times of objects have no fractions."""


class NotYet(FormularyError):
    """Something that was named may still come; tried again soon."""


class RunSubmission:
    """Makes runs of objects."""

    def __init__(
        self,
        database: Database,
        *,
        runs: RunWriter,
        permits: Permits,
        authorizer: Authorizer,
        targets: RunTargets,
        runs_namespace: str,
        rules: RunRules,
    ) -> None:
        self._runs = runs
        self._permits = permits
        self._workflows = WorkflowReader(database)
        self._contexts = ContextReader(database)
        self._admissions = AdmissionRecords(database)
        self._traces = TraceStore(database)
        self._shared_namespace = rules.shared_namespace
        self._authorizer = authorizer
        self._targets = targets
        self._runs_namespace = runs_namespace
        self._rules = rules

    async def run_of(self, document: Mapping[str, Any]) -> Invocation | RunRefusal | None:
        """The run of an object that somebody created, submitted unless it is known; or why it becomes none.

        None where nothing is known of it and its status says how it ended: that is neither repeated nor contradicted.

        Raises:
            NotYet, Unavailable: try again later.
        """
        known = await self._runs.find(id_of_object(document["metadata"]["uid"]))
        if known is not None:
            return known
        if is_settled(document):
            return None
        if (refusal := _refusal(document)) is not None:
            return refusal
        try:
            return await self._submit(document, request=parse_run_request(document))
        except (InvalidInput, InvalidManifest) as error:
            return RunRefusal(reason=Reason.INPUT_INVALID, message=str(error))
        except NotInvocable as error:
            return RunRefusal(reason=Reason.NOT_INVOCABLE, message=str(error))
        except NotPermitted as error:
            return RunRefusal(reason=error.reason, message=str(error))

    async def _submit(self, document: Mapping[str, Any], *, request: RunRequest) -> Invocation | RunRefusal:
        found = await self._version(request)
        if found is None:
            _require_old(document, missing=f"workflow {request.reference}")
            return RunRefusal(
                reason=Reason.WORKFLOW_NOT_FOUND,
                message=f"there is no workflow {request.reference} in namespace {request.namespace} or "
                f"{self._shared_namespace}; `kubectl get rw -A` lists those that there are",
            )
        version, history = found
        requester = await self._admissions.username(request.uid) or UNPROVEN_USER
        context = await self._context(document, request=request, requester=requester)
        await self._require_own_search(request, requester=requester, context=context)
        new = requested_run(
            request,
            version=version,
            history=history,
            context=context,
            requester=requester,
            runs_namespace=self._runs_namespace,
            rules=self._rules,
        )
        await self._require_may_name(request, new=new, context=context)
        if (late := _too_late(document, timeout_seconds=new.timeout_seconds)) is not None:
            return late
        known = await self._permits.known(new)
        return (await self._runs.submit(replace(new, facts={**new.facts, **known}))).invocation

    async def _require_own_search(self, request: RunRequest, *, requester: str, context: RequestContext | None) -> None:
        """What somebody else found and chose is no evidence for this run, nor is this run a part of their story.

        What was found for another target is none either.
        """
        search_id, remediation_id = request.search_id, request.spec.remediation_id
        if search_id is None:
            return
        known = await self._traces.search_recorded(search_id, caller=requester, remediation_id=remediation_id)
        about = context.target if context is not None and not remediation_id else "what this run is about"
        if known and not remediation_id:
            searched = await self._traces.searched_target(search_id, caller=requester)
            if context is not None:
                known = searched == context.target
            elif searched:  # by a server that reads targets, which this operator does not
                target = await self._target_of(request, requester=requester)
                known = parse_target(searched) == target and target.home in (None, request.namespace)
        if not known:
            raise InvalidInput(
                f"spec.searchId: {search_id} is no recorded search of {requester} for {about}; leave it out",
                field="spec.searchId",
            )

    async def _require_may_name(
        self, request: RunRequest, *, new: NewInvocation, context: RequestContext | None
    ) -> None:
        """Each object that a run names takes the same right as its target, and each namespace but its own.

        Else its status would say that a namespace exists, and that its labels exclude the workflow.
        """
        if context is not None and context.analysis and not self._targets.of_objects:
            return  # nothing of namespaces is read
        for reference in named_in(new.document, new.values, context=context, home=new.namespace):
            right = (await self._targets.kind_of(reference)).get
            if not await self._may(right, request, namespace=reference.home):
                raise InvalidInput(
                    f"spec.input: its requester may not {right} there, which it takes to name {reference}",
                    field="spec.input",
                )

    async def _version(self, request: RunRequest) -> tuple[StoredManifest, list[StoredManifest]] | None:
        """With its history; in the object's own namespace first. What other namespaces have is not for it."""
        visible = (request.namespace, self._shared_namespace)
        found = await self._workflows.find(request.reference, namespaces=frozenset(visible), suspended_in=None)
        by_namespace = {version.namespace: (version, history) for version, history in found}
        return next((by_namespace[namespace] for namespace in visible if namespace in by_namespace), None)

    async def _context(
        self, document: Mapping[str, Any], *, request: RunRequest, requester: str
    ) -> RequestContext | None:
        """The incident that is named; one that the requester may not read is as unknown as one that is not there.

        Without one, what the owners of the target demand.
        """
        remediation_id = request.spec.remediation_id
        if not remediation_id:
            return await self._context_of_target(document, request=request, requester=requester)
        found = await self._contexts.find(remediation_ids=frozenset({remediation_id}), analysis="")
        readable = [each for each in found if await self._may(USE_CONTEXTS, request, namespace=each.namespace)]
        if len(readable) < len(found):
            found = []
        if not found:
            _require_old(document, missing=f"incident {remediation_id!r}")
        if not found or not all(same_incident(found[0], other) for other in found[1:]):
            problem = (
                "is that of AIAnalysis objects that differ in target or constraints"
                if found
                else "is unknown, or its requester may not `get aianalyses` there"
            )
            raise InvalidInput(
                f"spec.remediationId: {remediation_id!r} {problem}; give the spec.remediationId of one AIAnalysis",
                field="spec.remediationId",
            )
        return found[0]

    async def _context_of_target(
        self, document: Mapping[str, Any], *, request: RunRequest, requester: str
    ) -> RequestContext | None:
        """What the owners of the target demand, as for an agent; None where targets are not read."""
        if not self._targets.of_objects:
            return None
        try:
            reference = await self._target_of(request, requester=requester)
            kind = await self._targets.kind_of(reference)
            version = request.spec.target.api_version if request.spec.target is not None else ""
            if version and version.rpartition("/")[0] != kind.group:
                raise ContextError(f"a {kind.kind} of {version} is not read; name the workload it belongs to")
            if not await self._may(kind.get, request, namespace=reference.home):
                raise InvalidInput(f"its requester may not {kind.get} there, which a target takes", field="spec.target")
            return await self._targets.context_now(reference, kind=kind)
        except (ContextError, InvalidInput) as error:
            if isinstance(error, ContextError):
                _require_old(document, missing="what the owners of spec.target demand")
            instead = "" if request.spec.target is not None else "it is not given, so its search or namespace counts: "
            raise InvalidInput(f"spec.target: {instead}{error}", field="spec.target") from None

    async def _target_of(self, request: RunRequest, *, requester: str) -> TargetReference:
        """What a run without an incident is about: what its object or its search names, else its namespace.

        So labels constrain also what names nothing.
        """
        given = request.spec.target
        if given is not None:
            known = known_kind(given.kind)
            home = "" if known is not None and not known.namespaced else request.namespace
            reference = target_reference(namespace=given.namespace or home, kind=given.kind, name=given.name)
            assert reference is not None, "the object is in a namespace, or its kind is known"
            return reference
        if request.search_id is not None:
            searched = await self._traces.searched_target(request.search_id, caller=requester)
            if searched:
                return parse_target(searched)
        return TargetReference(namespace="", kind="Namespace", name=request.namespace)

    async def _may(self, right: Right, request: RunRequest, *, namespace: str | None) -> bool:
        """Whether the requester has a right in a namespace; of nobody known a person has to judge."""
        user = Identity.of(await self._admissions.identity(request.uid))
        if not user.user and not await self._admissions.username(request.uid):
            return True  # nobody is known, so that the run waits for an approval whatever it names
        return bool(user.user) and await self._authorizer.allows(user, right, namespace=namespace)


def age_seconds(document: Mapping[str, Any]) -> float:
    """How long ago the object was created."""
    created = datetime.fromisoformat(document["metadata"]["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds()


def _too_late(document: Mapping[str, Any], *, timeout_seconds: float) -> RunRefusal | None:
    """What waited longer for us than it was to take is not begun: the cause of it is past."""
    if age_seconds(document) <= timeout_seconds + _WHOLE_SECONDS:
        return None
    return RunRefusal(
        reason=Reason.DEADLINE_EXCEEDED,
        message=f"it was not begun within its timeout of {timeout_seconds:g} s, nothing was run; create another object "
        "if the run is still needed",
    )


def _require_old(document: Mapping[str, Any], *, missing: str) -> None:
    if age_seconds(document) < PATIENCE_SECONDS:
        raise NotYet(f"{missing} is not known yet; tried again for {PATIENCE_SECONDS:.0f} s")


def _refusal(document: Mapping[str, Any]) -> RunRefusal | None:
    """What may not become a run, whatever it asks for."""
    if is_of_the_server(document):
        return RunRefusal(
            reason=Reason.INPUT_INVALID,
            message="metadata.name: names of this form belong to runs that the server was asked for, and no such run "
            "is recorded; delete the object, and create one of another name for a run",
        )
    if not is_unchanged(document):
        return RunRefusal(
            reason=Reason.INPUT_INVALID,
            message="spec: was changed before it was recorded, so it is not certain whose request it is; delete the "
            "object and create another",
        )
    if status_of(document).get("startedAt"):
        return RunRefusal(
            reason=Reason.START_FAILED,
            message="the status says that the run was started, but its record is gone; it is not started again. Look "
            "at what it did, then create another object if it has to be repeated",
        )
    return None
