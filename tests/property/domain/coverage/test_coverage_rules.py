"""States of signals, totals, and which workflows overlap or replace each other."""

from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoveredSignal
from formulary_catalog.domain.coverage.duplicates import near_pairs, overlap, replaces
from formulary_catalog.domain.coverage.kinds import bare_kinds, is_same_kind, kinds_of
from formulary_catalog.domain.coverage.stale import DAYS, Served, Use, stale_because
from formulary_catalog.domain.coverage.states import (
    SEVEREST_FIRST,
    Remedy,
    failing,
    in_order,
    joined,
    judged,
    totals_of,
    with_ignored,
)
from formulary_catalog.domain.search.label_weights import label_evidence
from formulary_catalog.domain.stored import WorkflowOutcome
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.matching import allowed

KINDS = ("Pod", "Node", "Deployment", "DaemonSet", "PersistentVolumeClaim", "*")
REMEDY = st.builds(
    Remedy,
    st.just("remedy"),
    st.floats(0, 1),
    st.frozensets(st.sampled_from(KINDS), min_size=1, max_size=2),
    st.booleans(),
)
REMEDIES = st.lists(REMEDY, max_size=3).map(lambda some: sorted(some, key=lambda each: -each.confidence))
ALERT = st.builds(Alert, name=st.sampled_from(["NodeIsSlow", "KubePodSad", "KubeDaemonSetStuck", "ShopIsSlow"]))
SIGNAL = st.builds(
    lambda name, state, declared, asked, fired: CoveredSignal(
        name=name,
        state=state,
        workflow_id="",
        confidence=None,
        declared_by=declared,
        asked=asked,
        fired=fired,
    ),
    st.sampled_from("ABCDEFGH"),
    st.sampled_from(SEVEREST_FIRST),
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


@given(ALERT, REMEDIES, REMEDY, st.integers(0, 2))
def test_another_remedy_or_declaration_never_makes_a_state_worse(
    alert: Alert, found: list[Remedy], other: Remedy, declared: int
) -> None:
    more = sorted([*found, other], key=lambda each: -each.confidence)
    states = [
        judged(alert, found, declared_by=declared).state,
        judged(alert, more, declared_by=declared).state,
        judged(alert, more, declared_by=declared + 1).state,
    ]
    assert states == sorted(states, key=SEVEREST_FIRST.index)
    assert states[-1] in {"covered", "declared_only"}


@given(ALERT, REMEDIES, st.integers(0, 2))
def test_only_a_likely_remedy_about_the_same_kind_of_object_covers(
    alert: Alert, found: list[Remedy], declared: int
) -> None:
    state, remedy, reason = judged(alert, found, declared_by=declared)
    kinds = kinds_of(alert.name, alert.summary)
    if state == "covered":
        assert remedy is not None
        assert remedy.confidence >= 0.5
        assert is_same_kind(kinds, remedy.kinds) or (not kinds and remedy.declares)
    assert bool(reason) == (state in {"declared_only", "weak"})


@pytest.mark.parametrize(
    ("name", "summary", "kinds"),
    [
        ("KubePodCrashLooping", "Pod is crash looping.", {"Pod"}),
        ("NodeSystemSaturation", "System saturated, load per core is very high.", {"Node"}),
        ("KubePersistentVolumeFillingUp", "", {"PersistentVolume"}),
        ("KubeHpaMaxedOut", "", {"HorizontalPodAutoscaler"}),
        ("KubeCronJobRunning", "", {"CronJob"}),
        ("HostOutOfMemory", "", {"Node"}),
        ("OOMKilled", "", {"Pod"}),
        ("BackoffLimitExceeded", "", {"Job"}),
        ("ImagesCannotBePulled", "Pods on a node cannot pull an image.", {"Pod"}),
        ("CiliumNetworkPolicyDropsAll", "", {"CiliumNetworkPolicy"}),
        ("KubeClientCertificateExpiration", "A client certificate of the job expires.", set()),
        ("TargetDown", "One or more targets of a job are unreachable in the namespace.", set()),
    ],
)
def test_the_kind_of_an_alert_is_read_from_its_name_then_from_its_summary(
    name: str, summary: str, kinds: set[str]
) -> None:
    assert kinds_of(name, summary, known=["CiliumNetworkPolicy", "Certificate", "*"]) == kinds


@pytest.mark.parametrize(
    ("alert", "remedy", "same"),
    [
        ({"Pod"}, {"apps/v1/Deployment"}, True),
        ({"DaemonSet"}, {"v1/Pod"}, True),
        ({"DaemonSet"}, {"Deployment", "Pod"}, False),
        ({"PersistentVolume"}, {"PersistentVolumeClaim"}, True),
        ({"Node"}, {"Deployment", "Ingress", "Pod"}, False),
        ({"Node"}, {"*"}, True),
        ({"Node"}, {"node"}, True),
        (set(), {"Pod"}, False),
    ],
)
def test_a_remedy_is_about_the_same_kind_or_what_owns_it(alert: set[str], remedy: set[str], same: bool) -> None:
    assert is_same_kind(alert, bare_kinds(remedy)) is same


@given(SIGNALS, st.sets(st.sampled_from("ABCDEFGH")))
def test_every_signal_counts_once_whatever_is_ignored(signals: list[CoveredSignal], ignored: set[str]) -> None:
    answer = with_ignored(_answer(signals), dict.fromkeys(ignored, "known"))
    totals = answer.totals
    assert totals.number == len(signals)
    assert {each.name for each in answer.signals if each.ignored} == ignored & {each.name for each in signals}
    assert totals.demand_covered is None or 0 <= totals.demand_covered <= 1
    assert failing(answer, fail_on="weak") or not failing(answer, fail_on="none")
    assert failing(answer.model_copy(update={"signals_waiting": 1}), fail_on="none")
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


runs = st.builds(
    WorkflowOutcome,
    succeeded=st.integers(0, 9),
    failed=st.integers(0, 9),
    helped=st.integers(0, 9),
    verified=st.integers(9, 18),
) | st.builds(WorkflowOutcome, succeeded=st.integers(0, 9), failed=st.integers(0, 9))


@given(st.integers(0, 200), st.integers(0, 9), st.integers(0, 9), runs, st.booleans())
def test_a_workflow_is_stale_for_one_reason_that_its_numbers_bear_out(
    days: int, first: int, chosen: int, outcome: WorkflowOutcome, unpulled: bool
) -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    served = Served(
        version_id="v",
        namespace="formulary",
        name="x",
        version="1",
        status="Active",
        ambiguous=False,
        since=now - timedelta(days=days),
        use=Use(first, first, chosen),
        outcome=outcome,
        unpulled_at=now if unpulled else None,
    )
    because = stale_because(served, now=now)
    assert (because is not None and because[0] == "image-gone") == unpulled
    match because and because[0]:
        case "fails":
            assert outcome.failed > outcome.succeeded or outcome.helped < outcome.verified / 2
        case "never-chosen":
            assert first > 0
            assert chosen == 0
        case "never-found":
            assert first == 0
            assert days >= DAYS
        case None:
            assert chosen or outcome.succeeded + outcome.failed or days < DAYS or 0 < first < 3
            assert outcome.helped >= outcome.verified / 2 or outcome.verified - outcome.helped < 2


def _answer(signals: list[CoveredSignal]) -> CoverageAnswer:
    return CoverageAnswer(
        signals=signals, totals=totals_of(signals), queries=[], days=30, search_mode="hybrid", notes=[]
    )
