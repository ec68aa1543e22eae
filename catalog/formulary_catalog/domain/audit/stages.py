"""Which part of an incident's story an event belongs to: people look for the approval, not for its kind."""

from enum import StrEnum


class Stage(StrEnum):
    """The parts, in the order in which they usually come."""

    SEARCH = "Search"
    READING = "Reading"
    CHOICE = "Choice"
    DECISION = "Decision"
    APPROVAL = "Approval"
    RUN = "Run"
    KEEPING = "Keeping"


_STAGES = {
    "search": Stage.SEARCH,
    "selection": Stage.CHOICE,
    "invocation.requested": Stage.CHOICE,
    "invocation.decided": Stage.DECISION,
    "invocation.refused": Stage.DECISION,
    "invocation.approved": Stage.APPROVAL,
    "invocation.rejected": Stage.APPROVAL,
}
_GROUPS = {
    "governance": Stage.DECISION,
    "invocation": Stage.RUN,
    "halt": Stage.RUN,
    "hold": Stage.KEEPING,
}


def stage_of(kind: str) -> Stage:
    """The part that an event of this kind belongs to; reading, where it is no other."""
    return _STAGES.get(kind) or _GROUPS.get(kind.partition(".")[0], Stage.READING)
