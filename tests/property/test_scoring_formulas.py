"""The scoring formulas by themselves."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.scoring import SearchMode, confidence, hybrid, scaled, strength

unit = st.floats(0, 1)
cosines = st.floats(-1, 1)
modes = st.sampled_from(SearchMode)


@given(values=st.lists(st.floats(-1, 1), min_size=1))
def test_scaling_keeps_the_order_and_spans_0_to_1(values: list[float]) -> None:
    result = scaled(values)
    assert all(0 <= value <= 1 for value in result)
    assert all(
        (a <= b) or (x > y)
        for (a, x) in zip(result, values, strict=True)
        for (b, y) in zip(result, values, strict=True)
    )
    if min(values) < max(values):
        assert result[values.index(min(values))] == 0
        assert result[values.index(max(values))] == 1


def test_equal_values_tell_nothing_apart() -> None:
    assert scaled([]) == []
    assert scaled([0.4, 0.4]) == [1, 1]
    assert scaled([0, 0]) == [0, 0]
    assert scaled([-0.4]) == [0]


def test_the_hybrid_score_is_half_meaning_and_half_words() -> None:
    assert hybrid(cosines=[0.2, 0.6, 1.0], lexical=[0.0, 0.3, 0.1]) == [0, 0.75, 0.666667]


@given(mode=modes, cosine=cosines | st.none(), coverage=unit)
def test_the_strength_of_the_best_candidate_lies_in_0_to_1(
    mode: SearchMode, cosine: float | None, coverage: float
) -> None:
    assert 0 <= strength(mode=mode, cosine=cosine, word_coverage=coverage) <= 1


@given(
    mode=modes,
    cosine=cosines,
    coverage=unit,
    candidates=st.lists(st.tuples(st.integers(0, 12), unit.map(lambda score: round(score, 6))), min_size=1),
)
def test_confidence_never_rises_along_the_order(
    mode: SearchMode, cosine: float, coverage: float, candidates: list[tuple[int, float]]
) -> None:
    ordered = sorted(candidates, key=lambda candidate: (candidate[0], -candidate[1]))
    best = strength(mode=mode, cosine=cosine, word_coverage=coverage)
    confidences = [
        confidence(best_strength=best, score=score, generic_labels=generic, fewest_generic_labels=ordered[0][0])
        for generic, score in ordered
    ]
    assert all(0 <= value <= 1 for value in confidences)
    assert all(first >= second for first, second in pairwise(confidences))


def test_the_formulas_are_the_documented_ones() -> None:
    assert strength(mode=SearchMode.HYBRID, cosine=0.6, word_coverage=0.5) == 0.55
    assert strength(mode=SearchMode.HYBRID, cosine=-0.2, word_coverage=0.5) == 0.25
    assert strength(mode=SearchMode.LEXICAL, cosine=None, word_coverage=0.5) == 0.5
    assert strength(mode=SearchMode.LABELS_ONLY, cosine=0.9, word_coverage=0) == 0.5
    assert confidence(best_strength=0.8, score=1, generic_labels=2, fewest_generic_labels=2) == 0.8
    assert confidence(best_strength=0.8, score=0.5, generic_labels=3, fewest_generic_labels=2) == 0.3
