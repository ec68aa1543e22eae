"""The score of a candidate and its confidence, by themselves."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.confidence import (
    BY_MEANING,
    BY_MEANING_ALONE,
    BY_WORDS,
    OF_LABELS_ONLY,
    confidences,
)
from formulary_catalog.domain.search.fit import (
    MEANING_WEIGHT,
    WORDS_WEIGHT,
    Wanted,
    fits,
    places_found,
    words_held,
)
from formulary_catalog.domain.search.label_weights import SEVERITY_CONTRADICTED, SEVERITY_WEIGHT
from formulary_catalog.domain.search.query import QuerySigns
from formulary_catalog.domain.search.scoring import NOISE, Scored, rank, worth_reading
from formulary_catalog.domain.search.terms import USUAL_RARITY, Term, rarity
from formulary_catalog.domain.text import PLACE_WEIGHTS, WordPlace

TERMS = (
    Term(word="oomkilled", origin="oomkill"),
    Term(word="memory limit", origin="oomkill"),
    Term(word="the", origin="the"),
    Term(word="java", origin="java"),
)
USABLE = (True, True, False, True)
WANTED = Wanted.of(TERMS, usable=USABLE)
NOWHERE = bytes(len(TERMS))
modes = st.sampled_from(SearchMode)
evidence = st.builds(
    CandidateEvidence,
    version_id=st.uuids().map(str),
    namespace=st.sampled_from("ab"),
    name=st.sampled_from("abcdefgh"),
    labels=st.sampled_from([0.0, 0.5, 3.0]),
    severity=st.sampled_from([0.0, SEVERITY_WEIGHT, -SEVERITY_CONTRADICTED]),
    cosine=st.none() | st.sampled_from([-1.0, 0.0, 0.25, 1.0]) | st.floats(-1, 1),
    places=st.tuples(
        st.sampled_from(WordPlace), st.sampled_from(WordPlace), st.just(0), st.sampled_from(WordPlace)
    ).map(bytes),
)
pools = st.lists(evidence, max_size=12, unique_by=lambda one: (one.namespace, one.name))


def found(
    name: str,
    *,
    cosine: float | None = None,
    places: bytes = NOWHERE,
    labels: float = 0.0,
    severity: float = 0.0,
) -> CandidateEvidence:
    """Evidence about a workflow of that name."""
    return CandidateEvidence(
        version_id=name, namespace="a", name=name, labels=labels, severity=severity, cosine=cosine, places=places
    )


def ranked(
    pool: list[CandidateEvidence], *, mode: SearchMode = SearchMode.HYBRID, nearest_known: float | None = None
) -> list[Scored]:
    """The pool in order, by the terms above."""
    return rank(pool, wanted=WANTED, mode=mode, nearest_known=nearest_known)


def names(pool: list[CandidateEvidence], *, mode: SearchMode = SearchMode.HYBRID) -> list[str]:
    """The names of the pool in order."""
    return [scored.evidence.name for scored in ranked(pool, mode=mode)]


@given(pool=pools, mode=modes, data=st.data())
def test_the_order_does_not_depend_on_the_order_of_the_evidence(
    pool: list[CandidateEvidence], mode: SearchMode, data: st.DataObject
) -> None:
    assert ranked(data.draw(st.permutations(pool)), mode=mode) == ranked(pool, mode=mode)


@given(pool=pools, mode=modes)
def test_candidates_are_ordered_by_score_then_name_then_namespace_and_by_nothing_else(
    pool: list[CandidateEvidence], mode: SearchMode
) -> None:
    keys = [(-each.score, each.evidence.name, each.evidence.namespace) for each in ranked(pool, mode=mode)]
    assert keys == sorted(keys)
    assert len(keys) == len(pool)


@given(pool=pools, mode=modes, nearest_known=st.none() | st.floats(-1, 1))
def test_confidence_is_a_probability_and_never_rises_along_the_list(
    pool: list[CandidateEvidence], mode: SearchMode, nearest_known: float | None
) -> None:
    order = ranked(pool, mode=mode, nearest_known=nearest_known)
    assert all(0 <= each.confidence <= 1 for each in order)
    assert all(first.confidence >= second.confidence for first, second in pairwise(order))


@given(pool=pools, mode=modes, data=st.data())
def test_score_and_confidence_do_not_depend_on_the_other_candidates(
    pool: list[CandidateEvidence], mode: SearchMode, data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.sampled_from(pool), unique=True)) if pool else []
    whole = {each.evidence: each for each in ranked(pool, mode=mode)}
    assert all(whole[each.evidence] == each for each in ranked(kept, mode=mode))


@given(pool=pools)
def test_without_meaning_the_cosines_do_not_matter(pool: list[CandidateEvidence]) -> None:
    blind = [one._replace(cosine=None) for one in pool]
    seen, unseen = ranked(pool, mode=SearchMode.LEXICAL), ranked(blind, mode=SearchMode.LEXICAL)
    assert [each[1:] for each in seen] == [each[1:] for each in unseen]


def test_a_nearer_meaning_ranks_first_and_an_unknown_one_counts_nothing() -> None:
    assert names([found("far", cosine=0.2), found("near", cosine=0.4), found("unknown")]) == ["near", "far", "unknown"]


@pytest.mark.parametrize(
    ("lesser", "greater"),
    [
        (WordPlace.NONE, WordPlace.SIGNAL),
        (WordPlace.SIGNAL, WordPlace.WHAT),
        (WordPlace.SIGNAL, WordPlace.WHEN_TO_USE),
        (WordPlace.WHAT, WordPlace.NAME),
        (WordPlace.WHEN_TO_USE, WordPlace.NAME),
    ],
)
def test_a_word_in_a_more_telling_place_counts_for_more(lesser: WordPlace, greater: WordPlace) -> None:
    pool = [found("a", places=bytes([lesser, 0, 0, 0])), found("b", places=bytes([greater, 0, 0, 0]))]
    assert names(pool, mode=SearchMode.LEXICAL) == ["b", "a"]


def test_what_and_when_to_use_count_alike() -> None:
    pool = [
        found("a", places=bytes([WordPlace.WHAT, 0, 0, 0])),
        found("b", places=bytes([WordPlace.WHEN_TO_USE, 0, 0, 0])),
    ]
    first, second = ranked(pool, mode=SearchMode.LEXICAL)
    assert first.score == second.score


def test_a_rare_word_tells_more_than_a_common_one() -> None:
    wanted = Wanted.of([Term(word="pod", origin="pod"), Term(word="etcd", origin="etcd")], usable=(True, True))
    pod, etcd = found("a", places=bytes([WordPlace.WHAT, 0])), found("b", places=bytes([0, WordPlace.WHAT]))
    assert [each.evidence.name for each in rank([pod, etcd], wanted=wanted, mode=SearchMode.LEXICAL)] == ["b", "a"]


def test_a_word_that_no_text_was_seen_to_hold_is_the_rarest() -> None:
    assert rarity("flabbergasted") > rarity("etcd") > rarity("pod") > 0
    assert rarity("pod flabbergasted") == rarity("flabbergasted")
    assert rarity("--") == 0


def test_two_words_for_the_same_part_of_the_query_count_once_in_the_better_place() -> None:
    one = found("a", places=bytes([WordPlace.WHAT, 0, 0, 0]))
    both = found("b", places=bytes([WordPlace.WHAT, WordPlace.NAME, 0, 0]))
    oom, java = rarity("oomkilled"), rarity("java")
    share = words_held(places_found([one, both], wanted=WANTED), wanted=WANTED)
    assert share == pytest.approx(np.array([oom, 1.4 * oom]) / (oom + java + USUAL_RARITY))


def test_the_score_is_meaning_plus_words_plus_labels_plus_severity_as_documented() -> None:
    one = found(
        "a", cosine=0.4, places=bytes([WordPlace.NAME, 0, 0, WordPlace.SIGNAL]), labels=1.25, severity=SEVERITY_WEIGHT
    )
    oom, java = rarity("oomkilled"), rarity("java")
    words = (PLACE_WEIGHTS[WordPlace.NAME] * oom + PLACE_WEIGHTS[WordPlace.SIGNAL] * java) / (oom + java + USUAL_RARITY)
    expected = MEANING_WEIGHT * 0.4 + WORDS_WEIGHT * words + 1.25
    plain = fits([one], wanted=WANTED, by_meaning=True)
    inferred = fits([one], wanted=WANTED, by_meaning=True, severity_inferred=True)
    assert plain.log_odds.tolist() == pytest.approx([expected])
    assert inferred.log_odds.tolist() == pytest.approx([expected + SEVERITY_WEIGHT])


def test_a_severity_counts_in_the_order_only_where_the_query_mentions_one() -> None:
    pool = [found("a"), found("b", severity=SEVERITY_WEIGHT)]
    mentioned = rank(pool, wanted=WANTED, mode=SearchMode.LABELS_ONLY, severity_inferred=True)
    assert [each.evidence.name for each in mentioned] == ["b", "a"]
    assert mentioned[0].score - mentioned[1].score == pytest.approx(SEVERITY_WEIGHT, abs=1e-6)
    assert [each.score for each in rank(pool, wanted=WANTED, mode=SearchMode.LABELS_ONLY)] == [0.0, 0.0]


def test_without_vectors_the_confidence_is_calibrated_for_words() -> None:
    odds = np.array([1.0])
    by_words = confidences(odds, wanted=WANTED, by_meaning=False, nearest_known=None)
    expected = BY_WORDS.constant + BY_WORDS.score + BY_WORDS.length * math.log1p(WANTED.rarity)
    assert by_words[0] == pytest.approx(1 / (1 + math.exp(-expected)), abs=1e-4)


def test_many_words_of_a_query_do_not_outvote_its_meaning() -> None:
    terms = [Term(word=f"w{number}", origin=f"w{number}") for number in range(60)]
    wanted = Wanted.of(terms, usable=[True] * len(terms))
    wordy = found("wordy", cosine=0.1, places=bytes([WordPlace.WHAT] * 18 + [0] * 42))
    meant = found("meant", cosine=0.6, places=bytes(60))
    assert rank([wordy, meant], wanted=wanted, mode=SearchMode.HYBRID)[0].evidence.name == "meant"


def test_nothing_to_search_for_leaves_labels_alone() -> None:
    nothing = Wanted.of(TERMS, usable=(False,) * 4)
    assert nothing.significant == ()
    order = rank([found("a"), found("b", labels=0.5)], wanted=nothing, mode=SearchMode.LABELS_ONLY)
    assert [(each.evidence.name, each.confidence, each.fits_nothing) for each in order] == [
        ("b", OF_LABELS_ONLY, False),
        ("a", OF_LABELS_ONLY, False),
    ]
    assert rank([], wanted=WANTED, mode=SearchMode.HYBRID) == []
    assert len(rank([found("a", places=b"")], wanted=Wanted.of((), usable=()), mode=SearchMode.HYBRID)) == 1


def test_a_candidate_fits_nothing_without_a_significant_word_and_within_the_noise_of_meanings() -> None:
    common = Wanted.of([Term(word="pod", origin="pod"), Term(word="etcd", origin="etcd")], usable=(True, True))
    pool = [
        found("near", cosine=NOISE, places=bytes(2)),
        found("far", cosine=NOISE - 0.01, places=bytes(2)),
        found("significant", cosine=0.0, places=bytes([0, WordPlace.WHAT])),
        found("common", cosine=0.0, places=bytes([WordPlace.NAME, 0])),
    ]
    order = rank(pool, wanted=common, mode=SearchMode.HYBRID)
    assert {each.evidence.name for each in order if each.fits_nothing} == {"far", "common"}


def test_the_name_of_a_service_does_not_make_other_words_insignificant() -> None:
    asked = Wanted.of([Term(word="pod", origin="pod"), Term(word="zzbilling", origin="zzbilling")], usable=(True, True))
    (only,) = rank([found("a", places=bytes([WordPlace.WHAT, 0]))], wanted=asked, mode=SearchMode.LEXICAL)
    assert not only.fits_nothing


def test_a_workflow_that_shares_a_vague_word_alone_fits_nothing() -> None:
    asked = Wanted.of([Term(word="broken", origin="broken")], usable=(True,))
    (only,) = rank([found("a", places=bytes([WordPlace.NAME]))], wanted=asked, mode=SearchMode.LEXICAL)
    assert only.fits_nothing


def test_the_only_word_of_a_vague_query_is_significant() -> None:
    vague = Wanted.of([Term(word="pod", origin="pod")], usable=(True,))
    (only,) = rank([found("a", places=bytes([WordPlace.WHAT]))], wanted=vague, mode=SearchMode.LEXICAL)
    assert not only.fits_nothing


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_an_answer_ends_at_a_low_confidence_or_a_gap(given_: list[float]) -> None:
    confidences_ = sorted(given_, reverse=True)

    kept = worth_reading(confidences_)

    assert 1 <= kept <= len(confidences_)
    assert all(each >= 0.1 for each in confidences_[1:kept])
    if kept < len(confidences_):
        last, following = confidences_[kept - 1], confidences_[kept]
        assert following < 0.1 or following / (1 - following) < last / max(1 - last, 1e-9)


@pytest.mark.parametrize(
    ("confidences_", "kept"),
    [
        ([0.9, 0.5, 0.1], 3),
        ([0.9, 0.5, 0.0999], 2),
        ([0.75, 0.2, 0.2], 3),  # odds of 3 and 1/4
        ([0.76, 0.2, 0.2], 1),
        ([1.0, 0.9999], 1),
    ],
)
def test_an_answer_ends_before_odds_that_are_twelve_times_lower(confidences_: list[float], kept: int) -> None:
    assert worth_reading(confidences_) == kept


@pytest.mark.parametrize("nearest_known", [None, 0.5])
@pytest.mark.parametrize("by_meaning", [True, False])
@pytest.mark.parametrize(("printed", "symptom"), [(False, False), (True, False), (True, True)])
def test_what_a_program_printed_and_a_symptom_in_it_are_believed_less(
    *, nearest_known: float | None, by_meaning: bool, printed: bool, symptom: bool
) -> None:
    calibration = (BY_MEANING_ALONE if nearest_known is None else BY_MEANING) if by_meaning else BY_WORDS
    mode = SearchMode.HYBRID if by_meaning else SearchMode.LEXICAL
    pool = [found("a", cosine=0.9 if by_meaning else None, places=bytes([WordPlace.NAME] * 4), labels=2.0)]

    def odds(signs: QuerySigns) -> float:
        (only,) = rank(pool, wanted=WANTED, mode=mode, nearest_known=nearest_known, signs=signs)
        return math.log(only.confidence / (1 - only.confidence))

    taken = odds(QuerySigns(printed=printed, symptom=symptom)) - odds(QuerySigns())
    assert taken == pytest.approx(calibration.pasted * printed + calibration.symptom * symptom, abs=0.05)


@given(log_odds=st.lists(st.floats(-50, 50), min_size=1), nearest_known=st.none() | st.floats(0, 1))
def test_the_confidence_is_the_logistic_of_the_weighted_evidence(
    log_odds: list[float], nearest_known: float | None
) -> None:
    calibration = BY_MEANING_ALONE if nearest_known is None else BY_MEANING
    given_ = confidences(np.array(log_odds), wanted=WANTED, by_meaning=True, nearest_known=nearest_known)
    for value, odds in zip(given_, log_odds, strict=True):
        expected = (
            calibration.constant
            + calibration.score * odds
            + calibration.length * math.log1p(WANTED.rarity)
            + calibration.known * (nearest_known or 0.0)
        )
        assert value == pytest.approx(1 / (1 + math.exp(-expected)), abs=1e-4)


@given(log_odds=st.lists(st.floats(-50, 50), min_size=1), printed=st.booleans())
def test_no_workflow_is_believed_more_than_six_times_in_ten_where_the_query_names_no_cause(
    log_odds: list[float], printed: bool
) -> None:
    usual, shared = (
        confidences(
            np.array(log_odds),
            wanted=WANTED,
            by_meaning=True,
            nearest_known=0.0,
            signs=QuerySigns(printed=printed, symptom=True, no_cause=each),
        )
        for each in (False, True)
    )
    assert shared == pytest.approx(np.minimum(usual, 0.6))


def test_a_known_problem_near_the_query_takes_from_the_confidence() -> None:
    (near,) = ranked([found("a", cosine=0.5)], nearest_known=0.9)
    (far,) = ranked([found("a", cosine=0.5)], nearest_known=0.3)
    assert near.confidence < far.confidence
    assert near.score == far.score


def test_more_evidence_never_means_less_confidence() -> None:
    assert all(calibration.score > 0 for calibration in (BY_MEANING, BY_MEANING_ALONE, BY_WORDS))
    assert BY_MEANING.known < 0
    assert BY_MEANING_ALONE.known == BY_WORDS.known == 0
