"""Which state a signal is in, the totals of many, and what a file of ignored alerts changes.

`workflows/coverage` and the edges call it. Pure, so that its properties are tested without a catalog.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE
from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoverageTotals, CoveredSignal, State
from formulary_catalog.domain.workflows.labels import fold

UNLIKELY = 0.1
"""A best hit with less confidence is no remedy: nine of ten such answers are wrong."""
SEVEREST_FIRST: tuple[State, ...] = ("none", "weak", "covered")


def state_of(*, confidence: float | None, declared_by: int) -> State:
    """The state of a signal with this best confidence, None for no hit, that so many workflows declare."""
    likely = confidence or 0.0
    if declared_by or likely >= WEAK_CONFIDENCE:
        return "covered"
    return "weak" if likely >= UNLIKELY else "none"


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
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    return answers[0].model_copy(
        update={
            "signals": signals,
            "totals": totals_of(signals),
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


def failing(answer: CoverageAnswer, *, fail_on: Literal["none", "weak"]) -> bool:
    """Whether a check fails: for `none` if something has no remedy, for `weak` also if something has a weak one.

    It is about the alerts of the cluster where there are any. One that was not compared may have no remedy.
    """
    totals = answer.alert_totals or answer.totals
    return bool(answer.alerts_waiting or totals.none or (fail_on == "weak" and totals.weak))
