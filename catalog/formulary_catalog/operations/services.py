"""The services that operations call, together.

`edges.app`, `formulary stdio` and the commands build them with `Services.on`, on the parts of one catalog.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formulary_catalog.settings import Settings

if TYPE_CHECKING:
    from formulary_catalog.kernel.parts import CatalogParts
    from formulary_catalog.services.analytics import AnalyticsService
    from formulary_catalog.services.audit.incidents import IncidentReading, TargetReading
    from formulary_catalog.services.audit.traces import TraceReading
    from formulary_catalog.services.governance.halts import Halts
    from formulary_catalog.services.governance.rehearsing import Rehearsing
    from formulary_catalog.services.governance.service import GovernanceService
    from formulary_catalog.services.knowledge.service import KnowledgeService
    from formulary_catalog.services.runs.approvals import WaitingRuns
    from formulary_catalog.services.runs.reading import RunReading
    from formulary_catalog.services.runs.service import InvocationService
    from formulary_catalog.services.search.explanation.service import Explaining
    from formulary_catalog.services.search.service import CatalogService
    from formulary_catalog.services.workflows.browsing import Browsing
    from formulary_catalog.services.workflows.coverage import Coverage
    from formulary_catalog.services.workflows.listing import Listing
    from formulary_catalog.services.workflows.refused import Refused
    from formulary_catalog.services.workflows.relations import Relations
    from formulary_catalog.services.workflows.skills import SkillService
    from formulary_catalog.services.workflows.upkeep import Upkeep
    from formulary_catalog.services.workflows.versions import Versions


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
        from formulary_catalog.services.analytics import AnalyticsService
        from formulary_catalog.services.audit.incidents import IncidentReading, TargetReading
        from formulary_catalog.services.audit.traces import TraceReading
        from formulary_catalog.services.governance.halts import Halts
        from formulary_catalog.services.governance.rehearsing import Rehearsing
        from formulary_catalog.services.governance.service import GovernanceService
        from formulary_catalog.services.knowledge.service import KnowledgeService
        from formulary_catalog.services.runs.approvals import WaitingRuns
        from formulary_catalog.services.runs.reading import RunReading
        from formulary_catalog.services.runs.service import InvocationService
        from formulary_catalog.services.search.explanation.service import Explaining
        from formulary_catalog.services.search.service import CatalogService
        from formulary_catalog.services.workflows.browsing import Browsing
        from formulary_catalog.services.workflows.coverage import Coverage
        from formulary_catalog.services.workflows.listing import Listing
        from formulary_catalog.services.workflows.refused import Refused
        from formulary_catalog.services.workflows.relations import Relations
        from formulary_catalog.services.workflows.skills import SkillService
        from formulary_catalog.services.workflows.upkeep import Upkeep
        from formulary_catalog.services.workflows.versions import Versions

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
                targets=parts.targets,
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
