"""From the answers to judged queries to the numbers that are published."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from quality_judgements import ACCEPTABLE, BEST, KINDS, Judgement
from quality_metrics import (
    Bin,
    Estimate,
    auroc,
    estimate,
    expected_calibration_error,
    found,
    ndcg,
    reciprocal_rank,
    reliability_by_mass,
    reliability_by_width,
)
from quality_variants import Variant

OURS = "ours"
OVERALL = "overall"
HIGH = 0.5
"""A first answer of this confidence is taken for right."""
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What each system answered to a query.

    Of ours, in its order, are the confidences, the notes, and the caution of the first answer, empty without one.
    `by_default`: what it answers where nobody says how many are wanted.
    """

    judgement: Judgement
    variant: Variant
    rankings: Mapping[str, Sequence[str]]
    confidences: Sequence[float]
    mode: str
    allowed: int
    notes: Sequence[str] = ()
    by_default: Sequence[str] = ()
    caution: str = ""

    def grades(self, system: str) -> list[int]:
        """The grades of a system's answers in their order."""
        return [self.judgement.grade(name) for name in self.rankings[system]]

    @property
    def left_out(self) -> list[str]:
        """The right answers that are missing by default."""
        return [name for name in self.rankings[OURS] if self.judgement.grade(name) > 0 and name not in self.by_default]

    @property
    def judged_confidences(self) -> list[tuple[float, bool]]:
        """Confidence of each answer of ours, and whether it was right: best or acceptable."""
        return [(given, grade > 0) for given, grade in zip(self.confidences, self.grades(OURS), strict=True)]


Measure = Callable[[Judgement, Sequence[int]], float]
METRICS: Mapping[str, Measure] = {
    "MRR@10": lambda _, grades: reciprocal_rank(grades, least=BEST),
    "nDCG@10": lambda judgement, grades: ndcg(grades, ideal=judgement.ideal),
    "recall@1": lambda _, grades: found(grades, least=BEST, cutoff=1),
    "recall@5": lambda _, grades: found(grades, least=BEST, cutoff=5),
    "MRR@10, acceptable too": lambda _, grades: reciprocal_rank(grades, least=ACCEPTABLE),
}
HEADLINE = "MRR@10"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How far the confidence of first answers can be believed under some constraints.

    `error`: the expected calibration error. `right_kept`: the share of right first answers with 0.5 or more.
    `nothing_high`: the share of 0.5 or more where no workflow is right. `separation`: AUROC of right first answers
    against those where none is. NaN where a side has no query. `left_out`: right answers that are missing by default.
    """

    answers: int
    error: float
    right_kept: float
    nothing_high: float
    separation: float
    left_out: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far confidence can be believed, over some answers."""

    answers: int
    error_by_width: float
    error_by_mass: float
    bins: list[Bin]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All numbers of a run.

    `variants`: MRR@10 by constraints and system. `trust`: by constraints; where every right answer is excluded, right
    first answers are those of the filtered queries. `curve`: by threshold, the share of first answers that reach it:
    right ones, those to queries that nothing answers, those whose right answers are excluded. The rest is about
    filtered queries. `ranking`: by metric, kind and system. `lead`: by metric and kind, ours minus `rival`, the
    baseline with the highest MRR@10 overall. `calibration`: by which answers. `confident`: quantiles of the first
    answer's confidence by whether it was right, wrong, or nothing was. `separation`: AUROC of right first answers
    against queries that nothing fits.
    """

    counts: dict[str, int]
    variants: dict[str, dict[str, Estimate]]
    trust: dict[str, Trust]
    curve: dict[str, dict[str, float]]
    rival: str
    ranking: dict[str, dict[str, dict[str, Estimate]]]
    lead: dict[str, dict[str, Estimate]]
    calibration: dict[str, Calibration]
    confident: dict[str, dict[str, float]]
    separation: float

    def as_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return asdict(self)


def summarise(answers: Sequence[Answered]) -> Summary:
    """Measure every system on every kind; at least one filtered query must have an answer."""
    by_variant = {variant: [each for each in answers if each.variant is variant] for variant in Variant}
    answers = by_variant[Variant.FILTERED]
    judged = [each for each in answers if each.judgement.has_answer]
    by_kind = {kind: [each for each in judged if each.judgement.kind == kind] for kind in KINDS}
    groups = {kind: of_kind for kind, of_kind in by_kind.items() if of_kind} | {OVERALL: judged}
    systems = list(judged[0].rankings)
    values = {
        metric: {group: {system: _values(measure, of, system) for system in systems} for group, of in groups.items()}
        for metric, measure in METRICS.items()
    }
    overall = values[HEADLINE][OVERALL]
    rival = max((system for system in systems if system != OURS), key=lambda system: float(np.mean(overall[system])))
    return Summary(
        variants={
            variant: {system: estimate(_values(METRICS[HEADLINE], with_answer, system)) for system in systems}
            for variant, of in by_variant.items()
            if (with_answer := [each for each in of if each.judgement.has_answer])
        },
        trust={
            variant: _trust(of, right=answers if variant is Variant.EXCLUDED else of)
            for variant, of in by_variant.items()
            if of
        },
        curve=_curve(by_variant[Variant.FILTERED], excluded=by_variant[Variant.EXCLUDED]),
        counts={kind: sum(each.judgement.kind == kind for each in answers) for kind in KINDS},
        rival=rival,
        ranking={
            metric: {
                group: {system: estimate(of) for system, of in by_system.items()} for group, by_system in groups.items()
            }
            for metric, groups in values.items()
        },
        lead={
            metric: {
                group: estimate(list(np.subtract(by_system[OURS], by_system[rival])))
                for group, by_system in groups.items()
            }
            for metric, groups in values.items()
        },
        calibration={
            "first answers": _calibration([each.judged_confidences[:1] for each in answers]),
            "first answers where something fits": _calibration([each.judged_confidences[:1] for each in judged]),
            "all answers": _calibration([each.judged_confidences for each in answers]),
        },
        confident={name: _quantiles(given) for name, given in _first_confidences(answers).items()},
        separation=auroc(
            positives=_first_confidences(answers)["right"], negatives=_first_confidences(answers)["nothing fits"]
        ),
    )


def _values(measure: Measure, answers: Sequence[Answered], system: str) -> list[float]:
    return [measure(each.judgement, each.grades(system)) for each in answers]


def _calibration(judged: Sequence[Sequence[tuple[float, bool]]]) -> Calibration:
    pairs = [pair for of_query in judged for pair in of_query]
    confidences, right = [given for given, _ in pairs], [came for _, came in pairs]
    by_width = reliability_by_width(confidences, right)
    return Calibration(
        answers=len(pairs),
        error_by_width=expected_calibration_error(by_width),
        error_by_mass=expected_calibration_error(reliability_by_mass(confidences, right)),
        bins=by_width,
    )


def _first_confidences(answers: Sequence[Answered]) -> dict[str, list[float]]:
    """Confidence of the first answers; nothing returned counts as 0, which is right where nothing fits."""
    first: dict[str, list[float]] = {"right": [], "wrong": [], "nothing fits": []}
    for each in answers:
        given, right = each.judged_confidences[0] if each.confidences else (0.0, False)
        name = ("right" if right else "wrong") if each.judgement.has_answer else "nothing fits"
        first[name].append(given)
    return first


def _trust(answers: Sequence[Answered], *, right: Sequence[Answered]) -> Trust:
    first = [each.judged_confidences[0] if each.confidences else (0.0, False) for each in answers]
    kept, nothing = _first_confidences(right)["right"], _first_confidences(answers)["nothing fits"]
    return Trust(
        answers=len(first),
        error=expected_calibration_error(
            reliability_by_width([given for given, _ in first], [came for _, came in first])
        ),
        right_kept=_share_high(kept),
        nothing_high=_share_high(nothing),
        separation=auroc(positives=kept, negatives=nothing),
        left_out=sum(len(each.left_out) for each in answers),
    )


def _curve(filtered: Sequence[Answered], *, excluded: Sequence[Answered]) -> dict[str, dict[str, float]]:
    first = _first_confidences(filtered)
    groups = {
        "right": first["right"],
        "nothing fits": first["nothing fits"],
        "right answers excluded": _first_confidences(excluded)["nothing fits"],
    }
    return {
        f"{least:.1f}": {name: _share_high(given, least=least) for name, given in groups.items()}
        for least in THRESHOLDS
    }


def _share_high(confidences: Sequence[float], *, least: float = HIGH) -> float:
    return float(np.mean(np.asarray(confidences) >= least)) if confidences else float("nan")


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {f"p{quantile * 100:.0f}": float(np.quantile(values, quantile)) for quantile in _QUANTILES}
