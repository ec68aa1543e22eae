"""Which state a signal is in, the totals of many, and what a file of ignored alerts changes.

`workflows/coverage` and the edges call it. Pure, so that its properties are tested without a catalog.
"""

from collections.abc import Iterable, Mapping, Sequence

from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoverageTotals, CoveredSignal, State
from formulary_catalog.domain.search.scoring import WEAK_CONFIDENCE
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
    """The answers to the parts of a long list of alerts as one; there is at least one."""
    signals = in_order(each for answer in answers for each in answer.signals)
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    return answers[0].model_copy(update={"signals": signals, "totals": totals_of(signals), "notes": list(notes)})


def with_ignored(answer: CoverageAnswer, reasons: Mapping[str, str]) -> CoverageAnswer:
    """The answer with these alerts ignored, by name, each for its reason. A note names those that are not there."""
    by_fold = {fold(name): reason for name, reason in reasons.items()}
    signals = in_order(each.model_copy(update={"ignored": by_fold.get(fold(each.name), "")}) for each in answer.signals)
    there = {fold(each.name) for each in answer.signals}
    missing = [name for name in reasons if fold(name) not in there]
    notes = [f"ignored alerts that are not here, to be removed: {', '.join(missing)}"] if missing else []
    return answer.model_copy(
        update={"signals": signals, "totals": totals_of(signals), "notes": [*answer.notes, *notes]}
    )


def failing(totals: CoverageTotals, *, fail_on: str) -> bool:
    """Whether a check fails: for `none` if something has no remedy, for `weak` also if something has a weak one."""
    if fail_on == "weak":
        return bool(totals.none or totals.weak)
    return fail_on == "none" and bool(totals.none)
