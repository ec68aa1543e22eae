"""What the services of one catalog share: its database, its trail, and how incidents and workflows are found.

Each process builds it once and closes it in the end: `runtime/` does both. `operations/services` gives every service
the parts that it needs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from formulary_catalog.domain.search.terms import query_terms
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.kernel.incidents import ContextResolver
from formulary_catalog.kernel.lookup import WorkflowFinder
from formulary_catalog.kernel.manifests import ParsedWorkflows
from formulary_catalog.kernel.names import NearestNames
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.kernel.search.notes import Halted
from formulary_catalog.kernel.search.pipeline import Searcher
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.kernel.trail import Trail
from formulary_catalog.kernel.visibility import Visibility
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.database.connection import DEADLINE, Database, Role
from formulary_catalog.store.incidents import ContextReader
from formulary_catalog.store.search.page import PageReader
from formulary_catalog.store.search.statement import CandidateReader
from formulary_catalog.store.workflows.names import NameReader
from formulary_catalog.store.workflows.reader import WorkflowReader


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogParts:
    """The shared parts. They hold caches, so two services of one process never build their own."""

    database: Database
    workflows: WorkflowReader
    traces: TraceStore
    trail: Trail
    contexts: ContextResolver
    targets: TargetContexts
    visibility: Visibility
    parsed: ParsedWorkflows
    finder: WorkflowFinder
    halted: Halted
    vectors: QueryVectors
    searcher: Searcher
    """What ranks, for searches, explanations and coverage."""
    metrics: Metrics

    @classmethod
    @asynccontextmanager
    async def unconnected(
        cls,
        *,
        dsn: str,
        settings: Settings,
        policy: ContextPolicy,
        metrics: Metrics,
        targets: TargetContexts | None = None,
        deadline: float = DEADLINE,
    ) -> AsyncIterator[Self]:
        """The parts on a database that need not be there yet; at the end of the block it is disconnected.

        Calls raise `Unavailable` until it is there. `deadline` is in seconds, for each question to the database.
        """
        database = await Database.unconnected(dsn, role=Role.SERVER, size=settings.pool_size, deadline=deadline)
        query_terms("warming up")  # reads the synonyms now, and not in the middle of the first search
        parts = cls.on(database, settings=settings, policy=policy, metrics=metrics, targets=targets)
        try:
            yield parts
        finally:
            await database.close()
            parts.vectors.close()

    @classmethod
    def on(
        cls,
        database: Database,
        *,
        settings: Settings,
        policy: ContextPolicy,
        metrics: Metrics,
        targets: TargetContexts | None = None,
    ) -> Self:
        """The parts of the catalog in this database. Nothing is asked of it yet. Without `targets` none are read."""
        workflows, traces = WorkflowReader(database), TraceStore(database)
        targets = targets or TargetContexts(None, mapping=DEFAULT_MAPPING)
        contexts = ContextResolver(
            reader=ContextReader(database),
            alerts=AlertReader(database),
            targets=targets,
            policy=policy,
            wait_seconds=settings.context_wait_seconds,
            metrics=metrics,
        )
        visibility = Visibility(
            contexts=contexts, shared_namespace=settings.catalog_namespace, readable=ReadableNamespaces(database)
        )
        parsed, halted = ParsedWorkflows(metrics=metrics), Halted(database)
        names = NameReader(database)
        finder = WorkflowFinder(
            workflows=workflows,
            nearest=NearestNames(names),
            visibility=visibility,
            parsed=parsed,
            strict_keys=settings.strict_custom_labels,
        )
        vectors = QueryVectors(metrics=metrics, at_once=settings.calls_at_once)
        return cls(
            database=database,
            workflows=workflows,
            traces=traces,
            trail=Trail(traces, strict_keys=settings.strict_custom_labels),
            contexts=contexts,
            targets=targets,
            visibility=visibility,
            parsed=parsed,
            finder=finder,
            halted=halted,
            vectors=vectors,
            searcher=Searcher(
                candidates=CandidateReader(database),
                pages=PageReader(database),
                visibility=visibility,
                vectors=vectors,
                finder=finder,
                names=names,
                parsed=parsed,
                halted=halted,
                strict_keys=settings.strict_custom_labels,
                metrics=metrics,
            ),
            metrics=metrics,
        )
