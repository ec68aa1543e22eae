"""Everything that runs workflows, put together: invocations, the rules for them and the approvals of them.

`runtime` builds one `RunWiring`, calls its reconcilers by kind and keeps its works going; `resync` asks it which kinds
are served, what is settled and what the database holds. The parts are built here once, so that they share one queue and
one writer of runs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any

import structlog

from formulary_catalog.domain.runs.facts import UnknownAuthors
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.runs.submission import RunRules
from formulary_catalog.errors import FormularyError, StartupError
from formulary_catalog.loading.targets import read_context_mapping
from formulary_catalog.settings import ExecutionMode
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.runs.approvals import ApprovalStore
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.executors import ExecutorWriter
from formulary_catalog.store.runs.halting import HaltReader
from formulary_catalog.store.runs.input_keys import input_keys
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.verification import VerificationStore
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_operator.access.authorization import Authorizer
from formulary_operator.access.reviews import Reviewer
from formulary_operator.access.targets import KubernetesTargets
from formulary_operator.api.names import APPROVALS, CONTRACTS, INVOCATIONS, Json, Resource
from formulary_operator.engines import ENGINES
from formulary_operator.governance.reconciler import ContractReconciler
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.kube.events import EventRecorder
from formulary_operator.measuring import Measuring
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.notifying import Notifying
from formulary_operator.reporting import Reporter
from formulary_operator.runs.approvals import ApprovalReconciler
from formulary_operator.runs.execution import RunExecution
from formulary_operator.runs.expiry import RunExpiry
from formulary_operator.runs.permits import Permits
from formulary_operator.runs.permitting import RunPolicy
from formulary_operator.runs.poller import RunPoller
from formulary_operator.runs.reconciler import InvocationReconciler
from formulary_operator.runs.status import awaits_outcome, is_answered, is_settled
from formulary_operator.runs.submission import RunSubmission
from formulary_operator.runs.targets import RunTargets
from formulary_operator.runs.verifying import RunVerifier
from formulary_operator.settings import OperatorSettings
from formulary_operator.watch.queue import RUN_KINDS, ObjectKey, WorkQueue

_ANNOUNCE_SECONDS = 15.0
_KINDS_SECONDS = 30.0
_ALWAYS_THERE = "job"
_log = structlog.get_logger(__name__)

Key = tuple[str, str]
Reconcile = Callable[..., Awaitable[str]]


class RunWiring:
    """Runs what is asked for, as far as the rules allow. `name` is that of all replicas of this operator."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        name: str,
        client: KubeClient,
        database: Database,
        events: EventRecorder,
        metrics: OperatorMetrics,
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self.kinds: tuple[Resource, ...] = ()
        """The kinds of objects of runs that are watched: none until `find_kinds`, and then all or none."""
        self._settings = settings
        self._name = name
        self._client = client
        self._runs = RunWriter(
            database,
            shared_namespace=settings.catalog_namespace,
            keys=input_keys(settings),
            strict_keys=settings.strict_custom_labels,
            harmless=settings.harmless_environments,
        )
        self._notifying = Notifying(
            settings.notifications,
            sender=name,
            database=database,
            metrics=metrics,
            console_url=settings.console_url,
        )
        self._contracts = ContractWriter(database, shared_namespace=settings.catalog_namespace)
        self._approvals = ApprovalStore(database)
        self._executors = ExecutorWriter(database)
        self._poller = RunPoller(
            runs=self._runs,
            halts=HaltReader(database),
            queue=queue,
            metrics=metrics,
            namespaces=settings.watch_namespaces,
        )
        self.expiry = RunExpiry(settings, client=client, database=database, metrics=metrics)
        authorizer = Authorizer(Reviewer(client), clock=time.monotonic)
        policy = _policy(settings)
        self._unknown_authors = policy.unknown_authors
        permits = Permits(client=client, policy=policy, admissions=AdmissionRecords(database), authorizer=authorizer)
        reader, alerts = KubernetesTargets(client), AlertReader(database)
        self._verifier = RunVerifier(
            store=VerificationStore(database),
            alerts=alerts,
            targets=reader,
            measuring=Measuring(settings.outcome_queries),
            namespaces=settings.watch_namespaces,
            decided=self._report,
        )
        targets = RunTargets(
            reader,
            mapping=read_context_mapping(settings.context_file),
            of_objects=settings.context_target == "kubernetes",
            alerts=alerts,
        )
        requests = RunSubmission(
            database,
            runs=self._runs,
            permits=permits,
            authorizer=authorizer,
            targets=targets,
            runs_namespace=settings.runs_namespace,
            rules=RunRules(
                shared_namespace=settings.catalog_namespace,
                strict_keys=settings.strict_custom_labels,
                tekton_bundles=settings.tekton_bundles,
                argo_templates=settings.argo_templates,
            ),
        )
        execution = RunExecution(
            client=client,
            runs=self._runs,
            permits=permits,
            targets=targets,
            verifier=self._verifier,
            engines=settings.engines,
            default_image=settings.default_image,
            default_user=settings.run_as_user,
            argo_strict=settings.argo_strict,
        )

        def reporter(resource: Resource) -> Reporter:
            return Reporter(resource, client=client, events=events, metrics=metrics)

        self.reconcilers: Mapping[str, Reconcile] = {
            INVOCATIONS.plural: InvocationReconciler(
                client=client,
                runs=self._runs,
                requests=requests,
                execution=execution,
                permits=permits,
                targets=targets,
                reporter=reporter(INVOCATIONS),
                metrics=metrics,
                console_url=settings.console_url,
            ).reconcile,
            CONTRACTS.plural: ContractReconciler(
                client=client,
                contracts=self._contracts,
                admissions=AdmissionRecords(database),
                reporter=reporter(CONTRACTS),
                poller=self._poller,
            ).reconcile,
            APPROVALS.plural: ApprovalReconciler(
                client=client,
                approvals=self._approvals,
                runs=self._runs,
                admissions=AdmissionRecords(database),
                reporter=reporter(APPROVALS),
                poller=self._poller,
            ).reconcile,
        }

    async def find_kinds(self) -> None:
        """Find out whether the kinds for runs are there for us; serving a catalog does not wait for them."""
        if not self._runs_something:
            return
        if reason := await self._why_not_served():
            _log.warning("nothing_is_run", reason=reason)
        else:
            self.kinds = RUN_KINDS

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be done all the time so that workflows are run, or until they can be."""
        if self.kinds:
            works = [self._poller.keep_looking(), self._verifier.keep_verifying(), self._keep_announcing()]
            return [*works, *self._notifying.works()]
        # What ran before runs were switched off has an outcome, too.
        works = [self._verifier.keep_verifying(), *self._notifying.works()]
        if self._runs_something:
            return [*works, self._until_kinds_are_served()]
        return [*works, self._poller.keep_ending(runs_namespace=self._settings.runs_namespace)]

    def _report(self, run: Invocation) -> None:
        """Have the object of a run say what its row says."""
        if self.kinds:
            self._poller.look_at(run)

    @property
    def _runs_something(self) -> bool:
        return self._settings.execution is not ExecutionMode.OFF

    async def _why_not_served(self) -> str:
        """Why the kinds are not there for us; empty if they are."""
        somewhere = next(iter(self._settings.watch_namespaces), "")
        for resource in RUN_KINDS:
            try:
                if not await self._client.serves(resource.path(namespace=somewhere)):
                    return f"the cluster does not serve {resource.plural}.{resource.group}; apply its CRD"
            except KubernetesRefused as error:
                return str(error)
        return ""

    async def _until_kinds_are_served(self) -> None:
        while True:
            if not await self._why_not_served():  # at once, too: a standby may have started long ago
                raise StartupError("the kinds for running workflows are there now; a restart begins to run them")
            await asyncio.sleep(_KINDS_SECONDS)

    async def _keep_announcing(self) -> None:
        """Say again and again that we are there, and what the server must know of us to answer as we shall judge."""
        while True:
            try:
                await self._executors.announce(
                    name=self._name,
                    engines=await self._served_engines(),
                    namespaces=self._settings.watch_namespaces,
                    unknown_authors=self._unknown_authors,
                )
            except Superseded:
                raise
            except FormularyError as error:
                _log.warning("executor_not_announced", reason=str(error))
            await asyncio.sleep(_ANNOUNCE_SECONDS)

    async def stored(self, resource: Resource) -> Collection[Key]:
        """What the database holds of objects of a kind that may be gone; runs are followed anyway."""
        if resource is CONTRACTS:
            return list(await self._contracts.stored())
        return list(await self._approvals.of_objects()) if resource is APPROVALS else ()

    @staticmethod
    def is_settled(resource: Resource, document: Json) -> bool:
        """Whether nothing is left to do about an object, as far as it says."""
        if resource is INVOCATIONS:
            return is_settled(document) and not awaits_outcome(document)
        return resource is APPROVALS and is_answered(document)

    async def _served_engines(self) -> list[str]:
        """The engines of the settings whose objects the cluster knows."""
        return [
            name
            for name in self._settings.engines
            if name == _ALWAYS_THERE or await self._client.offers(ENGINES[name].resource)
        ]


def _policy(settings: OperatorSettings) -> RunPolicy:
    return RunPolicy(
        shared_namespace=settings.catalog_namespace,
        own_namespace=settings.release_namespace or settings.lease_namespace,
        images=settings.allowed_images,
        digests=settings.require_digests,
        unknown_authors=_unknown_authors(settings),
        trusted_authors=settings.trusted_authors,
        tekton_bundles=settings.tekton_bundles,
        argo_templates=settings.argo_templates,
        supervised=settings.execution is ExecutionMode.APPROVE,
    )


def _unknown_authors(settings: OperatorSettings) -> UnknownAuthors:
    if settings.proven_authors:
        return UnknownAuthors.REFUSE
    # Without the webhook nobody is seen; then no author is known, and nothing follows from that.
    return UnknownAuthors.APPROVE if settings.webhook_port else UnknownAuthors.RUN
