"""Starts runs with an engine of the cluster, follows them, records their end.

The row says what is to be done. What does it has the name of the invocation, so that it is there once at most: after
whatever interruption it is found, or it was never made.
"""

import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.runs.outcome import TargetState
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import InvalidInput, InvalidManifest, NotInvocable
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_operator.api.names import PODS, SECRETS, Json
from formulary_operator.engines import engine_of
from formulary_operator.engines.job import JOBS, has_ready_pod, image_problem
from formulary_operator.engines.observations import MAX_MESSAGE
from formulary_operator.engines.plan import INVOCATION_LABEL, Engine, RunPlan
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.runs.permits import NotPermitted, Permits, lacks_rights, not_opted_in
from formulary_operator.runs.plan import (
    content_of,
    is_made_for,
    is_owned,
    outcome_message,
    plan_of,
    reference_of,
    seconds_left,
    secret_of,
)
from formulary_operator.runs.targets import RunTargets
from formulary_operator.runs.verifying import RunVerifier

START_SECONDS = 4.0
"""How long the creation of what does the work may take."""
_LEAVE_SECONDS = START_SECONDS + 1.0
"""For so long a halt waits for a start of which nothing more is heard."""
GRACE_SECONDS = 10.0
"""How much longer than its timeout a run may take before it is ended from here: its engine is to end it."""


class _CannotRun(Exception):
    """The run ends before anything does its work; `reason` and the message say why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RunExecution:
    """Brings runs on, step by step. `engines` are the names of those that may be used.

    All methods raise Unavailable while the API server or the database does not answer; the same step is tried again.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        runs: RunWriter,
        permits: Permits,
        targets: RunTargets,
        verifier: RunVerifier,
        engines: Collection[str],
        default_image: str,
        default_user: int,
        argo_strict: bool,
    ) -> None:
        self._client = client
        self._permits = permits
        self._targets = targets
        self._verifier = verifier
        self._runs = runs
        self._engines = frozenset(engines)
        self._default_image = default_image
        self._default_user = default_user
        self._argo_strict = argo_strict

    def content(self, run: Invocation) -> Json:
        """What a run would run, as it is rendered now; or `problem`, why it cannot be."""
        try:
            workflow = _workflow(run)
            plan = self._plan(run, workflow=workflow, owner=None, seconds=run.timeout_seconds)
            manifest = engine_of(workflow).manifest(plan)
        except (NotInvocable, InvalidManifest, InvalidInput) as error:
            return {"problem": str(error)}
        return content_of(run, workflow=workflow, plan=plan, manifest=manifest)

    async def advance(self, run: Invocation, *, owner: Mapping[str, Any]) -> Invocation:
        """Bring a run that has begun as far as it goes now; `owner` is the reference to its object."""
        try:
            workflow = _workflow(run)
            engine = self._engine(run, workflow=workflow)
            if run.runs_for_real:
                return await self._follow(run, workflow=workflow, engine=engine, owner=owner)
            return await self._rehearse(run, workflow=workflow, engine=engine, owner=owner)
        except (NotInvocable, InvalidManifest) as error:
            return await self._end(run, Phase.FAILED, Reason.NOT_INVOCABLE, str(error))
        except InvalidInput as error:
            return await self._end(run, Phase.FAILED, Reason.INPUT_INVALID, str(error))
        except (_CannotRun, NotPermitted) as error:
            return await self._end(run, Phase.FAILED, error.reason, str(error))

    async def cancel(self, run: Invocation) -> Invocation:
        """End a run whose object is gone, and whatever does its work; one that has just ended is not cancelled."""
        ended = await self._stop(run) or await self._runs.cancel(run.id, message="the WorkflowInvocation was deleted")
        return ended or run

    async def halt(self, run: Invocation) -> Invocation:
        """End a run that was halted, and whatever does its work; one that has just ended by itself is not halted."""
        return await self._stop(run) or await self._end(run, Phase.HALTED, Reason.HALTED, run.halted)

    async def _stop(self, run: Invocation) -> Invocation | None:
        """Stop whatever does the work of a run; how it ended, if it has by itself."""
        if (under_way := await self._under_way(run)) is not None:
            engine, found = under_way
            if engine.observe(found).phase.is_final:
                await self._note_reference(run, engine=engine, found=found)
                return await self._note_end(run, engine=engine, found=found)
            await self._delete(engine, found)
        return None

    async def _under_way(self, run: Invocation) -> tuple[Engine, Json] | None:
        """What does the work of a run, if anything does, noted or not."""
        if run.phase is not Phase.RUNNING or not run.runs_for_real:
            return None
        try:
            engine = self._engine(run, workflow=_workflow(run))
            found = await self._found(run, engine=engine)
        except (NotInvocable, InvalidManifest, _CannotRun, NotPermitted):
            return None  # nothing was ever started, or nothing that could be stopped from here
        if found is None or not is_owned(found, uid=run.object_uid) or not await self._is_ours(run, found):
            return None
        return engine, found

    def _engine(self, run: Invocation, *, workflow: RemediationWorkflow) -> Engine:
        """The engine of a run; one that is switched off starts nothing more, what it has started is followed."""
        engine = engine_of(workflow)
        if engine.name not in self._engines and not run.reference:
            raise _CannotRun(
                Reason.ENGINE_UNAVAILABLE,
                f"workflow {workflow.metadata.name} needs the engine {engine.name}, which is not enabled here; enabled "
                f"are {', '.join(sorted(self._engines))} (FORMULARY_ENGINES of the operator)",
            )
        return engine

    def _plan(
        self,
        run: Invocation,
        *,
        workflow: RemediationWorkflow,
        owner: Mapping[str, Any] | None,
        seconds: float,
        nonce: str = "",
    ) -> RunPlan:
        return plan_of(
            run,
            workflow=workflow,
            owner=owner,
            default_image=self._default_image,
            default_user=self._default_user,
            argo_strict=self._argo_strict,
            seconds=seconds,
            nonce=nonce,
        )

    async def _rehearse(
        self, run: Invocation, *, workflow: RemediationWorkflow, engine: Engine, owner: Mapping[str, Any]
    ) -> Invocation:
        """Have the API server check what would be created."""
        plan = self._plan(run, workflow=workflow, owner=owner, seconds=run.timeout_seconds)
        manifest = engine.manifest(plan)
        await self._permits.require(
            run, workflow=workflow, resource=engine.resource, manifest=manifest, own_secret=plan.secret_name
        )
        try:
            await self._client.create(engine.resource.path(namespace=run.namespace), manifest, dry_run=True)
        except KubernetesRefused as error:
            if lacks_rights(error):
                raise not_opted_in(run.namespace) from error
            message = f"the {engine.resource.kind} would not be created: {error}"
            return await self._end(run, Phase.FAILED, _reason(error), message, manifest=manifest)
        if run.degraded:
            message = str(run.decision.get("message") or run.message)
            return await self._end(run, Phase.SUCCEEDED, Reason.DEGRADED, message, manifest=manifest)
        message = f"the API server accepts the {engine.resource.kind}; nothing was run"
        return await self._end(run, Phase.SUCCEEDED, Reason.DRY_RUN, message, manifest=manifest)

    async def _follow(
        self, run: Invocation, *, workflow: RemediationWorkflow, engine: Engine, owner: Mapping[str, Any]
    ) -> Invocation:
        found = await self._found(run, engine=engine)
        if found is None:
            if run.reference:
                message = f"{engine.resource.kind} {run.id} is gone before it ended; somebody deleted it"
                return await self._end(run, Phase.FAILED, Reason.RUN_FAILED, message)
            if _overdue(run, grace=0):
                message = f"nothing was started within the timeout of {run.timeout_seconds:g} s, and nothing will be"
                return await self._end(run, Phase.TIMED_OUT, Reason.DEADLINE_EXCEEDED, message)
            if (started := await self._start(run, workflow=workflow, engine=engine, owner=owner)) is None:
                return await self._runs.find(run.id) or run
            found = started
        if not is_owned(found, uid=owner["uid"]) or not await self._is_ours(run, found):
            raise _CannotRun(
                Reason.START_FAILED,
                f"{engine.resource.kind} {run.id} is there and belongs to something else; delete it and ask again",
            )
        await self._note_reference(run, engine=engine, found=found)
        if engine.observe(found).phase.is_final:
            return await self._note_end(run, engine=engine, found=found)
        if _overdue(run, grace=GRACE_SECONDS):
            await self._delete(engine, found)
            message = f"it had not ended after the timeout of {run.timeout_seconds:g} s, and was stopped"
            reason, message = _kept_waiting(run, reason=Reason.DEADLINE_EXCEEDED, message=message)
            return await self._end(run, Phase.TIMED_OUT, reason, message)
        return await self._note_reason(run, engine=engine, found=found)

    async def _note_reference(self, run: Invocation, *, engine: Engine, found: Json) -> None:
        """Note what does the work of a run; without it the run counts as one that changed nothing."""
        if not run.reference:
            await self._runs.note_reference(run.id, reference=reference_of(engine.resource, found))

    async def _note_reason(self, run: Invocation, *, engine: Engine, found: Json) -> Invocation:
        """Note, while it lasts, that an image cannot be pulled.

        The Job controller deletes the pod of a Job that is out of time before it ends the Job, so what was last known
        of a pod holds until there is another one.
        """
        problem = ""
        if engine.resource is JOBS and not has_ready_pod(found):
            pods = await self._pods(run, engine=engine)
            if not pods:
                return await self._runs.find(run.id) or run
            problem = image_problem(pods)
        if bool(problem) == (run.reason == Reason.IMAGE_NOT_PULLED):
            return await self._runs.find(run.id) or run
        reason, message = Reason.STARTED, str(run.decision.get("message") or "")
        if problem:
            reason, message = Reason.IMAGE_NOT_PULLED, f"its image cannot be pulled: {problem}"[:MAX_MESSAGE]
        return await self._runs.note_reason(run.id, reason=reason, message=message) or run

    async def _found(self, run: Invocation, *, engine: Engine) -> Json | None:
        """What does the work of the run; what somebody has put in its place since it was noted does not."""
        kind = engine.resource.kind
        try:
            found = await self._client.get(engine.resource.path(namespace=run.namespace, name=run.id))
        except KubernetesRefused as error:
            if run.reference and not _overdue(run, grace=GRACE_SECONDS):
                raise  # such as rights that are missing for a moment
            if run.reference:
                message = f"{kind} {run.id} cannot be read, so that its outcome is unknown: {error}"
                raise _CannotRun(Reason.RUN_FAILED, message) from error
            if await self._client.offers(engine.resource):
                if error.status == 403:
                    raise not_opted_in(run.namespace) from error
                message = f"the {kind} of the run cannot be looked for: {error}"
                raise _CannotRun(Reason.START_FAILED, message) from error
            raise _CannotRun(Reason.ENGINE_UNAVAILABLE, _not_served(engine)) from error
        return found if found is not None and _is_noted(run, found) else None

    async def _is_ours(self, run: Invocation, found: Json) -> bool:
        """Whether it was made here. What was noted is known by its uid, what is not by what only we can write."""
        return bool(run.reference) or is_made_for(found, nonce=await self._runs.nonce(run.id))

    async def _start(
        self, run: Invocation, *, workflow: RemediationWorkflow, engine: Engine, owner: Mapping[str, Any]
    ) -> Json | None:
        """Create what does the work, and before it what it reads. Of two attempts the second finds the first's.

        None if the run was halted, or a newer leader ended it.
        """
        if run.content_digest and run.content_digest != self.content(run).get("digest"):
            raise _CannotRun(
                Reason.START_FAILED,
                "what would run is not what was decided on, since the operator or its settings changed; ask again",
            )
        nonce = await self._runs.nonce(run.id)
        plan = self._plan(run, workflow=workflow, owner=owner, seconds=_seconds_left(run), nonce=nonce)
        manifest = engine.manifest(plan)
        await self._permits.require(
            run, workflow=workflow, resource=engine.resource, manifest=manifest, own_secret=plan.secret_name
        )
        if values := await self._runs.secret(run.id):
            await self._create_once(SECRETS.path(namespace=run.namespace), secret_of(plan, values))
            await self._runs.forget_secret(run.id)
        target = await self._targets.context_of(run)
        await self._verifier.note_before(run)
        until = time.monotonic() + START_SECONDS
        if (leave := await self._runs.leave_to_start(run.id, seconds=_LEAVE_SECONDS, target=target)) is None:
            return None
        try:  # after an outage nobody knows whether it comes into being yet: the leave ends by itself then
            path = engine.resource.path(namespace=run.namespace)
            created = await self._create_once(path, manifest, seconds=until - time.monotonic())
        except _CannotRun:
            await self._runs.started(leave)
            raise
        if created is not None and await self._is_over(run):
            await self._delete(engine, created)  # a successor ended the run meanwhile, and could not see this
            return None
        await self._runs.started(leave)
        if created is not None:
            return created
        existing = await self._client.get(engine.resource.path(namespace=run.namespace, name=run.id))
        if existing is None:
            raise _CannotRun(Reason.START_FAILED, f"{engine.resource.kind} {run.id} was deleted as it was started")
        return existing

    async def _is_over(self, run: Invocation) -> bool:
        now = await self._runs.find(run.id)
        return now is None or now.phase.is_final

    async def _create_once(self, path: str, manifest: Json, *, seconds: float | None = None) -> Json | None:
        """The object; None if there is one of this name already."""
        try:
            return await self._client.create(path, manifest, seconds=seconds)
        except KubernetesRefused as error:
            if error.status == 409:
                return None
            if lacks_rights(error):
                raise not_opted_in(manifest["metadata"]["namespace"]) from error
            message = f"the {manifest['kind']} of the run was not created: {error}"
            raise _CannotRun(_reason(error), message) from error

    async def _note_end(self, run: Invocation, *, engine: Engine, found: Json) -> Invocation:
        observed = engine.observe(found)
        outputs = engine.outputs(found, await self._pods(run, engine=engine))
        message = outcome_message(observed, kind=engine.resource.kind, name=run.id, outputs=outputs)
        reason = observed.reason
        if observed.phase is not Phase.SUCCEEDED and not outputs:
            reason, message = _kept_waiting(run, reason=reason, message=message)
        target = await self._verifier.at_end(run, ended_at=observed.finished_at)
        return await self._end(run, observed.phase, reason, message, outputs=outputs, target=target)

    async def _pods(self, run: Invocation, *, engine: Engine) -> list[Json]:
        if engine.resource is not JOBS:
            return []
        return await self._client.selected(PODS.path(namespace=run.namespace), labels={INVOCATION_LABEL: run.id})

    async def _delete(self, engine: Engine, found: Json) -> None:
        metadata = found["metadata"]
        path = engine.resource.path(namespace=metadata["namespace"], name=metadata["name"])
        await self._client.delete(path, uid=metadata["uid"])

    async def _end(
        self,
        run: Invocation,
        phase: Phase,
        reason: Reason,
        message: str,
        *,
        outputs: Json | None = None,
        manifest: Json | None = None,
        target: TargetState | None = None,
    ) -> Invocation:
        ended = await self._runs.finish(
            run.id, phase=phase, reason=reason, message=message, outputs=outputs, manifest=manifest, target=target
        )
        return ended or run


def _workflow(run: Invocation) -> RemediationWorkflow:
    return catalog_entry(run.document, source="snapshot", default_namespace=run.workflow_namespace).workflow


def _is_noted(run: Invocation, found: Json) -> bool:
    """Whether this is what was noted to do the work, or nothing was noted yet."""
    return not run.reference or bool(run.reference.get("uid") == found["metadata"]["uid"])


def _seconds_left(run: Invocation) -> float:
    return seconds_left(run, now=datetime.now(UTC))


def _overdue(run: Invocation, *, grace: float) -> bool:
    return _seconds_left(run) < -grace


def _kept_waiting(run: Invocation, *, reason: Reason, message: str) -> tuple[Reason, str]:
    """Why a run ended badly and in words: it may never have had an image."""
    if run.reason != Reason.IMAGE_NOT_PULLED:
        return reason, message
    return Reason.IMAGE_NOT_PULLED, f"{message}; {run.message}"[:MAX_MESSAGE]


def _reason(error: KubernetesRefused) -> Reason:
    """Why nothing could be created: a 404 that names no object says that the kind is not served."""
    unserved = error.status == 404 and not error.about
    return Reason.ENGINE_UNAVAILABLE if unserved else Reason.START_FAILED


def _not_served(engine: Engine) -> str:
    return (
        f"the cluster does not serve {engine.resource.kind} of {engine.resource.api_version}, which the engine "
        f"{engine.name} needs; install it, or use a workflow of another engine"
    )
