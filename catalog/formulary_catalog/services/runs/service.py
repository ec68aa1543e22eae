"""Running workflows, for every edge: asking for a run, following it, approving it.

MCP and REST call it. It stores a decided request (`store/runs/submission`); the operator finds it there and runs it.
The server itself starts nothing and needs no rights on Jobs.
"""

from collections.abc import Iterable
from dataclasses import replace

from formulary_catalog.domain.access import APPROVE, READ_INVOCATIONS, Caller, Right
from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.console_address import incident_link, waiting_link
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.runs.report import invocation_answer, taken_for_running
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason, is_invocation_id
from formulary_catalog.domain.runs.submission import RunRules
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import (
    FormularyError,
    InputRefused,
    InvalidInput,
    NoExecutor,
    NotAllowed,
    NotFound,
    RunFailed,
    RunRefused,
    RunTimedOut,
    Unavailable,
)
from formulary_catalog.kernel.lookup import WorkflowFinder
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.kernel.trail import Record, Trail, log_trace
from formulary_catalog.services.runs.preparation import Preparation
from formulary_catalog.services.runs.request import MAX_TIMEOUT_MS, InvocationRequest
from formulary_catalog.services.runs.waiting import Progress, RunWatch, no_progress
from formulary_catalog.settings import ExecutionMode, Settings
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.executors import ExecutorReader
from formulary_catalog.store.runs.input_keys import input_keys
from formulary_catalog.store.runs.submission import CallerLimits, InvocationStore, Submitted

_REFUSED = "invocation.refused"
_NO_PLACE = "too many calls are waiting for runs already, so this one was not waited for"


class InvocationService:
    """Answers callers; every failure is a `FormularyError`. Runs are in the trail from the request to the end.

    Raises:
        StartupError: the key file that the settings name cannot be used.
    """

    def __init__(
        self,
        *,
        database: Database,
        trail: Trail,
        traces: TraceStore,
        targets: TargetContexts,
        finder: WorkflowFinder,
        settings: Settings,
    ) -> None:
        self._store = InvocationStore(
            database,
            shared_namespace=settings.catalog_namespace,
            keys=input_keys(settings),
            harmless=settings.harmless_environments,
        )
        self._approvals = ApprovalStore(database)
        self._trail = trail
        self._console_url = settings.console_url
        self._mode = settings.execution
        self._watch = RunWatch(self._store)
        self._limits = CallerLimits(
            per_hour=settings.invocations_per_hour,
            concurrent=settings.concurrent_invocations,
            dry_per_hour=settings.dry_runs_per_hour,
        )
        self._preparation = Preparation(
            finder=finder,
            traces=traces,
            targets=targets,
            executors=ExecutorReader(database),
            runs_namespace=settings.runs_namespace,
            own_namespace=settings.release_namespace,
            mode=settings.execution,
            rules=RunRules(
                shared_namespace=settings.catalog_namespace,
                strict_keys=settings.strict_custom_labels,
                max_timeout_seconds=(settings.max_timeout_ms or MAX_TIMEOUT_MS) / 1000,
                tekton_bundles=settings.tekton_bundles,
                argo_templates=settings.argo_templates,
            ),
        )

    async def invoke(
        self,
        request: InvocationRequest,
        *,
        context: ContextReference,
        caller: Caller,
        progress: Progress = no_progress,
    ) -> InvocationAnswer:
        """Ask for a run and wait for it as long as the request says. Where nothing is run, it becomes a dry run.

        Raises:
            RunRefused: the rules forbid it.
            RunFailed, RunTimedOut: it began and ended without success.
            RateLimited: the caller has as many runs as it may have.
            NotFound, ContextError, NotAllowed, NotInvocable, InvalidInput, NoExecutor, Unavailable: as `Preparation`
                has them; nothing was created.
        """
        if self._mode is ExecutionMode.OFF:
            request = replace(request, dry_run=True)
        submitted, unchecked = await self._submit(request, context=context, caller=caller)
        log_trace(submitted.invocation.trace_id)
        run, had_place = await self._watch.until(
            _is_settled,
            run=submitted.invocation,
            seconds=request.waits_seconds,
            caller=caller.name,
            progress=progress,
        )
        _raise_failure(run)
        waited = request.waits_seconds if had_place else 0.0
        notes = list(_notes(run, submitted=submitted, unchecked=unchecked, waited=waited))
        if self._mode is ExecutionMode.OFF:
            notes.append(_how_a_person_runs(run))
        notes += self._links(run)
        notes = notes if had_place else [_NO_PLACE, *notes]
        return taken_for_running(invocation_answer(run, notes=notes, console_url=self._console_url))

    async def status(
        self,
        invocation_id: str,
        *,
        caller: Caller,
        wait_seconds: float = 0.0,
        after_revision: int | None = None,
        progress: Progress = no_progress,
    ) -> InvocationAnswer:
        """Where a run stands; waits for a revision after the given one, or after the present one.

        Raises:
            NotFound: there is no such run, or none that the caller may read.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        run = await self._readable(invocation_id, caller=caller)
        seen = run.revision if after_revision is None else after_revision
        run, had_place = await self._watch.until(
            lambda run: run.revision > seen or run.phase.is_final,
            run=run,
            seconds=wait_seconds,
            caller=caller.name,
            progress=progress,
        )
        notes = [*(() if had_place else (_NO_PLACE,)), *self._links(run)]
        return invocation_answer(run, notes=notes, console_url=self._console_url)

    async def approve(
        self, invocation_id: str, *, decision: ApprovalDecision, reason: str, caller: Caller, digest: str = ""
    ) -> InvocationAnswer:
        """Approve or reject a run that has not begun, in the name of the caller.

        With the `digest` of its content an approval counts for that content alone.

        Raises:
            NotFound: there is no such run, or none that the caller may know of.
            NotAllowed: the caller may not approve in its namespace.
            InvalidInput: it has begun or is over, or its content has another digest.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        run = await self._approvable(invocation_id, caller=caller)
        if run.phase not in (Phase.PENDING, Phase.AWAITING_APPROVAL):
            raise InvalidInput(
                f"{run.id} is {run.phase.state}, so that nothing is left to decide; see it with `formulary invocation "
                f"{run.id}`",
                field="invocation_id",
            )
        if digest and digest != run.content_digest:
            raise InvalidInput(
                f"digest {digest[:80]!r} is not that of the content of {run.id}, "
                f"{run.content_digest or 'which is not known yet'}; look at the content again, then approve what it is "
                "now",
                field="digest",
            )
        approval = NewApproval(
            digest=digest,
            invocation_id=run.id,
            namespace=run.namespace,
            decision=decision.value,
            approver=caller.name,
            reason=reason,
        )
        if (run_then := await self._approvals.add(approval)) is None:
            raise _not_found(invocation_id)
        word = "approval" if decision is ApprovalDecision.APPROVE else "rejection"
        return invocation_answer(
            run_then, notes=[f"the {word} is recorded; the run is looked at within seconds"], decided=True
        )

    def _links(self, run: Invocation) -> list[str]:
        """Where people read more of a run, if that is known here."""
        if not self._console_url:
            return []
        if run.phase is Phase.AWAITING_APPROVAL:
            return [f"a person decides at {waiting_link(self._console_url, run.id)}"]
        return [f"people read its story at {incident_link(self._console_url, run.trace_id)}"]

    async def _submit(
        self, request: InvocationRequest, *, context: ContextReference, caller: Caller
    ) -> tuple[Submitted, bool]:
        """The run as it was decided upon; and whether no cluster has checked it. A refusal goes into the trail."""
        record = Record.claimed(context)
        try:
            prepared = await self._preparation.prepare(request, reference=context, caller=caller, record=record)
            # A run that is known needs nobody to run it: a repeated request asks for its outcome.
            if request.idempotency_key and (known := await self._store.repeated(prepared.new)) is not None:
                return known, False
            new = await self._preparation.with_author(prepared.new)
            manifest, no_executor = None, None
            try:
                manifest = await self._preparation.own_manifest(prepared)
            except (NoExecutor, Unavailable) as error:
                no_executor = error  # what the rules forbid is refused by them, with an executor or without
            submitted = await self._store.submit(new, limits=self._limits, manifest=manifest, no_executor=no_executor)
        except FormularyError as error:
            await self._trail.refused(
                _REFUSED,
                caller=caller,
                reference=ContextReference(remediation_id=record.remediation_id, analysis=record.analysis),
                arguments=request.recorded(caller=caller.name),
                error=_without_values(error),
            )
            raise
        return submitted, manifest is not None

    async def _readable(self, invocation_id: str, *, caller: Caller) -> Invocation:
        run = await self._known(invocation_id)
        if run.requester == caller.name or await _may(caller, READ_INVOCATIONS, run=run):
            log_trace(run.trace_id)
            return run
        raise _not_found(invocation_id)

    async def _approvable(self, invocation_id: str, *, caller: Caller) -> Invocation:
        run = await self._known(invocation_id)
        try:
            await caller.require(APPROVE, namespace=run.namespace)
        except NotAllowed as error:
            known = ContextReference(remediation_id=run.remediation_id)
            await self._trail.refused(
                _REFUSED, caller=caller, reference=known, arguments={"invocation_id": run.id}, error=error
            )
            # Who may not even read it shall not learn that it is there.
            await self._readable(invocation_id, caller=caller)
            raise
        log_trace(run.trace_id)
        return run

    async def _known(self, invocation_id: str) -> Invocation:
        run = await self._store.find(invocation_id) if is_invocation_id(invocation_id) else None
        if run is None:
            raise _not_found(invocation_id)
        return run


def _is_settled(run: Invocation) -> bool:
    return run.phase.is_final or run.phase is Phase.AWAITING_APPROVAL


def _raise_failure(run: Invocation) -> None:
    if run.phase is Phase.TIMED_OUT:
        raise RunTimedOut(f"{run.id} timed out after {run.timeout_seconds:g} s: {run.message}", invocation_id=run.id)
    if run.phase is Phase.FAILED and run.reason in (Reason.DENIED, Reason.REJECTED):
        raise RunRefused(f"{run.id} was not run. {run.message}", invocation_id=run.id, decision=run.decision)
    if run.phase is Phase.HALTED and run.started_at is None:
        raise RunRefused(f"{run.id} was not run. {run.message}", invocation_id=run.id, decision=run.decision)
    if run.phase in (Phase.FAILED, Phase.CANCELLED, Phase.HALTED):
        raise RunFailed(f"{run.id} {run.phase.state} ({run.reason}): {run.message}", invocation_id=run.id)


def _notes(run: Invocation, *, submitted: Submitted, unchecked: bool, waited: float) -> Iterable[str]:
    if submitted.repeated:
        yield "repeated: true; the idempotency_key was sent before, and this is its run"
    elif unchecked:
        yield "no cluster has checked the manifest, since no executor is connected"
    if not _is_settled(run) and waited:
        yield f"it is still running after {waited:g} s"


def _how_a_person_runs(run: Invocation) -> str:
    return (
        "nothing is run here (execution.mode is off), so this is a dry run. A person with rights in namespace "
        f"{run.namespace} runs it: read the steps with get_workflow_details, save `manifest` to run.json, create any "
        "Secret that it names, then `kubectl create -f run.json`"
    )


def _without_values(error: FormularyError) -> FormularyError:
    """The error as the trail may keep it: what was given may be secret, the broken rules are not."""
    if not isinstance(error, InputRefused):
        return error
    rules = "; ".join(f"{problem['field']}: {problem['rule']}" for problem in error.problems)
    return InputRefused(f"the input is invalid: {rules}", problems=())


async def _may(caller: Caller, right: Right, *, run: Invocation) -> bool:
    return await caller.access.allows(right, namespace=run.namespace)


def _not_found(invocation_id: str) -> NotFound:
    return NotFound(
        f"invocation {invocation_id[:60]!r} is not found among those that you may read; take its id from an "
        "earlier answer",
        reference=invocation_id,
    )
