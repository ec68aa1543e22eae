"""What the edges ask, put together once for each application."""

from dataclasses import dataclass

from formulary_catalog.governance.service import GovernanceService
from formulary_catalog.invocation.service import InvocationService
from formulary_catalog.search.service import CatalogService
from formulary_catalog.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one application, on one database."""

    catalog: CatalogService
    invocations: InvocationService
    governance: GovernanceService

    @classmethod
    def on(cls, catalog: CatalogService, *, settings: Settings) -> "Services":
        """All services, on the database of the catalog."""
        return cls(
            catalog=catalog,
            invocations=InvocationService(catalog=catalog, settings=settings),
            governance=GovernanceService(catalog),
        )
