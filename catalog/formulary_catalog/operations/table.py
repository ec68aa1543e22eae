"""All operations, by subject: MCP lists their tools, REST has their routes. A new subject goes in here."""

from typing import Any

from formulary_catalog.operations import (
    analytics,
    audit,
    coverage,
    governance,
    incidents,
    knowledge,
    runs,
    search,
    workflows,
)
from formulary_catalog.operations.operation import Operation

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *search.OPERATIONS,
    *workflows.OPERATIONS,
    *runs.OPERATIONS,
    *governance.OPERATIONS,
    *knowledge.OPERATIONS,
    *analytics.OPERATIONS,
    *coverage.OPERATIONS,
    *incidents.OPERATIONS,
    *audit.OPERATIONS,
)
"""In the order in which tools of a toolset are listed."""
