"""The read side of the catalog, for every edge: search, details, listing, selection."""

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.analysis import constraints_of
from formulary_catalog.domain.answers import (
    SearchAnswer,
    SelectionReceipt,
    WorkflowDetails,
    WorkflowList,
    WorkflowVersion,
)
from formulary_catalog.domain.identity import WorkflowReference, parse_reference
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.domain.matching import allowed
from formulary_catalog.domain.presenting import workflow_details, workflow_summary
from formulary_catalog.domain.presenting import workflow_id as qualified_id
from formulary_catalog.domain.request import MAX_REASONING_LENGTH, ContextReference, SearchRequest, wire_name
from formulary_catalog.domain.workflow import RemediationWorkflow
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import FormularyError, InvalidInput, NotFound
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.contexts import ContextResolver
from formulary_catalog.search.parsed import ParsedWorkflows
from formulary_catalog.search.scope import Scope, Scoping
from formulary_catalog.search.searcher import Fit, Searcher
from formulary_catalog.search.trail import OK, Record, Trail
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.audit import AuditLog
from formulary_catalog.store.contexts import ContextReader
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.search import SearchStore
from formulary_catalog.store.workflows import HistoryLine, StoredVersion, WorkflowReader


def _whole(answer: SearchAnswer) -> SearchAnswer:
    return answer


class CatalogService:
    """Answers callers; every failure is a `FormularyError`, every call leaves an audit row."""

    def __init__(self, *, database: Database, settings: Settings, policy: ContextPolicy, metrics: Metrics) -> None:
        self._database = database
        self._workflows = WorkflowReader(database)
        self._audit = AuditLog(database)
        self._trail = Trail(self._audit)
        contexts = ContextResolver(
            reader=ContextReader(database),
            policy=policy,
            wait_seconds=settings.context_wait_seconds,
            metrics=metrics,
        )
        self._scoping = Scoping(contexts=contexts, shared_namespace=settings.catalog_namespace)
        self._strict_keys = settings.strict_custom_labels
        self._parsed = ParsedWorkflows()
        self._searcher = Searcher(
            store=SearchStore(database),
            scoping=self._scoping,
            parsed=self._parsed,
            strict_keys=self._strict_keys,
            metrics=metrics,
        )
        self._metrics = metrics

    @classmethod
    async def create(
        cls, *, dsn: str, settings: Settings, policy: ContextPolicy, metrics: Metrics, embedder: Embedder | None = None
    ) -> "CatalogService":
        """Connect as the server's role.

        Raises:
            StartupError, Unavailable: the database is not usable.
        """
        service = await cls.unconnected(dsn=dsn, settings=settings, policy=policy, metrics=metrics)
        await service.connect()
        service.use_embedder(embedder)
        return service

    @classmethod
    async def unconnected(
        cls, *, dsn: str, settings: Settings, policy: ContextPolicy, metrics: Metrics
    ) -> "CatalogService":
        """The catalog of a database that need not be there yet: calls raise `Unavailable` until it is."""
        database = await Database.unconnected(dsn, role=Role.SERVER, size=settings.pool_size)
        return cls(database=database, settings=settings, policy=policy, metrics=metrics)

    async def connect(self) -> None:
        """Make a first connection, to find out early why there can be none.

        Raises:
            StartupError, Unavailable: the database is not usable.
        """
        await self._database.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self._database.close()

    @property
    def embedder(self) -> Embedder | None:
        """The embedder in use; None while searches run in `lexical` mode."""
        return self._searcher.embedder

    @property
    def ranks_by_meaning(self) -> bool:
        """Whether there is an embedder and its last query worked."""
        return self._searcher.embedder is not None and self._searcher.embedder_works

    def use_embedder(self, embedder: Embedder | None) -> None:
        """Start or stop ranking by meaning."""
        self._searcher.embedder, self._searcher.embedder_works = embedder, True
        self._metrics.set_embedder_up(embedder is not None)

    async def search(self, request: SearchRequest, *, caller: Caller, fit: Fit = _whole) -> SearchAnswer:
        """The allowed workflows that fit best (DESIGN section 5), as `fit` leaves them for the caller's edge.

        Raises:
            ContextError: the incident is required and missing, unknown or contradictory.
            NotAllowed: the caller may not use the incident, or may see no namespace of the call.
            InvalidInput: custom labels of the request contradict the context.
            Unavailable: the database does not answer, the caller's rights cannot be checked, or the audit row could
                not be written.
        """
        search_id = uuid4()
        started = time.perf_counter()
        mode, outcome = "none", "failed"
        try:
            async with self._trail.record(
                "search", caller=caller, reference=request.context, arguments=_arguments(request), search_id=search_id
            ) as record:
                answer = await self._searcher.search(
                    request, caller=caller, search_id=search_id, record=record, fit=fit
                )
            mode, outcome = answer.search_mode, OK
            return answer
        except FormularyError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._metrics.count_search(mode, outcome)
            self._metrics.observe_phase("total", time.perf_counter() - started)

    async def details(
        self, workflow_id: str, *, context: ContextReference, caller: Caller, version: str = ""
    ) -> WorkflowDetails:
        """Everything about one workflow, named in any form of DESIGN section 3, if the incident allows it.

        Raises:
            NotFound: no visible, allowed workflow has that name.
            InvalidInput: the name is malformed, or needs a namespace.
            ContextError, NotAllowed, Unavailable: as `search`.
        """
        arguments = {"workflow_id": workflow_id, "version": version}
        async with self._trail.record("details", caller=caller, reference=context, arguments=arguments) as record:
            found, workflow, history = await self._find(
                workflow_id, version=version, reference=context, caller=caller, record=record
            )
            record.result = {"version_id": found.version_id}
            return workflow_details(
                workflow,
                namespace=found.namespace,
                version_id=found.version_id,
                ambiguous=found.ambiguous,
                status=found.status,
                versions=[
                    WorkflowVersion(version=line.version, version_id=line.version_id, status=line.status)
                    for line in history
                ],
            )

    async def list_workflows(
        self, *, context: ContextReference, caller: Caller, limit: int = 100, offset: int = 0
    ) -> WorkflowList:
        """The workflows that the caller may see and the incident allows, in name order.

        Raises:
            ContextError, NotAllowed, Unavailable: as `search`.
        """
        arguments = {"limit": limit, "offset": offset}
        async with self._trail.record("list", caller=caller, reference=context, arguments=arguments) as record:
            scope = await self._scoping.of(context, caller=caller, record=record)
            constraints = self._constraints(scope)
            served, total = await self._workflows.served(
                constraints=constraints, namespaces=scope.namespaces, limit=limit, offset=offset
            )
            listed = [(stored, workflow) for stored in served if (workflow := self._allowed(stored, constraints))]
            record.result = {"total": total}
            return WorkflowList(
                workflows=[
                    workflow_summary(
                        workflow,
                        namespace=stored.namespace,
                        version_id=stored.version_id,
                        ambiguous=stored.ambiguous,
                    )
                    for stored, workflow in listed
                ],
                total_results=total,
            )

    async def record_selection(
        self,
        *,
        workflow_id: str,
        reasoning: str,
        context: ContextReference,
        caller: Caller,
        version: str = "",
        search_id: str = "",
        confidence: float | None = None,
    ) -> SelectionReceipt:
        """Write the caller's choice and its reasons into the audit trail.

        Raises:
            InvalidInput: no reasoning, or a search id that is not one of this caller's for this incident.
            NotFound, ContextError, NotAllowed, Unavailable: as `details`.
        """
        arguments = {
            "workflow_id": workflow_id,
            "version": version,
            "reasoning": reasoning,
            "search_id": search_id,
            "confidence": confidence,
        }
        async with self._trail.record(
            "selection", caller=caller, reference=context, arguments=arguments, search_id=_uuid(search_id)
        ) as record:
            _check_judgement(reasoning=reasoning, confidence=confidence)
            found, _, _ = await self._find(
                workflow_id, version=version, reference=context, caller=caller, record=record
            )
            await self._check_search(search_id, caller=caller, remediation_id=record.remediation_id)
            record.result = {"version_id": found.version_id, "namespace": found.namespace}
            return SelectionReceipt(
                recorded=True,
                workflow_id=qualified_id(namespace=found.namespace, name=found.name, ambiguous=found.ambiguous),
                version=found.version,
                version_id=found.version_id,
                search_id=search_id,
            )

    async def refused(
        self,
        action: str,
        *,
        arguments: Mapping[str, Any],
        context: ContextReference,
        caller: Caller,
        error: FormularyError,
    ) -> None:
        """Leave an audit row for a call that an edge refused before it reached us."""
        await self._trail.refused(action, caller=caller, reference=context, arguments=arguments, error=error)

    async def uses_clusters(self) -> bool:
        """Whether some workflow declares `labels.cluster`."""
        return await self._workflows.uses_clusters()

    async def check_database(self) -> None:
        """Ask the database, past the pool: a busy pool is no outage.

        Raises:
            Unavailable: it does not answer.
        """
        await self._database.ping()

    async def counts(self) -> dict[str, int]:
        """Workflow versions by status.

        Raises:
            Unavailable: it does not.
        """
        return await self._workflows.counts()

    async def _find(
        self, workflow_id: str, *, version: str, reference: ContextReference, caller: Caller, record: Record
    ) -> tuple[StoredVersion, RemediationWorkflow, list[HistoryLine]]:
        """The one workflow that a name means under the incident's constraints, with its history."""
        wanted = parse_reference(workflow_id, version=version)
        scope = await self._scoping.of(reference, caller=caller, record=record)
        constraints = self._constraints(scope)
        candidates = await self._workflows.find(wanted, namespaces=scope.namespaces)
        found = [
            (stored, workflow, history)
            for stored, history in candidates
            if (workflow := self._allowed(stored, constraints)) is not None
        ]
        if not found:
            raise _not_found(wanted)
        if len(found) > 1:
            names = ", ".join(f"{stored.namespace}/{stored.name}" for stored, _, _ in found)
            raise InvalidInput(
                f"workflow_id {workflow_id!r} exists in {len(found)} namespaces; name one: {names}", field="workflow_id"
            )
        return found[0]

    def _constraints(self, scope: Scope) -> Constraints:
        context = scope.context
        return constraints_of(context, strict_keys=self._strict_keys) if context is not None else Constraints()

    def _allowed(self, stored: StoredVersion, constraints: Constraints) -> RemediationWorkflow | None:
        if not self._parsed.readable(stored.version_id, stored.document):
            return None
        workflow, labels = self._parsed.get(stored.version_id, stored.document)
        return workflow if allowed(labels, constraints) else None

    async def _check_search(self, search_id: str, *, caller: Caller, remediation_id: str) -> None:
        if not search_id:
            return
        known = _uuid(search_id)
        if known is None or not await self._audit.search_recorded(
            known, caller=caller.name, remediation_id=remediation_id
        ):
            raise InvalidInput(
                "search_id names no recorded search; copy the search_id of the answer you chose from, or leave it out",
                field="search_id",
            )


def _check_judgement(*, reasoning: str, confidence: float | None) -> None:
    if not reasoning.strip() or len(reasoning) > MAX_REASONING_LENGTH:
        raise InvalidInput(
            f"reasoning has {len(reasoning)} characters; say in 1 to {MAX_REASONING_LENGTH} why you chose this one",
            field="reasoning",
        )
    if confidence is not None and not 0 <= confidence <= 1:
        raise InvalidInput(f"confidence {confidence} is out of bounds; give 0 to 1", field="confidence")


def _not_found(reference: WorkflowReference) -> NotFound:
    return NotFound(
        f"workflow {str(reference)!r} is not found among the workflows allowed here; take workflow_id from a search "
        "result, retrying unchanged will fail again",
        reference=str(reference),
    )


def _arguments(request: SearchRequest) -> dict[str, Any]:
    """What the caller asked, for the audit trail; values of custom labels stay out."""
    return {
        "query": request.query,
        "labels": {wire_name(dimension): list(values) for dimension, values in request.labels.items()},
        "exclude_keywords": list(request.exclude_keywords),
        "min_confidence": request.min_confidence,
        "top_k": request.top_k,
        "own_embedding": request.embedding is not None,
    }


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
