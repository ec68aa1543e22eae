"""From what a caller asks for to a run that can be decided upon; everything that can be refused is refused here.

`services/runs/service` calls it. It finds the workflow under the constraints of the incident, checks the right of the
caller and has `domain/runs/submission` build the run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from formulary_catalog.domain.access import INVOKE, Caller
from formulary_catalog.domain.incidents import constraints_of
from formulary_catalog.domain.runs.facts import UnknownAuthors, target_of, why_author_refused
from formulary_catalog.domain.runs.run import NewInvocation, Source, id_of_request, idempotency_digest
from formulary_catalog.domain.runs.submission import RequestedRun, RunRules, new_run, why_no_run_here
from formulary_catalog.domain.runs.target_input import bound_input, named_namespaces, named_objects
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.errors import NoExecutor, NotInvocable, Unavailable
from formulary_catalog.kernel.lookup import FoundWorkflow, WorkflowFinder, own_search, with_target_of_search
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.kernel.trail import Record
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.settings import ExecutionMode
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.runs.executors import ExecutorReader

_GROUP = "formulary.engines"
"""Entry points from the name of an engine to what builds its manifest: only engines know Kubernetes."""

_Builder = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that can be asked for, of the workflow that was found."""

    new: NewInvocation
    found: FoundWorkflow


class Preparation:
    """Turns requests into runs."""

    def __init__(
        self,
        *,
        finder: WorkflowFinder,
        traces: TraceStore,
        targets: TargetContexts,
        executors: ExecutorReader,
        runs_namespace: str,
        own_namespace: str,
        rules: RunRules,
        mode: ExecutionMode,
    ) -> None:
        self._finder = finder
        self._traces = traces
        self._targets = targets
        self._executors = executors
        self._runs_namespace = runs_namespace
        self._own_namespace = own_namespace
        self._rules = rules
        self._mode = mode

    async def prepare(
        self, request: InvocationRequest, *, reference: ContextReference, caller: Caller, record: Record
    ) -> Prepared:
        """The run that is asked for, found and checked under the constraints of the incident.

        Raises:
            NotFound, ContextError: as `WorkflowFinder.find`.
            NotAllowed: the caller may not run workflows in the namespace.
            NotInvocable: the workflow cannot be run by anybody, or nothing may run in the namespace.
            InvalidInput: the input, the timeout or the search is not what it must be.
            Unavailable: the database does not answer.
        """
        reference = await with_target_of_search(
            reference, search_id=request.search_id, traces=self._traces, caller=caller
        )
        found = await self._finder.find(
            request.workflow_id, version=request.version, reference=reference, caller=caller, record=record
        )
        context, stored, workflow = found.scope.context, found.stored, found.parsed.workflow
        target = target_of(context)
        namespace = target.namespace or self._runs_namespace
        await caller.require(INVOKE, namespace=namespace)
        if because := why_no_run_here(namespace, own_namespace=self._own_namespace):
            raise NotInvocable(f"workflow {found.stored.workflow_id}@{stored.version} cannot be invoked: {because}")
        if because := found.parsed.not_invocable_because:
            raise NotInvocable(f"workflow {found.stored.workflow_id}@{stored.version} cannot be invoked: {because}")
        search_id = await own_search(self._traces, request.search_id, caller=caller.name, record=record)
        given = bound_input(workflow.spec, request.input, context=context)
        key = request.idempotency_key
        invocation_id = id_of_request(caller=caller.name, idempotency_key=key)
        new = new_run(
            RequestedRun(
                id=invocation_id,
                source=Source.SERVER,
                requester=caller.name,
                namespace=namespace,
                object_name=invocation_id,
                input=given,
                target=target,
                timeout_seconds=request.timeout_seconds(most=self._rules.max_timeout_seconds),
                remediation_id=record.remediation_id if context is not None else "",
                search_id=search_id,
                idempotency_key=idempotency_digest(caller=caller.name, idempotency_key=key),
                dry_run=request.dry_run,
            ),
            version=stored,
            workflow=workflow,
            context=context,
            allowed_here=True,  # else it had not been found
            rules=self._rules,
        )
        # As the run gets them: the text of a list has become a list.
        await self._require_accepted(found, values={**new.values, **new.secret}, namespace=namespace, caller=caller)
        return Prepared(new=new, found=found)

    async def _require_accepted(
        self, found: FoundWorkflow, *, values: Mapping[str, Any], namespace: str, caller: Caller
    ) -> None:
        """Refuse what the owners of another object that the run names do not accept.

        Nor may an incident allow what the owners of the namespaces that it runs in or names do not: who may write
        incidents has no right to that. The caller needs the right to `get` each namespace but that of the run: the
        answer says whether it exists, and that it excludes the workflow.
        """
        context, spec = found.scope.context, found.parsed.workflow.spec
        if context is None or not self._targets.are_read:
            return
        if context.analysis:
            home, *others = named_namespaces(spec, values, home=namespace)
            further = await self._targets.further(others, caller=caller)
            further += await self._targets.further([home], caller=None)
        else:
            named = named_objects(spec, values, context=context)
            further = await self._targets.further(named, caller=caller)
        for each in further:
            if not allowed(found.parsed.labels, constraints_of(each, strict_keys=self._rules.strict_keys)):
                raise NotInvocable(
                    f"workflow {found.stored.workflow_id}@{found.stored.version} cannot be invoked: the labels of "
                    f"{each.target} exclude it, which a parameter names; choose another workflow, or another object"
                )

    async def with_author(self, new: NewInvocation) -> NewInvocation:
        """The run with what is known of the author of its workflow, and of the mode, as the operator will judge it.

        Raises:
            NotInvocable: the author is unknown, and the operator runs nothing of unknown authors.
            Unavailable: the database does not answer.
        """
        on_author = await self._executors.on_author(
            namespace=new.namespace, workflow_namespace=new.workflow_namespace, version_id=new.version_id
        )
        if on_author is UnknownAuthors.REFUSE:
            raise NotInvocable(why_author_refused(f"{new.workflow_namespace}/{new.workflow_name}"))
        unauthored, supervised = on_author is UnknownAuthors.APPROVE, self._mode is ExecutionMode.APPROVE
        return replace(new, facts={**new.facts, "unauthored": unauthored, "supervised": supervised})

    async def own_manifest(self, prepared: Prepared) -> Mapping[str, Any] | None:
        """What a dry run would create, where there is no executor to ask or none is to run anything; else None.

        Raises:
            NoExecutor: nothing runs workflows here, or nothing with the engine of this one.
            Unavailable: the executor or the database does not answer.
        """
        new, found = prepared.new, prepared.found
        if self._mode is ExecutionMode.OFF:
            return _manifest_of(new, found.parsed.workflow)
        executors = await self._executors.present()
        engine = found.parsed.workflow.spec.execution.engine
        if engine in executors.engines:
            return None
        if executors.alive:
            raise NoExecutor(
                f"no executor for the engine {engine}, which workflow {found.stored.workflow_id} needs: here is "
                f"{', '.join(sorted(executors.engines)) or 'none'}; choose another workflow, or ask "
                "the administrator of the operator to enable it"
            )
        if new.dry_run:
            return _manifest_of(new, found.parsed.workflow)
        if executors.known:
            raise Unavailable("the executor has not reported for a minute, nothing was run; retry in a minute")
        raise NoExecutor(
            "no executor: nothing here runs workflows, since no operator is connected to this catalog; ask with "
            "dry_run true for what would run, or install the operator into a cluster"
        )


def _manifest_of(new: NewInvocation, workflow: RemediationWorkflow) -> Mapping[str, Any]:
    """The object that would run the invocation, as no cluster has seen it.

    Raises:
        NoExecutor: nothing here knows the engine.
        NotInvocable, InvalidInput: the engine cannot run the workflow, or not with these values.
    """
    build = engine_builder(workflow.spec.execution.engine)
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
def engine_builder(engine: str) -> _Builder:
    """What makes the manifest of a run of this engine.

    Raises:
        NoExecutor: nothing here knows the engine.
    """
    for found in entry_points(group=_GROUP, name=engine):
        builder: _Builder = found.load()
        return builder
    raise NoExecutor(
        f"no executor for the engine {engine} is installed with this server, so that it cannot show what a run would "
        "create; install the formulary distribution as a whole"
    )
