"""What a caller may ask when it browses, checked once for all edges: listings, relations, names, sections."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.domain.search.request import plain
from formulary_catalog.domain.workflows.labels import fold
from formulary_catalog.domain.workflows.relations import MAX_DEPTH, RELATIONS, Relation
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.errors import InvalidInput

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_NAME_LENGTH = 400
MAX_WORDS = 10
"""Words of a text that a listing looks for."""
STATUSES = ("Active", "Superseded", "Disabled", "Invalid", "Pending")
RISK_LEVELS = ("low", "medium", "high", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRequest:
    """A checked listing. Empty filters do not narrow; `offset` is for callers without a cursor."""

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


def listing_request(
    *,
    signal_type: str = "",
    action_type: str = "",
    namespace: str = "",
    risk_level: str = "",
    status: str = "",
    text: str = "",
    limit: int = DEFAULT_LIMIT,
    cursor: str = "",
    offset: int = 0,
    max_limit: int = MAX_LIMIT,
) -> ListingRequest:
    """Check the bounds.

    Raises:
        InvalidInput: the message names the bad value, the rule and the next step.
    """
    if cursor and offset:
        raise InvalidInput("cursor and offset are both given; give one of them", field="offset")
    return ListingRequest(
        signal_type=plain(signal_type, field="signal_type"),
        action_type=plain(action_type, field="action_type"),
        namespace=plain(namespace, field="namespace"),
        risk_level=_choice(risk_level, field="risk_level", choices=RISK_LEVELS) if risk_level else "",
        status=_choice(status or STATUSES[0], field="status", choices=STATUSES),
        text=plain(text, field="text"),
        limit=_bounded(limit, field="limit", highest=max_limit),
        cursor=plain(cursor, field="cursor", limit=MAX_CURSOR_LENGTH),
        offset=offset,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedRequest:
    """A checked walk through the graph of workflows. `entity` is a workflow, a signal type or an action type."""

    entity: str
    depth: int = 1
    relations: tuple[Relation, ...] = tuple(Relation)
    limit: int = DEFAULT_LIMIT


def related_request(
    *, entity: str, depth: int = 1, relations: Iterable[str] = (), limit: int = DEFAULT_LIMIT
) -> RelatedRequest:
    """Check the bounds.

    Raises:
        InvalidInput: the message names the bad value, the rule and the next step.
    """
    named = [_choice(each, field="relations", choices=RELATIONS) for each in relations]
    return RelatedRequest(
        entity=named_text(entity, field="entity", example="oom-raise-memory-limit"),
        depth=_bounded(depth, field="depth", highest=MAX_DEPTH),
        relations=tuple(map(Relation, dict.fromkeys(named))) or tuple(Relation),
        limit=_bounded(limit, field="limit", highest=MAX_LIMIT),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsRequest:
    """A checked listing of runs that wait; in all namespaces where none is given."""

    namespace: str = ""
    limit: int = DEFAULT_LIMIT


def approvals_request(*, namespace: str = "", limit: int = DEFAULT_LIMIT) -> ApprovalsRequest:
    """Check the bounds.

    Raises:
        InvalidInput: the message names the bad value, the rule and the next step.
    """
    return ApprovalsRequest(
        namespace=plain(namespace, field="namespace"), limit=_bounded(limit, field="limit", highest=MAX_LIMIT)
    )


def section_request(*, workflow_id: str, section: str) -> tuple[str, str]:
    """A workflow and the name of one of its sections, `-` and `_` alike.

    Raises:
        InvalidInput: the message names the bad value, the rule and the next step.
    """
    name = named_text(workflow_id, field="workflow_id", example="oom-raise-memory-limit")
    return name, _choice(section.replace("-", "_"), field="section", choices=SECTIONS)


def named_text(value: str, *, field: str, example: str) -> str:
    """A name that must be given.

    Raises:
        InvalidInput: it is empty, too long, or hides something.
    """
    checked = plain(value, field=field, limit=MAX_NAME_LENGTH)
    if not checked:
        raise InvalidInput(f"{field} is empty; give one, such as {example!r}", field=field)
    return checked


def _choice(value: str, *, field: str, choices: tuple[str, ...]) -> str:
    known = {choice.casefold(): choice for choice in choices}
    if (choice := known.get(plain(value, field=field).casefold())) is None:
        raise InvalidInput(f"{field} {value[:60]!r} is not known; give one of {', '.join(choices)}", field=field)
    return choice


def _bounded(value: int, *, field: str, highest: int) -> int:
    if not 1 <= value <= highest:
        raise InvalidInput(f"{field} {value} is out of bounds; give 1 to {highest}", field=field)
    return value
