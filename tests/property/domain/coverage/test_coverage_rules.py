"""States of signals, totals, and which workflows overlap or replace each other."""

from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoveredSignal
from formulary_catalog.domain.coverage.duplicates import near_pairs, overlap, replaces
from formulary_catalog.domain.coverage.stale import DAYS, Served, Use, stale_because
from formulary_catalog.domain.coverage.states import (
    SEVEREST_FIRST,
    failing,
    in_order,
    joined,
    state_of,
    totals_of,
    with_ignored,
)
from formulary_catalog.domain.search.label_weights import label_evidence
from formulary_catalog.domain.stored import WorkflowOutcome
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.matching import allowed

CONFIDENCE = st.none() | st.floats(0, 1)
SIGNAL = st.builds(
    lambda name, confidence, declared, asked, fired: CoveredSignal(
        name=name,
        state=state_of(confidence=confidence, declared_by=declared),
        workflow_id="",
        confidence=confidence,
        declared_by=declared,
        asked=asked,
        fired=fired,
    ),
    st.sampled_from("ABCDEFGH"),
    CONFIDENCE,
    st.integers(0, 1),
    st.integers(0, 5),
    st.integers(0, 5),
)
SIGNALS = st.lists(SIGNAL, max_size=8, unique_by=lambda each: each.name)
DECLARED = st.frozensets(st.sampled_from(["a", "b", "*"]))
LABELS = st.builds(
    lambda severity, cluster, team, detected: WorkflowLabels(
        values={name: values for name, values in (("severity", severity), ("cluster", cluster)) if values},
        custom={"team": team} if team else {},
        detected=detected,
    ),
    DECLARED,
    DECLARED,
    DECLARED,
    st.dictionaries(st.just("hpa"), st.sampled_from(["true", "false", "*"])),
)
WANTED = st.frozensets(st.sampled_from(["a", "b", "c"]))
CONSTRAINTS = st.builds(
    lambda severity, cluster, team, detected, strict: Constraints(
        values={"severity": severity, "cluster": cluster},
        custom={"team": team},
        detected=detected,
        strict_keys=strict,
    ),
    WANTED,
    WANTED,
    WANTED,
    st.dictionaries(st.just("hpa"), st.sampled_from(["true", "false", "x"])),
    st.frozensets(st.just("team")),
)


@given(CONFIDENCE, CONFIDENCE, st.integers(0, 3))
def test_more_confidence_never_makes_a_state_worse(one: float | None, other: float | None, declared: int) -> None:
    low, high = sorted([one, other], key=lambda each: -1.0 if each is None else each)
    worse = SEVEREST_FIRST.index(state_of(confidence=low, declared_by=declared))
    better = SEVEREST_FIRST.index(state_of(confidence=high, declared_by=declared))
    assert worse <= better
    assert state_of(confidence=low, declared_by=declared + 1) == "covered"


@given(SIGNALS, st.sets(st.sampled_from("ABCDEFGH")))
def test_every_signal_counts_once_whatever_is_ignored(signals: list[CoveredSignal], ignored: set[str]) -> None:
    answer = with_ignored(_answer(signals), dict.fromkeys(ignored, "known"))
    totals = answer.totals
    assert totals.covered + totals.weak + totals.none + totals.ignored == len(signals)
    assert {each.name for each in answer.signals if each.ignored} == ignored & {each.name for each in signals}
    assert totals.demand_covered is None or 0 <= totals.demand_covered <= 1
    assert failing(answer, fail_on="weak") or not failing(answer, fail_on="none")
    assert failing(answer.model_copy(update={"alerts_waiting": 1}), fail_on="none")
    everything = with_ignored(answer, {each.name: "known" for each in signals})
    assert not failing(everything, fail_on="weak")


@given(SIGNALS, st.integers(0, 8))
def test_parts_of_a_list_give_the_answer_of_the_whole(signals: list[CoveredSignal], cut: int) -> None:
    whole = joined([_answer(signals[:cut]), _answer(signals[cut:])])
    assert whole.signals == in_order(signals)
    assert whole.totals == totals_of(signals)
    states = [SEVEREST_FIRST.index(each.state) for each in whole.signals]
    assert states == sorted(states)


@given(LABELS, LABELS)
def test_workflows_overlap_where_an_incident_that_says_all_allows_both(
    one: WorkflowLabels, other: WorkflowLabels
) -> None:
    assert overlap(one, other) == overlap(other, one)
    clusters = ["a", "b", "c"] if "cluster" in one.values or "cluster" in other.values else [""]
    incidents = (
        Constraints(
            values={"severity": frozenset({severity}), "cluster": frozenset({cluster} - {""})},
            custom={"team": frozenset({team})},
            detected={"hpa": hpa},
        )
        for severity, cluster, team, hpa in product("abc", clusters, "abc", ["true", "false", "x"])
    )
    assert overlap(one, other) == any(allowed(one, each) and allowed(other, each) for each in incidents)


@given(LABELS, LABELS, CONSTRAINTS)
def test_what_replaces_another_is_allowed_wherever_it_is_and_counts_as_much(
    one: WorkflowLabels, other: WorkflowLabels, constraints: Constraints
) -> None:
    assert replaces(one, one)
    if replaces(one, other) and allowed(other, constraints):
        assert allowed(one, constraints)
        assert label_evidence(one, constraints) >= label_evidence(other, constraints)


@given(st.integers(0, 40), st.integers(0, 2**32 - 1), st.floats(-0.5, 0.9))
def test_near_pairs_are_those_of_every_pair(number: int, seed: int, threshold: float) -> None:
    vectors = np.random.default_rng(seed).normal(size=(number, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    near = {(one, other) for one, other, _ in near_pairs(vectors, threshold=threshold)}
    cosines = vectors @ vectors.T
    certain = {(i, j) for i in range(number) for j in range(i + 1, number) if cosines[i, j] >= threshold + 1e-5}
    possible = {(i, j) for i in range(number) for j in range(i + 1, number) if cosines[i, j] >= threshold - 1e-5}
    assert certain <= near <= possible
    nearest = near_pairs(vectors, threshold=threshold, at_most=3)
    assert nearest == near_pairs(vectors, threshold=threshold)[:3]


@given(st.integers(0, 200), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_a_workflow_is_stale_for_one_reason_that_its_numbers_bear_out(
    days: int, first: int, chosen: int, succeeded: int, failed: int, unpulled: bool
) -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    served = Served(
        version_id="v",
        namespace="formulary",
        name="x",
        version="1",
        ambiguous=False,
        since=now - timedelta(days=days),
        use=Use(first, first, chosen),
        outcome=WorkflowOutcome(succeeded=succeeded, failed=failed),
        unpulled_at=now if unpulled else None,
    )
    because = stale_because(served, now=now)
    assert (because is not None and because[0] == "image-gone") == unpulled
    match because and because[0]:
        case "fails":
            assert failed > succeeded
        case "never-chosen":
            assert first > 0
            assert chosen == 0
        case "never-found":
            assert first == 0
            assert days >= DAYS
        case None:
            assert chosen or succeeded + failed or days < DAYS or 0 < first < 3


def _answer(signals: list[CoveredSignal]) -> CoverageAnswer:
    return CoverageAnswer(
        signals=signals, totals=totals_of(signals), queries=[], days=30, search_mode="hybrid", notes=[]
    )
