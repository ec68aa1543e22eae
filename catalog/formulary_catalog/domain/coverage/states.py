"""Which state a signal is in, the totals of many, and what a file of ignored alerts changes.

`services/workflows/coverage` and the edges call it. Pure, so that its properties are tested without a catalog.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoverageTotals, CoveredSignal, State
from formulary_catalog.domain.coverage.kinds import is_same_kind, kinds_of
from formulary_catalog.domain.workflows.labels import fold

UNLIKELY = 0.1
"""A best hit with less confidence is no remedy: nine of ten such answers are wrong."""
SEVEREST_FIRST: tuple[State, ...] = ("none", "weak", "declared_only", "covered")


class Remedy(NamedTuple):
    """A workflow that a search found for an alert. `kinds`: of the objects that it is about; `declares`: the alert."""

    workflow_id: str
    confidence: float
    kinds: frozenset[str] = frozenset()
    declares: bool = False


class Judgement(NamedTuple):
    """The state of an alert, the remedy that puts it there, None if none does, and why it is not covered."""

    state: State
    remedy: Remedy | None = None
    reason: str = ""


def judged(alert: Alert, found: Sequence[Remedy], *, declared_by: int) -> Judgement:
    """The state of an alert for which these were found, the best first, and that so many workflows declare.

    A remedy about another kind of object covers nothing. Where nothing says what the alert is about, only a workflow
    that declares it is known to be about the same.
    """
    known = frozenset(chain.from_iterable(each.kinds for each in found))
    kinds = kinds_of(alert.name, alert.summary, known=known)
    for each in found:
        if each.confidence >= WEAK_CONFIDENCE and not _mismatch(kinds, each):
            return Judgement("covered", each)
    if declared_by:
        declaring = next((each for each in found if each.declares), None)
        return Judgement("declared_only", declaring, _shortcoming(kinds, declaring))
    best = found[0] if found else None
    if best is None or best.confidence < UNLIKELY:
        return Judgement("none")
    return Judgement("weak", best, _shortcoming(kinds, best))


def _mismatch(kinds: frozenset[str], remedy: Remedy) -> str:
    """What says that a remedy is not about the kinds of an alert; empty where it is."""
    about = ", ".join(sorted(remedy.kinds))
    if kinds:
        same = is_same_kind(kinds, remedy.kinds)
        return "" if same else f"the alert is about {', '.join(sorted(kinds))}, the remedy about {about}"
    if remedy.declares or is_same_kind(kinds, remedy.kinds):
        return ""
    return f"the alert does not say whether it is about {about}; if it is, declare it in signalType"


def _shortcoming(kinds: frozenset[str], remedy: Remedy | None) -> str:
    """Why the best remedy does not cover an alert."""
    if remedy is None:
        return "a search does not find what declares it"
    return f"confidence below {WEAK_CONFIDENCE}" if remedy.confidence < WEAK_CONFIDENCE else _mismatch(kinds, remedy)


def in_words(state: State) -> str:
    """A state as people read it."""
    return state.replace("_", " ")


def in_order(signals: Iterable[CoveredSignal]) -> list[CoveredSignal]:
    """The uncovered first, then the most wanted, then by name; what is ignored last."""
    return sorted(
        signals,
        key=lambda each: (bool(each.ignored), SEVEREST_FIRST.index(each.state), -each.demand, fold(each.name)),
    )


def totals_of(signals: Sequence[CoveredSignal]) -> CoverageTotals:
    """How many are in each state. What is ignored counts as that alone."""
    counted = [each for each in signals if not each.ignored]
    demand = sum(each.demand for each in counted)
    met = sum(each.demand for each in counted if each.state == "covered")
    return CoverageTotals(
        **{state: sum(each.state == state for each in counted) for state in SEVEREST_FIRST},
        ignored=len(signals) - len(counted),
        demand_covered=round(met / demand, 4) if demand else None,
    )


def joined(answers: Sequence[CoverageAnswer]) -> CoverageAnswer:
    """The answers to the parts of a long list of alerts, or all pages, as one; there is at least one.

    Waiting are alerts that the last answer knows of and none has: they came after their page had been listed.
    """
    signals = in_order(each for answer in answers for each in answer.signals)
    alerts = in_order(each for answer in answers for each in answer.alerts)
    last = answers[-1]
    known = last.alerts_waiting + (last.alert_totals.number if last.alert_totals is not None else 0)
    known_signals = last.signals_waiting + last.totals.number
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    return answers[0].model_copy(
        update={
            "signals": signals,
            "totals": totals_of(signals),
            "signals_waiting": max(known_signals - len(signals), 0),
            "alerts": alerts,
            "alert_totals": totals_of(alerts) if any(answer.alert_totals for answer in answers) else None,
            "alerts_waiting": max(known - len(alerts), 0),
            "next_cursor": "",
            "notes": list(notes),
        }
    )


def with_ignored(answer: CoverageAnswer, reasons: Mapping[str, str]) -> CoverageAnswer:
    """The answer with these signals and alerts ignored, by name, each for its reason.

    A note names those that are not there.
    """
    by_fold = {fold(name): reason for name, reason in reasons.items()}
    signals, alerts = (
        in_order(each.model_copy(update={"ignored": by_fold.get(fold(each.name), each.ignored)}) for each in some)
        for some in (answer.signals, answer.alerts)
    )
    there = {fold(each.name) for each in (*signals, *alerts)}
    missing = [name for name in reasons if fold(name) not in there]
    notes = [f"ignored alerts that are not here, to be removed: {', '.join(missing)}"] if missing else []
    return answer.model_copy(
        update={
            "signals": signals,
            "totals": totals_of(signals),
            "alerts": alerts,
            "alert_totals": totals_of(alerts) if answer.alert_totals is not None else None,
            "notes": [*answer.notes, *notes],
        }
    )


def with_notes(answer: CoverageAnswer, notes: Sequence[str]) -> CoverageAnswer:
    """The answer with these notes first."""
    return answer.model_copy(update={"notes": [*notes, *answer.notes]}) if notes else answer


def failing(answer: CoverageAnswer, *, fail_on: Literal["none", "weak"]) -> bool:
    """Whether a check fails: for `none` if something has no remedy, for `weak` if something is not covered.

    It is about the alerts of the cluster where there are any. One that was not compared may have no remedy.
    """
    totals, waiting = answer.totals, answer.signals_waiting
    if answer.alert_totals is not None:
        totals, waiting = answer.alert_totals, answer.alerts_waiting
    return bool(waiting or totals.none or (fail_on == "weak" and totals.weak + totals.declared_only))
