"""Conditions of a status: read, made, and kept beside those that somebody else writes.

The status modules of workflows, runs, approvals and contracts call it. A merge patch replaces the whole list: without
the conditions of others it would delete them. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from formulary_operator.api.names import Json

MAX_MESSAGE = 32_768
"""Characters of a message, the limit of metav1.Condition: the API server refuses a status with a longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a condition is to say. `met` is None where it is not known yet."""

    type: str
    met: bool | None
    reason: str
    message: str


def condition(said: Said, *, document: Mapping[str, Any], now: str) -> Json:
    """The condition of an object; `now`, an RFC 3339 time, counts only if its status is another one than before."""
    status = {True: "True", False: "False", None: "Unknown"}[said.met]
    before = find(conditions_of(document), said.type)
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": said.type,
        "status": status,
        "reason": str(said.reason),
        "message": said.message[:MAX_MESSAGE],
        "observedGeneration": document["metadata"].get("generation", 0),
        "lastTransitionTime": since or now,
    }


def conditions(said: Iterable[Said], *, document: Mapping[str, Any], now: str) -> list[Json]:
    """All conditions of an object: ours, then those of others, which a merge patch would remove otherwise."""
    ours = [condition(each, document=document, now=now) for each in said]
    types = {each["type"] for each in ours}
    return [*ours, *(dict(other) for other in conditions_of(document) if other.get("type") not in types)]


def status_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of an object, empty if it has none."""
    status = document.get("status")
    return status if isinstance(status, Mapping) else {}


def conditions_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions in the status of an object."""
    return list(status_of(document).get("conditions") or ())


def find(among: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any]:
    """The condition of a type, empty if there is none."""
    return next((each for each in among if each.get("type") == type_), {})
