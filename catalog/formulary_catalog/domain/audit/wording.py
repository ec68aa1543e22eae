"""What the passages of a story are made of, and how its times are said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from formulary_catalog.domain.audit.payload import Recorded

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


class Tone(StrEnum):
    """Meaning of a line, from which its colour follows."""

    PLAIN = "plain"
    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A detail and its label."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What one event says. Lines without text are left out."""

    title: str
    tone: Tone = Tone.PLAIN
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the trace says elsewhere that an event needs to be understood.

    `names` are workflows by version id and by invocation id; `chosen` the version ids that were chosen from this
    search; `found` those that the search found which the event names, else the last one before it, in its order; `dry`
    whether the run is a dry one; `ran_for` the seconds that it has taken so far.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    found: tuple[str, ...] = ()
    dry: bool = False
    ran_for: float | None = None

    def workflow(self, payload: Recorded) -> str:
        """The workflow that a call or a run is about, as a person knows it."""
        known = (payload.inner("result").text("version_id"), payload.text("invocation_id"))
        named = next((self.names[each] for each in known if each in self.names), "")
        return named or workflow_name(payload) or workflow_name(payload.inner("arguments")) or "a workflow"


def workflow_name(recorded: Recorded) -> str:
    """The workflow that is named, with its version."""
    name, version = recorded.text("workflow_id"), recorded.text("version")
    return f"{name}@{version}" if name and version and "@" not in name else name


def lines(*candidates: Line | Iterable[Line]) -> tuple[Line, ...]:
    """The lines that say something."""
    flat = (line for each in candidates for line in ((each,) if isinstance(each, Line) else each))
    return tuple(line for line in flat if line.text)


def spell_duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `4 min 12 s`, `3 h 5 min`, `2 d 4 h`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"
