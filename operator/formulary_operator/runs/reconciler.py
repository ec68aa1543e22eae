"""One WorkflowInvocation: its object and the row of its run, kept in step while the run is brought on.

The work queue calls it. The row is authoritative. `runs/submission` makes a row for an object that a person created,
and an object is made for a row of the server.
"""

import structlog

from formulary_catalog.domain.runs.run import Invocation, Phase, Reason, Source
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_operator.api.names import INVOCATIONS, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.reporting import Reporter, timestamp
from formulary_operator.runs.execution import RunExecution
from formulary_operator.runs.permits import NotPermitted, Permits
from formulary_operator.runs.status import (
    RunRefusal,
    change,
    desired_object,
    is_of_the_server,
    owner_of,
    refused_status,
    run_status,
    stands_for,
)
from formulary_operator.runs.submission import RunSubmission
from formulary_operator.runs.targets import RunTargets

_log = structlog.get_logger(__name__)


class InvocationReconciler:
    """Brings runs on. The row is authoritative: what somebody writes into the object later changes nothing."""

    def __init__(
        self,
        *,
        client: KubeClient,
        runs: RunWriter,
        requests: RunSubmission,
        execution: RunExecution,
        permits: Permits,
        targets: RunTargets,
        reporter: Reporter,
        metrics: OperatorMetrics,
        console_url: str,
    ) -> None:
        self._client = client
        self._runs = runs
        self._requests = requests
        self._execution = execution
        self._permits = permits
        self._targets = targets
        self._reporter = reporter
        self._metrics = metrics
        self._console_url = console_url

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring the run of one object as far as it goes now. Where it stands then, or `Gone`.

        Raises:
            NotYet, Unavailable: try again later.
        """
        document = await self._client.get(INVOCATIONS.path(namespace=namespace, name=name))
        if document is not None and "deletionTimestamp" in document["metadata"]:
            document = None
        waiting = await self._without_former(document, namespace=namespace, name=name)
        if document is None:
            waiting += await self._runs.unreported(namespace=namespace, name=name)
            return await self._without_object(waiting)
        run = await self._run_of(document)
        if run is None:
            return "Ended"
        if isinstance(run, RunRefusal):
            wanted = refused_status(document, run, now=timestamp())
            await self._reporter.report(document, wanted, change=change(document, wanted))
            return run.reason.value
        return await self._bring_on(run, document)

    async def _without_former(self, document: Json | None, *, namespace: str, name: str) -> list[Invocation]:
        """Cancel the runs of former objects of this name; those that are left and not over."""
        uid = document["metadata"]["uid"] if document is not None else ""
        left = []
        for run in await self._runs.active_of(namespace=namespace, name=name):
            if run.object_uid in ("", uid):
                left.append(run)
            else:
                self._report_end(run, await self._execution.cancel(run))
        return left

    async def _without_object(self, waiting: list[Invocation]) -> str:
        """Give a run of the server its object: a new one, or one that was denied at once."""
        outcome = "Gone"
        for run in waiting:
            document = await self._create(run)
            outcome = await self._bring_on(run, document) if document is not None else Phase.FAILED.value
        return outcome

    async def _create(self, run: Invocation) -> Json | None:
        """The object of a run; None if there can be none, which ends the run."""
        try:
            return await self._client.create(INVOCATIONS.path(namespace=run.namespace), desired_object(run))
        except KubernetesRefused as error:
            if error.status == 409:
                raise  # one of this name was made just now, or is about to go: the next look shows which
            if run.phase.is_final:
                _log.warning("denied_run_not_recorded", invocation=run.id, namespace=run.namespace, reason=str(error))
                await self._runs.note_no_object(run.id)
                return None
            missing = error.status == 404 and error.about == run.namespace
            reason = Reason.NAMESPACE_NOT_FOUND if missing else Reason.START_FAILED
            problem = f"there is no namespace {run.namespace}" if missing else str(error)
            ended = await self._runs.finish(
                run.id, phase=Phase.FAILED, reason=reason, message=f"the run could not be recorded: {problem}"
            )
            self._report_end(run, ended)
            return None

    async def _run_of(self, document: Json) -> Invocation | RunRefusal | None:
        """The run of an object, or why it has none; None where there is nothing to say."""
        run = await self._runs.find(document["metadata"]["name"]) if is_of_the_server(document) else None
        if run is not None and run.source is Source.SERVER and run.namespace == document["metadata"]["namespace"]:
            return await self._adopted(run, document)
        return await self._requests.run_of(document)

    async def _adopted(self, run: Invocation, document: Json) -> Invocation | RunRefusal:
        if stands_for(document, run):
            return run
        message = f"another object has the name of run {run.id}, so that it cannot be recorded; delete that object"
        if not run.phase.is_final and not run.object_uid:
            ended = await self._runs.finish(run.id, phase=Phase.FAILED, reason=Reason.START_FAILED, message=message)
            self._report_end(run, ended)
        return RunRefusal(
            reason=Reason.INPUT_INVALID, message="metadata.name: is the id of a run of the server; rename it"
        )

    async def _bring_on(self, run: Invocation, document: Json) -> str:
        now = await self._step(run, document)
        if now.phase.is_final and not run.phase.is_final:
            self._report_end(run, now)
        wanted = run_status(document, now, now=timestamp())
        event = change(document, wanted, console_url=self._console_url)
        await self._reporter.report(document, wanted, change=event)
        return now.phase.value

    async def _step(self, run: Invocation, document: Json) -> Invocation:
        if not run.object_uid:
            await self._runs.note_object(run.id, uid=document["metadata"]["uid"])
        if run.phase.is_final:
            return run
        if run.phase is not Phase.RUNNING:
            try:
                known = await self._permits.known(run)
            except NotPermitted as error:  # whoever approved it would do so in vain
                ended = await self._runs.finish(run.id, phase=Phase.FAILED, reason=error.reason, message=str(error))
                return ended or run
            # One that waits is looked at every few seconds, and again right before it starts.
            target = await self._targets.context_of(run, kept=run.phase is Phase.AWAITING_APPROVAL)
            content = self._execution.content(run)
            run = await self._runs.begin(run.id, content=content, known=known, target=target) or run
        if run.phase is not Phase.RUNNING:
            return run
        if run.halted:
            return await self._execution.halt(run)
        return await self._execution.advance(run, owner=owner_of(document))

    def _report_end(self, before: Invocation, ended: Invocation | None) -> None:
        now = ended or before
        self._metrics.count_run(now.phase.value)
        _log.info("run_ended", invocation=now.id, namespace=now.namespace, phase=now.phase.value, reason=now.reason)
