"""Whether a run helped, decided from what was observed of its alert and its target (DESIGN section 15).

A run's phase says how its Job ended. `runs/verifying` of the operator observes what became of the problem, calls
`decide` once at the end of the window, and `store/runs/verification` keeps the verdict. Rules only, no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from formulary_catalog.domain.audit.wording import spell_duration
from formulary_catalog.domain.runs.run import Phase, duration_seconds

_LATE_SECONDS = 60.0
"""A look that comes so much later than it should does not say what was then."""
_REPORTED_WITHIN_SECONDS = 300.0
"""Alertmanager says so much later that an alert began or ended: `group_interval` is 5 minutes."""
_MOST_CHANGES = 50


class Outcome(StrEnum):
    """What a run came to."""

    HELPED = "Helped"
    NOT_HELPED = "NotHelped"
    UNKNOWN = "Unknown"
    RELAPSED = "Relapsed"


FITNESS: Mapping[str, int] = {Outcome.HELPED: 1, Outcome.NOT_HELPED: 0, Outcome.RELAPSED: 0}
"""The outcome as a number, as the seed's `fitness` has it; none while it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a run, and what the verification saw, in a sentence."""

    outcome: Outcome
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What ends within `stabilization` seconds after a run does not count; the `seconds` after that decide."""

    stabilization: float = 300.0
    seconds: float = 600.0

    @property
    def total(self) -> float:
        """Seconds from the end of a run to that of its window."""
        return self.stabilization + self.seconds

    def verdict_after(self, *, of_alert: bool) -> float:
        """Seconds from the end of a run to its verdict: what an alert did within the window is reported later."""
        return self.total + (min(_REPORTED_WITHIN_SECONDS, self.seconds / 2) if of_alert else 0.0)


def window_of(document: Mapping[str, Any]) -> Window:
    """The window that a workflow asks for in `spec.verification`."""
    stated, default = document.get("spec", {}).get("verification") or {}, Window()
    stabilization, seconds = (duration_seconds(str(stated.get(name, ""))) for name in ("stabilization", "window"))
    return Window(
        stabilization=default.stabilization if stabilization is None else stabilization,
        seconds=default.seconds if seconds is None else seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """A target at one moment. `uid` is empty where it does not exist; `ready` is None where its kind does not say.

    `name` is kind and name of what was looked at: of a pod the workload that it belongs to.
    """

    name: str
    uid: str = ""
    generation: int = 0
    ready: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {"name": self.name, "uid": self.uid, "generation": self.generation, "ready": self.ready}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "TargetState":
        """The state that `as_json` wrote."""
        return cls(**stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWatch:
    """What was seen of a target: `before` the run began and `after` it ended, and since then when `ready` changed.

    Of very many changes the newest are kept, which say what there was in the end.
    `changed` says what the run did not do to it, or perhaps did not. `looked_at` is the time of the last look,
    right after the end of the window; None before.
    """

    before: TargetState | None = None
    after: TargetState | None = None
    ready: tuple[tuple[datetime, bool], ...] = ()
    changed: str = ""
    looked_at: datetime | None = None

    def before_start(self, state: TargetState | None, *, at: datetime) -> "TargetWatch":
        """With what was seen right before the run is started; None where it could not be read.

        At a second attempt the first one may have begun it unseen, so that only what is the same is sure.
        """
        if self.changed:
            return self
        if state is None and self.before is None:
            return replace(self, changed="the target could not be read before the run began")
        if self.before is None:
            return replace(self, before=state)
        if state is None or self.before == state:
            return self
        said = f"{self.before.name} was not the same at a second attempt to start the run, at {_clock(at)}"
        return replace(self, changed=said)

    def ended(self, state: TargetState | None, *, at: datetime) -> "TargetWatch":
        """With what was seen as the run ended; None where that was not seen in time."""
        return replace(self, after=state) if state is None else replace(self, after=state).seen(state, at=at)

    def seen(self, state: TargetState, *, at: datetime) -> "TargetWatch":
        """With one more look."""
        watch = self
        if self.after is not None and not self.changed:
            watch = replace(watch, changed=_change(self.after, state, at=at))
        known = self.ready[-1][1] if self.ready else None
        if state.ready is None or state.ready == known:
            return watch
        return replace(watch, ready=(*self.ready, (at, state.ready))[-_MOST_CHANGES:])

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "before": self.before.as_json() if self.before is not None else None,
            "after": self.after.as_json() if self.after is not None else None,
            "ready": [[at.isoformat(), ready] for at, ready in self.ready],
            "changed": self.changed,
            "looked_at": self.looked_at.isoformat() if self.looked_at is not None else None,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "TargetWatch":
        """The watch that `as_json` wrote; an empty one for nothing."""
        before, after, looked_at = (stored.get(name) for name in ("before", "after", "looked_at"))
        return cls(
            before=TargetState.from_json(before) if before else None,
            after=TargetState.from_json(after) if after else None,
            ready=tuple((datetime.fromisoformat(at), ready) for at, ready in stored.get("ready", ())),
            changed=stored.get("changed", ""),
            looked_at=datetime.fromisoformat(looked_at) if looked_at else None,
        )


Episodes = Sequence[tuple[datetime, datetime | None]]
"""When an alert began to fire and when that ended; None while it fires."""
Samples = tuple[tuple[datetime, bool], ...]
"""Whether all was well by a query, at moments in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that is known of a run at its verdict.

    `episodes` are those of the incident's alert, None where the incident has no alert that is known; `of_alert` whether
    it should have one. `other_run` names a run of another workflow or request that changed the target meanwhile.
    `measured` is what the query of this name said, `unmeasured` why it said nothing.
    """

    phase: Phase
    started_at: datetime
    finished_at: datetime
    window: Window
    of_alert: bool = False
    episodes: Episodes | None = None
    has_target: bool = False
    watch: TargetWatch = field(default_factory=TargetWatch)
    other_run: str = ""
    query: str = ""
    measured: Samples = ()
    unmeasured: str = ""

    @property
    def stable_at(self) -> datetime:
        """From when on what happens counts."""
        return self.finished_at + timedelta(seconds=self.window.stabilization)

    @property
    def until(self) -> datetime:
        """The end of the window."""
        return self.finished_at + timedelta(seconds=self.window.total)


def decide(run: Observed) -> Verdict:
    """What a run came to. Whatever is not certain is Unknown: a rate must not count what nobody saw.

    It helped if what was wrong when it ran is right at the end of the window, and has not come back since the
    stabilization. An end that was right for a while and then wrong again is a relapse.
    """
    if run.phase in (Phase.CANCELLED, Phase.HALTED):
        return of_stopped(run.phase)
    if run.other_run:
        return _unknown(f"{run.other_run} acted on the same target meanwhile")
    if run.watch.changed:
        return _unknown(run.watch.changed)
    if replaced := _replaced(run.watch):
        return _unknown(replaced)
    if run.of_alert and run.episodes is None:
        return _unknown("the alert of its incident is not known any more")
    if _is_target_unseen(run) and not _fires(run, at=run.until):
        return _unknown("the target could not be watched at the end of the window")
    if run.unmeasured and not _fires(run, at=run.until):
        return _unknown(run.unmeasured)
    states = [(at, _is_good(run, at=at)) for at in _moments(run)]
    return _of_good_end(run, states) if states[-1][1] else _of_bad_end(run, states)


def of_stopped(phase: Phase) -> Verdict:
    """What a run came to that was cancelled or halted."""
    return _unknown(f"the run was {phase.value.lower()} before it ended")


def of_abandoned(namespace: str) -> Verdict:
    """What a run came to that ended in a namespace which no operator watches any more."""
    return _unknown(f"no operator watched namespace {namespace} when the outcome was due")


def _of_bad_end(run: Observed, states: Sequence[tuple[datetime, bool]]) -> Verdict:
    was_good = any(good for at, good in states if at >= run.stable_at)
    if was_good and run.phase is Phase.SUCCEEDED and _had_problem(run):
        return Verdict(outcome=Outcome.RELAPSED, feedback=f"it was better for a while, then {_said(run)}")
    return Verdict(outcome=Outcome.NOT_HELPED, feedback=_said(run))


def _of_good_end(run: Observed, states: Sequence[tuple[datetime, bool]]) -> Verdict:
    if not _had_problem(run):
        return _unknown(f"nothing was seen to be wrong when the run began, and {_said(run)}")
    if run.phase is not Phase.SUCCEEDED:
        return _unknown(f"the run did not succeed, and yet {_said(run)}")
    if run.has_target and None in (run.watch.before, run.watch.after):
        when = "as the run ended" if run.watch.before is not None else "before the run began"
        return _unknown(f"nobody saw the target {when}, so that another change may be why {_said(run)}")
    was_back = True
    for at, _ in states:
        is_back = _is_back(run, at=at)
        if is_back and not was_back and at > run.stable_at:
            return Verdict(outcome=Outcome.RELAPSED, feedback=f"the problem was back at {_clock(at)}; {_said(run)}")
        was_back = is_back
    return Verdict(outcome=Outcome.HELPED, feedback=_said(run))


def _unknown(feedback: str) -> Verdict:
    return Verdict(outcome=Outcome.UNKNOWN, feedback=feedback)


def _had_problem(run: Observed) -> bool:
    """Whether anything was seen to be wrong when it began: what began later may be its own doing."""
    was_unready = run.watch.before is not None and run.watch.before.ready is False
    return was_unready or _fires(run, at=run.started_at) or _measured(run, at=run.started_at) is False


def _moments(run: Observed) -> list[datetime]:
    """The end of the run, of the stabilization and of the window, and when anything changed in between."""
    changes = [at for episode in run.episodes or () for at in episode if at is not None]
    changes += [at for at, _ in (*run.watch.ready, *run.measured)]
    within = {at for at in changes if run.finished_at < at < run.until}
    return sorted({run.finished_at, run.stable_at, run.until} | within)


def _is_good(run: Observed, *, at: datetime) -> bool:
    return not _fires(run, at=at) and _ready(run, at=at) is not False and _measured(run, at=at) is not False


def _is_back(run: Observed, *, at: datetime) -> bool:
    """Whether what was wrong is so at a moment: a pod that restarts is no alert that fires again."""
    back = _fires(run, at=at) if run.episodes else _ready(run, at=at) is False
    return back or _measured(run, at=at) is False


def _fires(run: Observed, *, at: datetime) -> bool:
    return any(began <= at and (ended is None or ended > at) for began, ended in run.episodes or ())


def _measured(run: Observed, *, at: datetime) -> bool | None:
    """What its query said last; None for nothing."""
    return next((well for when, well in reversed(run.measured) if when <= at), None)


def _ready(run: Observed, *, at: datetime) -> bool | None:
    """Readiness at a moment; at the end of the window what the last look, which comes right after it, has seen."""
    upto = run.watch.looked_at if at == run.until and run.watch.looked_at is not None else at
    known = [ready for when, ready in run.watch.ready if when <= upto]
    first = run.watch.ready[0][1] if run.watch.ready else None
    return known[-1] if known else first


def _is_target_unseen(run: Observed) -> bool:
    """Whether nobody looked at the target at the end of the window: a later look does not say what was then."""
    if not run.has_target:
        return False
    looked_at = run.watch.looked_at
    return looked_at is None or looked_at > run.until + timedelta(seconds=_LATE_SECONDS)


def _said(run: Observed) -> str:
    """What the verification saw at the end of the window."""
    return " and ".join(_parts(run)) or "nothing could be observed"


def _parts(run: Observed) -> Iterator[str]:
    after = spell_duration(run.window.total)
    if run.episodes is not None:
        if _fires(run, at=run.until):
            yield f"the alert was firing {after} after the run ended"
        else:
            ended = max((end for _, end in run.episodes if end is not None and end <= run.until), default=None)
            yield f"the alert resolved at {_clock(ended)}" if ended is not None else "the alert did not fire"
    state = run.watch.after or run.watch.before
    ready = _ready(run, at=run.until)
    if state is not None and ready is not None:
        yield f"{state.name} was {'ready' if ready else 'not ready'} {after} after the run ended"
    if (well := _measured(run, at=run.until)) is not None:
        yield f"query {run.query} was {int(well)} then"


def _change(after: TargetState, now: TargetState, *, at: datetime) -> str:
    """What happened to a target since a run ended that the run cannot have done; empty for nothing."""
    if after.uid != now.uid:
        return f"{after.name} was {_gone(now)} by {_when(at)}, after the run ended"
    if after.generation != now.generation:
        return f"{after.name} was changed by {_when(at)}, after the run ended"
    return ""


def _replaced(watch: TargetWatch) -> str:
    """Says that the target was gone, or another object, when the run ended; empty if it was not.

    What was missing may be what the run creates.
    """
    before, after = watch.before, watch.after
    if before is None or after is None or before.uid in ("", after.uid):
        return ""
    return f"{before.name} was {_gone(after)} while the run went on"


def _gone(now: TargetState) -> str:
    return "created again" if now.uid else "deleted"


def _when(at: datetime) -> str:
    return f"somebody else before {_clock(at)}"


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%S UTC")
