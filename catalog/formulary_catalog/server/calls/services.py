"""The services that the edges call, together, and the time until they are there.

`server.app`, `formulary stdio` and `formulary governance` build them with `Services.on`, on the parts of one catalog.
Over stdio a client connects before the catalog is open: `Opening` lets its calls wait.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formulary_catalog.errors import FormularyError, StartupError, Unavailable
from formulary_catalog.runs.waiting import Progress, no_progress
from formulary_catalog.settings import Settings

if TYPE_CHECKING:
    from formulary_catalog.analytics.service import AnalyticsService
    from formulary_catalog.audit.incidents import IncidentReading
    from formulary_catalog.audit.traces import TraceReading
    from formulary_catalog.governance.halts import Halts
    from formulary_catalog.governance.rehearsing import Rehearsing
    from formulary_catalog.governance.service import GovernanceService
    from formulary_catalog.knowledge.service import KnowledgeService
    from formulary_catalog.runs.approvals import WaitingRuns
    from formulary_catalog.runs.reading import RunReading
    from formulary_catalog.runs.service import InvocationService
    from formulary_catalog.search.explanation.service import Explaining
    from formulary_catalog.search.parts import CatalogParts
    from formulary_catalog.search.service import CatalogService
    from formulary_catalog.search.targets.reading import TargetReading
    from formulary_catalog.workflows.browsing import Browsing
    from formulary_catalog.workflows.coverage import Coverage
    from formulary_catalog.workflows.listing import Listing
    from formulary_catalog.workflows.refused import Refused
    from formulary_catalog.workflows.relations import Relations
    from formulary_catalog.workflows.skills import SkillService
    from formulary_catalog.workflows.upkeep import Upkeep
    from formulary_catalog.workflows.versions import Versions

OPENING_SECONDS = 45.0
"""How long a call waits for services that are being opened; a first start loads a database. Clients wait 60 s."""
_REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one application, on one database."""

    parts: "CatalogParts"
    catalog: "CatalogService"
    listing: "Listing"
    refused: "Refused"
    browsing: "Browsing"
    explaining: "Explaining"
    coverage: "Coverage"
    upkeep: "Upkeep"
    traces: "TraceReading"
    incidents: "IncidentReading"
    targets: "TargetReading"
    runs: "RunReading"
    relations: "Relations"
    versions: "Versions"
    skills: "SkillService"
    approvals: "WaitingRuns"
    invocations: "InvocationService"
    governance: "GovernanceService"
    halts: "Halts"
    rehearsing: "Rehearsing"
    analytics: "AnalyticsService"
    knowledge: "KnowledgeService"

    @classmethod
    def on(cls, parts: "CatalogParts", *, settings: Settings) -> "Services":
        """All services of the catalog that has these parts."""
        # Here, because stdio answers `initialize` before it loads them: they take longer than the protocol.
        from formulary_catalog.analytics.service import AnalyticsService
        from formulary_catalog.audit.incidents import IncidentReading
        from formulary_catalog.audit.traces import TraceReading
        from formulary_catalog.governance.halts import Halts
        from formulary_catalog.governance.rehearsing import Rehearsing
        from formulary_catalog.governance.service import GovernanceService
        from formulary_catalog.knowledge.service import KnowledgeService
        from formulary_catalog.runs.approvals import WaitingRuns
        from formulary_catalog.runs.reading import RunReading
        from formulary_catalog.runs.service import InvocationService
        from formulary_catalog.search.explanation.service import Explaining
        from formulary_catalog.search.service import CatalogService
        from formulary_catalog.search.targets.reading import TargetReading
        from formulary_catalog.workflows.browsing import Browsing
        from formulary_catalog.workflows.coverage import Coverage
        from formulary_catalog.workflows.listing import Listing
        from formulary_catalog.workflows.refused import Refused
        from formulary_catalog.workflows.relations import Relations
        from formulary_catalog.workflows.skills import SkillService
        from formulary_catalog.workflows.upkeep import Upkeep
        from formulary_catalog.workflows.versions import Versions

        catalog = CatalogService(
            trail=parts.trail, traces=parts.traces, finder=parts.finder, searcher=parts.searcher, metrics=parts.metrics
        )
        return cls(
            parts=parts,
            catalog=catalog,
            listing=Listing(parts),
            refused=Refused(parts),
            browsing=Browsing(parts),
            explaining=Explaining(parts, strict_keys=settings.strict_custom_labels),
            coverage=Coverage(parts, strict_keys=settings.strict_custom_labels),
            upkeep=Upkeep(parts),
            traces=TraceReading(parts),
            incidents=IncidentReading(parts, catalog=catalog, strict_keys=settings.strict_custom_labels),
            targets=TargetReading(parts, strict_keys=settings.strict_custom_labels),
            runs=RunReading(parts),
            relations=Relations(parts),
            versions=Versions(parts),
            skills=SkillService(parts, catalog=catalog),
            approvals=WaitingRuns(parts),
            invocations=InvocationService(
                database=parts.database,
                trail=parts.trail,
                traces=parts.traces,
                finder=parts.finder,
                settings=settings,
            ),
            governance=GovernanceService(
                trail=parts.trail,
                traces=parts.traces,
                contexts=parts.contexts,
                harmless=settings.harmless_environments,
            ),
            halts=Halts(parts, shared_namespace=settings.catalog_namespace),
            rehearsing=Rehearsing(
                parts, shared_namespace=settings.catalog_namespace, harmless=settings.harmless_environments
            ),
            analytics=AnalyticsService.on(parts, settings=settings),
            knowledge=KnowledgeService(parts),
        )


class Opening:
    """Services that may still be on their way. A server answers `initialize` and `tools/list` meanwhile."""

    def __init__(self, services: Services | None = None) -> None:
        self.services = services
        """None until they are open."""
        self._failure: Exception | None = None
        self._settled = asyncio.Event()

    def opened(self, services: Services) -> None:
        """The services are there."""
        self.services = services
        self._settled.set()

    def failed(self, failure: Exception) -> None:
        """There will be no services."""
        self._failure = failure
        self._settled.set()

    async def until_open(self, progress: Progress = no_progress) -> Services:
        """The services, waited for as long as a call may wait; `progress` is reported meanwhile.

        Raises:
            Unavailable: they are not there yet.
            StartupError: they could not be opened.
        """
        if self.services is None:
            await self._until_settled(progress)
        if isinstance(self._failure, FormularyError):
            raise StartupError(
                f"the catalog could not be opened: {self._failure}; correct that and start the server again"
            )
        if self._failure is not None:
            raise self._failure
        assert self.services is not None
        return self.services

    async def _until_settled(self, progress: Progress) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        while not self._settled.is_set():
            if (waited := clock() - started) >= OPENING_SECONDS:
                raise Unavailable("the catalog is still being opened; retry in a few seconds")
            await progress(waited, OPENING_SECONDS, "the catalog is being opened")
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_REPORT_SECONDS, OPENING_SECONDS - waited)):
                    await self._settled.wait()
