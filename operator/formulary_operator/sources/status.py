"""IncidentSource objects: how their status says whether alerts are taken, and whether all could be used.

`sources.reconciler` calls it after it has stored the source. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from formulary_operator.api.names import Json
from formulary_operator.kube.conditions import Said, conditions, conditions_of, find
from formulary_operator.workflows.status import Transition

_READY, _MAPPED = "Ready", "Mapped"


def receiving(path: str) -> Said:
    """Alerts are taken."""
    return Said(type=_READY, met=True, reason="Receiving", message=f"alerts are taken at POST {path}")


def refused(reason: str, problem: str) -> Said:
    """No alerts are taken."""
    return Said(type=_READY, met=False, reason=reason, message=f"{problem}; no alerts are taken until then")


def mapped(problem: str) -> Said:
    """Whether all alerts could be used; `problem` is why some could not last."""
    if not problem:
        return Said(type=_MAPPED, met=True, reason="AllMapped", message="no alert was refused within a day")
    return Said(type=_MAPPED, met=False, reason="Unmapped", message=f"alerts became no incident, last {problem}")


def source_status(document: Mapping[str, Any], said: Sequence[Said], *, now: str) -> Json:
    """The status that the object should have."""
    return {
        "observedGeneration": document["metadata"].get("generation"),
        "conditions": conditions(said, document=document, now=now),
    }


def source_change(document: Mapping[str, Any], said: Sequence[Said]) -> Transition | None:
    """The Event that this deserves: alerts are taken or not, or some could not be used for another reason."""
    for each in said:
        before = find(conditions_of(document), each.type)
        is_new = before.get("reason") != each.reason or (not each.met and before.get("message") != each.message)
        if is_new and not (each.type == _MAPPED and each.met):
            return Transition(type="Normal" if each.met else "Warning", reason=each.reason, message=each.message)
    return None
