"""The order of the candidates and their confidence, by themselves."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.confidence import BY_MEANING, BY_WORDS, Hints, confidences, hints, of_labels_only
from formulary_catalog.domain.evidence import Evidence, Place
from formulary_catalog.domain.fitting import (
    CONFIRMED_WEIGHT,
    MEANING_WEIGHT,
    WORDS_WEIGHT,
    Fit,
    fits,
    standardized,
    telling,
)
from formulary_catalog.domain.scoring import Scored, SearchMode, rank, scaled
from formulary_catalog.domain.terms import Term

TERMS = (
    Term(word="oomkilled", origin="oomkill"),
    Term(word="memory limit", origin="oomkill"),
    Term(word="the", origin="the"),
    Term(word="java", origin="java"),
)
USABLE = (True, True, False, True)
PLACES = st.tuples(st.sampled_from(Place), st.sampled_from(Place), st.just(Place.NONE), st.sampled_from(Place))
NOWHERE = (Place.NONE,) * len(TERMS)
modes = st.sampled_from(SearchMode)
evidence = st.builds(
    Evidence,
    version_id=st.uuids().map(str),
    namespace=st.sampled_from("ab"),
    name=st.sampled_from("abcdefgh"),
    generic_labels=st.integers(0, 2),
    confirmed_labels=st.integers(0, 2),
    cosine=st.none() | st.sampled_from([-1.0, 0.0, 0.25, 1.0]) | st.floats(-1, 1),
    places=PLACES,
)
pools = st.lists(evidence, max_size=12, unique_by=lambda one: (one.namespace, one.name))


def found(
    name: str,
    *,
    cosine: float | None = None,
    places: tuple[Place, ...] = NOWHERE,
    generic_labels: int = 0,
    confirmed_labels: int = 0,
) -> Evidence:
    """Evidence about a workflow of that name."""
    return Evidence(
        version_id=name,
        namespace="a",
        name=name,
        generic_labels=generic_labels,
        confirmed_labels=confirmed_labels,
        cosine=cosine,
        places=places,
    )


def ranked(pool: list[Evidence], *, mode: SearchMode = SearchMode.HYBRID) -> list[Scored]:
    """The pool in order, by the terms above."""
    return rank(pool, terms=TERMS, usable=USABLE, mode=mode, limit=len(pool))


def names(pool: list[Evidence], *, mode: SearchMode = SearchMode.HYBRID) -> list[str]:
    """The names of the pool in order."""
    return [scored.evidence.name for scored in ranked(pool, mode=mode)]


@given(pool=pools, mode=modes, data=st.data())
def test_the_order_does_not_hang_on_the_order_of_the_evidence(
    pool: list[Evidence], mode: SearchMode, data: st.DataObject
) -> None:
    assert ranked(data.draw(st.permutations(pool)), mode=mode) == ranked(pool, mode=mode)


@given(pool=pools, mode=modes)
def test_candidates_stand_by_generic_labels_then_score_then_name_then_namespace(
    pool: list[Evidence], mode: SearchMode
) -> None:
    keys = [
        (each.evidence.generic_labels, -each.score, each.evidence.name, each.evidence.namespace)
        for each in ranked(pool, mode=mode)
    ]
    assert keys == sorted(keys)
    assert len(keys) == len(pool)


@given(pool=pools, mode=modes, limit=st.integers(0, 15))
def test_a_page_is_the_beginning_of_the_whole_order(pool: list[Evidence], mode: SearchMode, limit: int) -> None:
    assert rank(pool, terms=TERMS, usable=USABLE, mode=mode, limit=limit) == ranked(pool, mode=mode)[:limit]


@given(pool=pools, mode=modes)
def test_scores_and_confidences_lie_in_0_to_1_and_confidence_never_rises(
    pool: list[Evidence], mode: SearchMode
) -> None:
    order = ranked(pool, mode=mode)
    assert all(0 <= each.score <= 1 and 0 <= each.confidence <= 1 for each in order)
    assert all(first.confidence >= second.confidence for first, second in pairwise(order))
    assert not order or max(each.score for each in order) == 1


@given(pool=pools)
def test_without_meaning_the_cosines_do_not_matter(pool: list[Evidence]) -> None:
    blind = [replace(one, cosine=None) for one in pool]
    seen, unseen = ranked(pool, mode=SearchMode.LEXICAL), ranked(blind, mode=SearchMode.LEXICAL)
    assert [(each.evidence.name, each.score, each.confidence) for each in seen] == [
        (each.evidence.name, each.score, each.confidence) for each in unseen
    ]


def test_a_nearer_meaning_stands_first() -> None:
    assert names([found("far", cosine=0.2), found("near", cosine=0.4)]) == ["near", "far"]


def test_a_candidate_without_a_vector_counts_as_the_furthest() -> None:
    pool = [found("b", cosine=0.2), found("a"), found("c", cosine=0.3)]
    assert names(pool) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("lesser", "greater"),
    [
        (Place.NONE, Place.SIGNAL),
        (Place.SIGNAL, Place.WHAT),
        (Place.SIGNAL, Place.WHEN_TO_USE),
        (Place.WHAT, Place.NAME),
        (Place.WHEN_TO_USE, Place.NAME),
    ],
)
def test_a_word_in_a_more_telling_place_counts_for_more(lesser: Place, greater: Place) -> None:
    pool = [found("a", places=(lesser, *NOWHERE[1:])), found("b", places=(greater, *NOWHERE[1:]))]
    assert names(pool, mode=SearchMode.LEXICAL) == ["b", "a"]


def test_what_and_when_to_use_count_alike() -> None:
    pool = [found("a", places=(Place.WHAT, *NOWHERE[1:])), found("b", places=(Place.WHEN_TO_USE, *NOWHERE[1:]))]
    assert [each.score for each in ranked(pool, mode=SearchMode.LEXICAL)] == [1, 1]


def test_a_rare_word_tells_more_than_a_common_one() -> None:
    memory = found("a", places=(Place.WHAT, *NOWHERE[1:]))
    java = found("z", places=(*NOWHERE[:3], Place.WHAT))
    assert names([memory, replace(memory, name="b"), java], mode=SearchMode.LEXICAL) == ["z", "a", "b"]
    assert telling(1, of=3) > telling(2, of=3) > telling(3, of=3) > 0
    assert telling(1, of=9) == math.log(1 + 8.5 / 1.5)


def test_two_words_for_the_same_part_of_the_query_count_once() -> None:
    one = found("a", places=(Place.WHAT, *NOWHERE[1:]))
    both = found("b", places=(Place.WHAT, Place.WHAT, Place.NONE, Place.NONE))
    two = found("c", places=(Place.WHAT, Place.NONE, Place.NONE, Place.WHAT))
    measured = {
        name: fit.log_odds
        for name, fit in zip("abc", fits([one, both, two], terms=TERMS, usable=USABLE, by_meaning=False), strict=True)
    }
    assert measured["b"] == WORDS_WEIGHT * telling(1, of=3)  # the rarer of the two, not their sum
    assert measured["c"] == WORDS_WEIGHT * (telling(3, of=3) + telling(1, of=3))


def test_the_more_of_what_it_requires_the_incident_has_the_higher_a_candidate_stands() -> None:
    pool = [found("a"), found("b", confirmed_labels=1), found("c", confirmed_labels=2)]
    for mode in SearchMode:
        assert names(pool, mode=mode) == ["c", "b", "a"]


def test_the_odds_are_meaning_plus_words_plus_confirmed_labels_as_documented() -> None:
    places = (Place.NAME, *NOWHERE[1:])
    pool = [found("a", cosine=0.2, places=places), found("b", cosine=0.4, confirmed_labels=2)]
    first, second = fits(pool, terms=TERMS, usable=USABLE, by_meaning=True)
    deviation = math.sqrt((2 * 0.1**2 + 20 * 0.1**2) / 22)
    assert first.log_odds == pytest.approx(MEANING_WEIGHT * -0.1 / deviation + WORDS_WEIGHT * 1.4 * telling(1, of=2))
    assert second.log_odds == pytest.approx(MEANING_WEIGHT * 0.1 / deviation + CONFIRMED_WEIGHT * 2)


def test_of_the_parts_of_a_query_those_count_as_held_of_which_some_word_is_found() -> None:
    half = found("a", places=(Place.WHEN_TO_USE, Place.NONE, Place.NONE, Place.NONE))
    same = found("b", places=(Place.NAME, Place.WHAT, Place.NONE, Place.NONE))
    other = found("c", places=(Place.NONE, Place.NONE, Place.WHAT, Place.SIGNAL))
    both = found("d", places=(Place.NONE, Place.SIGNAL, Place.NONE, Place.NAME))
    neither = found("e")
    fitting = fits([half, same, other, both, neither], terms=TERMS, usable=USABLE, by_meaning=False)
    assert [(fit.held, fit.parts) for fit in fitting] == [(1, 2), (1, 2), (1, 2), (2, 2), (0, 2)]
    assert [fit.covered for fit in fitting] == [0.5, 0.5, 0.5, 1, 0]


def test_a_near_meaning_makes_sure_of_a_candidate_where_meaning_counts() -> None:
    def confidence(cosine: float, *, mode: SearchMode) -> float:
        (only,) = ranked([found("a", cosine=cosine, places=(Place.WHAT, *NOWHERE[1:]))], mode=mode)
        return only.confidence

    assert confidence(0.9, mode=SearchMode.HYBRID) > confidence(0.1, mode=SearchMode.HYBRID)
    assert confidence(0.9, mode=SearchMode.LEXICAL) == confidence(0.1, mode=SearchMode.LEXICAL)


def test_nothing_to_search_for_covers_nothing() -> None:
    assert fits([found("a")], terms=TERMS, usable=(False,) * 4, by_meaning=False) == [Fit(held=0, parts=0, log_odds=0)]
    assert fits([], terms=TERMS, usable=USABLE, by_meaning=True) == []
    assert fits([found("a", places=())], terms=(), usable=(), by_meaning=True) == [Fit(held=0, parts=0, log_odds=0)]


def test_cosines_are_told_in_deviations_that_a_few_candidates_do_not_set() -> None:
    assert standardized([]) == []
    assert standardized([0.3]) == [0]
    near, far = standardized([0.31, 0.30])
    assert near == -far == pytest.approx(0.005 / math.sqrt((2 * 0.005**2 + 20 * 0.1**2) / 22))
    assert standardized([None, 0.5, 0.1]) == standardized([0.1, 0.5, 0.1])
    assert standardized([None, None]) == [0, 0]


def test_scaling_spans_0_to_1_and_gives_equal_values_1() -> None:
    assert scaled([]) == []
    assert scaled([-2.0, -2.0]) == [1, 1]
    assert scaled([0.0]) == [1]
    assert scaled([1.0, 4.0, 2.0]) == [0, 1, 0.333333]


def test_labels_alone_leave_it_open_which_candidate_is_right() -> None:
    order = ranked([found("b"), found("a"), found("c", generic_labels=1)], mode=SearchMode.LABELS_ONLY)
    assert [each.evidence.name for each in order] == ["a", "b", "c"]
    assert [each.confidence for each in order] == [0.25] * 3
    assert of_labels_only(1) == [0.5]
    assert of_labels_only(0) == []


def test_what_speaks_for_a_candidate_are_its_odds_against_the_others_and_none() -> None:
    one, other = found("a", cosine=0.5), found("b")
    first, second = hints([(one, Fit(held=2, parts=5, log_odds=2.0)), (other, Fit(held=0, parts=5, log_odds=0.0))])
    assert first[:4] == (1, 0.5, 0.4, math.log1p(2))
    assert second[:4] == (1, 0, 0, 0)
    assert first.odds == pytest.approx(2 - math.log(1 + math.exp(-1)))
    assert second.odds == pytest.approx(-math.log(math.exp(2) + math.exp(-1)))


def test_copies_in_other_namespaces_are_no_doubt_about_a_candidate() -> None:
    fit, other = Fit(held=2, parts=5, log_odds=2.0), (found("b"), Fit(held=0, parts=5, log_odds=0.0))
    copies = [(replace(found("a", cosine=0.5), namespace=namespace), fit) for namespace in "abc"]
    first, *_, last = hints([*copies, other])
    assert [*hints([copies[0], other])] == [first, last]


def test_the_confidence_is_the_logistic_of_the_weighted_hints() -> None:
    calibration = Hints(constant=-1.0, cosine=2.0, covered=0.5, held=0.1, odds=1.0)
    lone = [(found("a", cosine=0.5), Fit(held=2, parts=5, log_odds=-1.0))]
    assert [*confidences(lone, calibration=calibration)] == [round(1 / (1 + math.exp(-0.2 - 0.1 * math.log1p(2))), 4)]


def test_confidence_is_that_of_the_one_before_where_it_would_rise() -> None:
    candidates = [
        (found("a", cosine=0.1), Fit(held=0, parts=5, log_odds=0.0)),
        (found("b", cosine=0.9), Fit(held=5, parts=5, log_odds=3.0)),
    ]
    first, second = confidences(candidates, calibration=BY_MEANING)
    assert first == second


@pytest.mark.parametrize("calibration", [BY_MEANING, BY_WORDS])
def test_calibrated_confidence_grows_with_all_that_speaks_for_a_candidate(calibration: Hints) -> None:
    assert calibration.covered > 0
    assert calibration.held > 0
    assert calibration.odds > 0
    assert calibration.cosine >= 0


@given(distance=st.floats(0, 600))
def test_confidence_can_be_computed_however_far_candidates_lie_apart(distance: float) -> None:
    candidates = [
        (found("a"), Fit(held=5, parts=5, log_odds=distance)),
        (found("b"), Fit(held=0, parts=5, log_odds=0.0)),
    ]
    first, second = confidences(candidates, calibration=BY_WORDS)
    assert 0 <= second <= first <= 1
