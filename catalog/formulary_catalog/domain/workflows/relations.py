"""How workflows are related: the kinds of edges, and the form in which neighbours are returned.

Stored edges are what manifests say of other workflows (`store/workflows/relations`). The others follow from what
workflows declare.
"""

from dataclasses import dataclass
from enum import StrEnum

MAX_DEPTH = 3


class Relation(StrEnum):
    """The kinds of edges, in the order in which neighbours are listed: what decides about a run comes first."""

    REQUIRES = "requires"
    ESCALATES_TO = "escalatesTo"
    ROLLBACK_OF = "rollbackOf"
    SUPERSEDES = "supersedes"
    PREVIOUS_VERSION = "previousVersion"
    MENTIONS = "mentions"
    ANSWERS_SIGNAL = "answersSignal"
    SAME_ACTION = "sameAction"


RELATIONS = tuple(relation.value for relation in Relation)
STORED = (
    Relation.REQUIRES,
    Relation.ESCALATES_TO,
    Relation.ROLLBACK_OF,
    Relation.SUPERSEDES,
    Relation.MENTIONS,
)
"""Those that lead from one workflow to another by its name, and that can be walked along."""


class Direction(StrEnum):
    """Which end of an edge the neighbour is: `outgoing` edges lead to it."""

    OUTGOING = "outgoing"
    INCOMING = "incoming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A workflow at the end of an edge, `depth` steps away."""

    version_id: str
    namespace: str
    name: str
    relation: Relation
    direction: Direction
    depth: int
    ambiguous: bool

    @property
    def place(self) -> tuple[int, int, str, str, str]:
        """Sorts neighbours: the near ones first."""
        return self.depth, RELATIONS.index(self.relation), self.name, self.namespace, self.direction
