"""Measures of rankings and confidences, on cases that are worked out by hand."""

import math

import pytest

from quality_judgements import Judgement
from quality_metrics import (
    auroc,
    estimate,
    expected_calibration_error,
    found,
    ndcg,
    reciprocal_rank,
    reliability_by_mass,
    reliability_by_width,
)
from quality_summary import OURS, OVERALL, Answered, summarise
from quality_variants import Variant


def answered(
    *,
    best: tuple[str, ...] = ("right",),
    ours: list[str],
    dense: list[str],
    confidences: list[float],
    variant: Variant = Variant.FILTERED,
) -> Answered:
    judgement = Judgement(
        id="q", kind="alert" if best else "nothing", part="held", query="q", best=best, acceptable=(), labels={}
    )
    rankings = {OURS: ours, "dense": dense}
    return Answered(
        judgement=judgement, variant=variant, rankings=rankings, confidences=confidences, mode="hybrid", allowed=3
    )


def test_reciprocal_rank_looks_for_the_first_answer_of_the_grade_up_to_the_cutoff() -> None:
    assert reciprocal_rank([0, 1, 2], least=2) == pytest.approx(1 / 3)
    assert reciprocal_rank([0, 1, 2], least=1) == pytest.approx(1 / 2)
    assert reciprocal_rank([0, 0, 2], least=2, cutoff=2) == 0
    assert reciprocal_rank([], least=1) == 0


def test_found_is_whether_the_grade_is_among_the_first() -> None:
    assert found([1, 2], least=2, cutoff=1) == 0
    assert found([1, 2], least=2, cutoff=2) == 1


def test_ndcg_is_one_for_the_perfect_order_and_discounts_by_the_logarithm_of_the_place() -> None:
    assert ndcg([2, 1, 0], ideal=[1, 2]) == pytest.approx(1)
    assert ndcg([0, 2], ideal=[2]) == pytest.approx(1 / math.log2(3))
    assert ndcg([1, 2], ideal=[2, 1]) == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert ndcg([0], ideal=[]) == 0


def test_an_estimate_is_the_mean_inside_its_interval_and_the_same_every_time() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 1.0]

    measured = estimate(values)

    assert measured.mean == pytest.approx(0.7)
    assert 0.2 <= measured.low < measured.mean < measured.high <= 1.0
    assert estimate(values) == measured


def test_equal_values_leave_no_doubt_and_no_values_give_no_number() -> None:
    assert estimate([0.5, 0.5]) == estimate([0.5])
    assert math.isnan(estimate([]).mean)


def test_auroc_counts_the_pairs_in_the_right_order_and_ties_half() -> None:
    assert auroc(positives=[0.9, 0.4], negatives=[0.5, 0.4]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert math.isnan(auroc(positives=[], negatives=[0.1]))


def test_bins_of_equal_width_hold_their_means_and_the_last_takes_one() -> None:
    first, last = reliability_by_width([0.1, 0.3, 1.0], [False, True, True], bins=2)

    assert (first.low, first.high, first.count, first.right) == (0, 0.5, 2, 0.5)
    assert first.confidence == pytest.approx(0.2)
    assert (last.count, last.confidence, last.right) == (1, 1, 1)


def test_bins_of_equal_mass_hold_equally_many() -> None:
    bins = reliability_by_mass([0.4, 0.1, 0.2, 0.3], [True, False, False, True], bins=2)

    assert [(each.low, each.high, each.count, each.right) for each in bins] == [(0.1, 0.2, 2, 0), (0.3, 0.4, 2, 1)]


def test_the_calibration_error_weighs_the_gap_of_each_bin_by_its_answers() -> None:
    bins = reliability_by_width([0.2, 0.2, 0.2, 0.9], [False, True, False, True], bins=2)

    assert expected_calibration_error(bins) == pytest.approx(0.75 * abs(0.2 - 1 / 3) + 0.25 * 0.1)
    assert math.isnan(expected_calibration_error([]))


def test_a_summary_compares_ours_with_the_best_baseline_and_tells_right_answers_from_nothing_fits() -> None:
    summary = summarise(
        [
            answered(ours=["right", "other"], dense=["other", "right"], confidences=[0.8, 0.1]),
            answered(ours=["other", "right"], dense=["other", "right"], confidences=[0.4, 0.3]),
            answered(best=(), ours=["other"], dense=["other"], confidences=[0.2]),
        ]
    )

    assert summary.ranking["MRR@10"][OVERALL][OURS].mean == pytest.approx(0.75)
    assert summary.ranking["recall@1"]["alert"]["dense"].mean == 0
    assert summary.rival == "dense"
    assert summary.lead["MRR@10"][OVERALL].mean == pytest.approx(0.25)
    assert summary.separation == 1
    assert summary.confident["wrong"]["p50"] == pytest.approx(0.4)
    assert summary.calibration["first answers"].answers == 3
    assert summary.calibration["all answers"].answers == 5
    assert (summary.counts["alert"], summary.counts["nothing"]) == (2, 1)


def test_a_summary_tells_apart_under_which_constraints_an_answer_was_given() -> None:
    right, wrong = ["right", "other"], ["other", "right"]
    summary = summarise(
        [
            answered(ours=right, dense=wrong, confidences=[0.8, 0.1]),
            answered(ours=wrong, dense=wrong, confidences=[0.6, 0.1], variant=Variant.INCIDENT),
            answered(best=(), ours=["other"], dense=["other"], confidences=[0.7], variant=Variant.EXCLUDED),
            answered(best=(), ours=["other"], dense=["other"], confidences=[0.2], variant=Variant.EXCLUDED),
        ]
    )

    assert {variant: systems[OURS].mean for variant, systems in summary.variants.items()} == {
        Variant.FILTERED: 1,
        Variant.INCIDENT: pytest.approx(1 / 2),
    }
    assert summary.trust[Variant.FILTERED].right_kept == 1
    excluded = summary.trust[Variant.EXCLUDED]
    assert (excluded.answers, excluded.nothing_high, excluded.right_kept, excluded.separation) == (2, 0.5, 1, 1)
    assert summary.counts["alert"] == 1
