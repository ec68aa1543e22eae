"""What a caller asks when it browses: listings, relations, runs that wait.

The edges and the command line make them from the models of `operations/arguments`, which hold the bounds; the
services of `workflows` and `runs` answer them.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from formulary_catalog.domain.workflows.labels import fold
from formulary_catalog.domain.workflows.relations import Relation

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_NAME_LENGTH = 400
MAX_WORDS = 10
"""Words of a text that a listing looks for."""
ListedStatus = Literal["Active", "Superseded", "Disabled", "Invalid", "Pending"]
STATUSES: tuple[ListedStatus, ...] = get_args(ListedStatus)
RiskLevel = Literal["low", "medium", "high", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRequest:
    """A page of the list of workflows. Empty filters do not narrow; `offset` is for callers without a cursor."""

    signal_type: str = ""
    action_type: str = ""
    namespace: str = ""
    risk_level: str = ""
    status: str = STATUSES[0]
    text: str = ""
    limit: int = DEFAULT_LIMIT
    cursor: str = ""
    offset: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the text, as they are looked for."""
        return tuple(dict.fromkeys(self.text.lower().split()))[:MAX_WORDS]

    @property
    def question(self) -> dict[str, Any]:
        """What a cursor belongs to."""
        return {
            "signal_type": fold(self.signal_type),
            "action_type": self.action_type.lower(),
            "namespace": self.namespace,
            "risk_level": self.risk_level,
            "status": self.status,
            "text": " ".join(self.words),
        }


EVERYTHING_SERVED = ListingRequest()
"""The first page of what is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedRequest:
    """A walk through the graph of workflows. `entity` is a workflow, a signal type or an action type."""

    entity: str
    depth: int = 1
    relations: tuple[Relation, ...] = tuple(Relation)
    limit: int = DEFAULT_LIMIT
    cursor: str = ""

    @property
    def question(self) -> dict[str, Any]:
        """What a cursor belongs to."""
        return {"entity": self.entity, "depth": self.depth, "relations": sorted(self.relations)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsRequest:
    """Runs that wait for a person; in all namespaces where none is given."""

    namespace: str = ""
    limit: int = DEFAULT_LIMIT
