"""The outcome of a run, whatever was observed of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.runs.outcome import (
    FITNESS,
    Observed,
    Outcome,
    TargetState,
    TargetWatch,
    Window,
    decide,
    window_of,
)
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.stored import success_rate, wilson_interval

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
END = START + timedelta(minutes=1)
WINDOW = Window()
BAD = TargetState(name="Deployment/web", uid="u", generation=2, ready=False)
GOOD = replace(BAD, ready=True)


def after(minutes: float) -> datetime:
    """A moment, counted from the end of the run; the stabilization ends at 5, the window at 15."""
    return END + timedelta(minutes=minutes)


def observed(
    *episodes: tuple[float, float | None], ready: dict[float, bool] | None = None, phase: Phase = Phase.SUCCEEDED
) -> Observed:
    """A run of an alert that fired from and to these minutes, and of a target that became ready or not at others."""
    watch = watched(BAD).ended(GOOD, at=END)
    for minute, is_ready in (ready or {}).items():
        watch = watch.seen(replace(GOOD, ready=is_ready), at=after(minute))
    return Observed(
        phase=phase,
        started_at=START,
        finished_at=END,
        window=WINDOW,
        of_alert=True,
        episodes=[(after(began), None if ended is None else after(ended)) for began, ended in episodes],
        has_target=True,
        watch=watch,
    )


def watched(before: TargetState | None) -> TargetWatch:
    """A watch that goes on until the end of the window."""
    return TargetWatch(before=before, looked_at=after(15))


def looked(run: Observed, at: datetime | None) -> Observed:
    """The same, whose target was looked at for the last time then."""
    return replace(run, watch=replace(run.watch, looked_at=at))


def ended_with(episode: tuple[float, float], state: TargetState) -> Observed:
    """A run of an alert whose target was so when it ended, and at the end of the window."""
    return replace(observed(episode), watch=watched(BAD).ended(state, at=END))


minutes = st.floats(min_value=-5, max_value=25, allow_nan=False)
episodes = st.lists(st.tuples(minutes, minutes | st.none()).filter(lambda each: each[1] is None or each[0] < each[1]))
looks = st.dictionaries(st.floats(min_value=0.1, max_value=15), st.booleans(), max_size=6).map(
    lambda found: dict(sorted(found.items()))
)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(observed((-5, 3)), Outcome.HELPED, id="resolved"),
        pytest.param(observed((-5, -0.5)), Outcome.HELPED, id="resolved while it ran"),
        pytest.param(observed((-5, 14)), Outcome.HELPED, id="resolved within the window"),
        pytest.param(observed((-5, 2), (3, 4)), Outcome.HELPED, id="flapped before it was stable"),
        pytest.param(observed((-5, None)), Outcome.NOT_HELPED, id="stays"),
        pytest.param(observed((-5, 16)), Outcome.NOT_HELPED, id="resolved after the window"),
        pytest.param(observed((-5, 3), ready={7: False}), Outcome.RELAPSED, id="not ready any more"),
        pytest.param(observed((-5, 3), ready={8: False, 9: True}), Outcome.HELPED, id="a pod restarted"),
        pytest.param(
            replace(observed(ready={8: False, 9: True}), episodes=None, of_alert=False),
            Outcome.RELAPSED,
            id="not ready again, without an alert",
        ),
        pytest.param(observed((-5, 3), (9, None)), Outcome.RELAPSED, id="came back"),
        pytest.param(observed((-5, 3), (9, 10)), Outcome.RELAPSED, id="came back for a minute"),
        pytest.param(observed((-5, 3), phase=Phase.FAILED), Outcome.UNKNOWN, id="resolved, and the run failed"),
        pytest.param(observed((-5, None), phase=Phase.FAILED), Outcome.NOT_HELPED, id="failed and stays"),
        pytest.param(
            replace(
                observed((-5, 3)),
                watch=watched(TargetState(name=BAD.name)).ended(GOOD, at=END),
            ),
            Outcome.HELPED,
            id="created what was missing",
        ),
        pytest.param(observed((-5, 2), (3, None)), Outcome.NOT_HELPED, id="was better before it was stable alone"),
        pytest.param(observed((-5, 2), (3, 9), (11, None)), Outcome.RELAPSED, id="better after it was stable"),
        pytest.param(observed((-5, 6), (9, None), phase=Phase.FAILED), Outcome.NOT_HELPED, id="failed, and came back"),
    ],
)
def test_what_became_of_the_alert_and_the_target_decides(run: Observed, expected: Outcome) -> None:
    verdict = decide(run)
    assert verdict.outcome is expected, verdict.feedback
    assert verdict.feedback


@given(episodes, looks)
def test_a_change_by_somebody_else_explains_whatever_is_seen(
    fired: list[tuple[float, float | None]], ready: dict[float, bool]
) -> None:
    run = observed(*fired, ready=ready)
    later = replace(GOOD, generation=3, ready=run.watch.ready[-1][1])
    changed = replace(run, watch=run.watch.seen(later, at=after(15)))
    assert decide(changed).outcome is Outcome.UNKNOWN
    assert decide(replace(run, other_run="run inv-1")).outcome is Outcome.UNKNOWN


@given(episodes, looks, st.sampled_from([phase for phase in Phase if phase.is_final]))
def test_no_run_is_said_to_have_helped_that_ended_with_a_problem(
    fired: list[tuple[float, float | None]], ready: dict[float, bool], phase: Phase
) -> None:
    run = observed(*fired, ready=ready, phase=phase)
    outcome = decide(run).outcome
    firing = any(began <= 15 and (ended is None or ended > 15) for began, ended in fired)
    bad = firing or (bool(ready) and not list(ready.values())[-1])
    if phase in (Phase.CANCELLED, Phase.HALTED):
        assert outcome is Outcome.UNKNOWN
    elif bad:
        assert outcome in (Outcome.NOT_HELPED, Outcome.RELAPSED)
    else:
        assert outcome in (Outcome.HELPED, Outcome.RELAPSED, Outcome.UNKNOWN)
        assert outcome is not Outcome.HELPED or phase is Phase.SUCCEEDED


@given(looks)
def test_what_is_stored_of_a_watch_is_what_was_seen(ready: dict[float, bool]) -> None:
    watch = observed(ready=ready).watch
    assert TargetWatch.from_json(watch.as_json()) == watch


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(replace(observed((-5, 3)), episodes=None), id="the alert is forgotten"),
        pytest.param(looked(observed((-5, 3)), None), id="the target cannot be read at the end"),
        pytest.param(
            replace(observed((-5, 3)), watch=watched(None).seen(GOOD, at=after(1))),
            id="nobody saw the run end",
        ),
        pytest.param(
            replace(observed((-5, 3)), watch=watched(None).ended(GOOD, at=END)), id="nobody saw the run begin"
        ),
        pytest.param(
            replace(observed((-5, 3)), watch=watched(BAD).before_start(GOOD, at=START).ended(GOOD, at=END)),
            id="an attempt to start it before may have begun it",
        ),
        pytest.param(looked(observed((-5, 3), ready={1: False, 20: True}), after(20)), id="nobody saw the window end"),
        pytest.param(looked(observed((-5, 3)), after(20)), id="nobody saw the window end, all is well later"),
        pytest.param(ended_with((-5, 3), TargetState(name=BAD.name)), id="the target was deleted while it ran"),
        pytest.param(ended_with((-5, 3), replace(GOOD, uid="v")), id="the target was created again while it ran"),
        pytest.param(
            replace(observed((-0.5, 3)), watch=watched(GOOD).ended(GOOD, at=END)),
            id="the alert began because of the run",
        ),
        pytest.param(
            replace(observed(), watch=watched(GOOD).ended(GOOD, at=END)),
            id="nothing was wrong",
        ),
        pytest.param(
            Observed(phase=Phase.SUCCEEDED, started_at=START, finished_at=END, window=WINDOW), id="nothing is known"
        ),
    ],
)
def test_what_nobody_saw_is_unknown(run: Observed) -> None:
    assert decide(run).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("said", "episode", "outcome"),
    [
        ({-2: False, 3: True, 15: True}, None, Outcome.HELPED),
        ({-2: False, 15: False}, None, Outcome.NOT_HELPED),
        ({-2: False, 3: True, 9: False, 10: True, 15: True}, None, Outcome.RELAPSED),
        ({-2: True, 15: True}, None, Outcome.UNKNOWN),
        ({-2: False, 3: True, 15: True}, (-5, None), Outcome.NOT_HELPED),
        ({-2: True, 9: False, 15: False}, (-5, 3), Outcome.RELAPSED),
        ({}, (-5, 3), Outcome.UNKNOWN),
        ({}, (-5, None), Outcome.NOT_HELPED),
    ],
)
def test_a_query_has_to_say_so_too(
    said: dict[float, bool], episode: tuple[float, float | None] | None, outcome: Outcome
) -> None:
    run = observed(*[episode] if episode else [])
    ready = replace(run, watch=watched(GOOD).ended(GOOD, at=END))
    samples = tuple((after(minute), well) for minute, well in said.items())
    verdict = decide(replace(ready, query="errors", measured=samples, unmeasured="" if said else "no value"))
    assert verdict.outcome is outcome, verdict.feedback
    if outcome is Outcome.HELPED:
        assert "query errors was 1 then" in verdict.feedback


def test_what_a_target_is_in_the_end_is_known_however_often_it_changed() -> None:
    run = observed((-5, 3), ready={minute / 10: bool(minute % 2) for minute in range(2, 150)})
    assert run.watch.ready[-1] == (after(14.9), True)
    assert len(run.watch.ready) == 50
    last = observed((-5, 3), ready={minute / 10: bool(minute % 2) for minute in range(2, 151)})
    assert "Deployment/web was not ready" in decide(last).feedback


def test_an_attempt_to_start_a_run_after_another_keeps_what_was_noted_first() -> None:
    watch = TargetWatch().before_start(BAD, at=START)
    assert watch.before_start(BAD, at=after(1)) == watch
    changed = watch.before_start(GOOD, at=START).before_start(BAD, at=START)
    assert (changed.before, changed.changed) == (
        BAD,
        "Deployment/web was not the same at a second attempt to start the run, at 12:00:00 UTC",
    )


def test_what_nobody_saw_before_a_first_attempt_is_not_seen_at_a_second() -> None:
    watch = TargetWatch().before_start(None, at=START).before_start(BAD, at=after(1))
    assert watch.before is None
    verdict = decide(replace(observed((-5, 3)), watch=watch.ended(GOOD, at=END)))
    assert (verdict.outcome, verdict.feedback) == (
        Outcome.UNKNOWN,
        "the target could not be read before the run began",
    )


def test_a_target_that_was_ready_and_is_not_was_not_helped() -> None:
    watch = watched(GOOD).ended(GOOD, at=END).seen(BAD, at=after(8))
    assert decide(replace(observed(), episodes=None, of_alert=False, watch=watch)).outcome is Outcome.NOT_HELPED


def test_the_window_is_that_of_the_workflow_else_fifteen_minutes_in_all() -> None:
    assert window_of({}).total == 900
    assert window_of({"spec": {"verification": {"window": "90s"}}}) == Window(stabilization=300, seconds=90)


def test_the_verdict_on_a_run_of_an_alert_waits_for_what_is_reported_late() -> None:
    assert [window_of({}).verdict_after(of_alert=each) for each in (False, True)] == [900, 1200]
    assert Window(stabilization=1, seconds=8).verdict_after(of_alert=True) == 13


@given(st.integers(min_value=0, max_value=500), st.integers(min_value=1, max_value=500))
def test_the_interval_holds_the_share_and_a_rate_takes_five_runs(helped: int, runs: int) -> None:
    helped = min(helped, runs)
    low, high = wilson_interval(helped, runs)
    assert 0 <= low <= round(helped / runs, 4) <= high <= 1
    assert (success_rate(helped, runs) is None) == (runs < 5)


def test_only_what_is_known_has_a_fitness() -> None:
    assert [FITNESS.get(each) for each in Outcome] == [1, 0, None, 0]
