"""A contract that is tried: the same as deciding again with it, and nothing else, for any facts and contracts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.governance.contract import Contract, Effect, contract
from formulary_catalog.domain.governance.decision import Approval, ApprovalDecision, DecisionOutcome
from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.runs.admission_decision import BasisUnreadable, DecisionBasis, Selection, Situation, judge
from formulary_catalog.domain.runs.rehearsal import Change, RecordedDecision, Rehearsal, Rulebook

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SHARED = "formulary"
PLACES = [SHARED, "shop", "bank"]

moments = st.integers(0, 14 * 24).map(lambda hours: NOON + timedelta(hours=hours))
rules = st.fixed_dictionaries(
    {"effect": st.sampled_from([effect.value for effect in Effect if effect is not Effect.HALT])},
    optional={
        "match": st.fixed_dictionaries(
            {},
            optional={
                "environments": st.sampled_from([["production"], ["staging"], ["*"]]),
                "riskLevels": st.sampled_from([["low"], ["medium", "high"]]),
                "namespaces": st.sampled_from([["shop"], ["bank"]]),
                "during": st.sampled_from([{"days": ["fri"]}, {"from": "22:00", "to": "06:00"}]),
            },
        ),
        "rationale": st.sampled_from(["", "because"]),
    },
) | st.just({"effect": "HALT"})


def named(namespace: str, name: str, given_rules: list[dict[str, object]]) -> Contract:
    spec = {"rules": [{**rule, "id": f"r{number}"} for number, rule in enumerate(given_rules)]}
    return contract(spec, name=name, namespace=namespace)


contracts = st.builds(named, st.sampled_from(PLACES), st.sampled_from(["base", "freeze"]), st.lists(rules, max_size=3))
halts = st.builds(
    Halt,
    namespace=st.sampled_from(["", "shop"]),
    contract=st.just(""),
    reason=st.text(max_size=5),
    by=st.just("ada"),
    at=moments,
    trace_id=st.just("tr_1"),
    source=st.sampled_from(["database", "server"]),
)
situations = st.builds(
    Situation,
    contracts=st.just(()),
    approvals=st.lists(
        st.builds(
            Approval,
            decision=st.sampled_from(ApprovalDecision),
            approver=st.sampled_from(["ada", "bob"]),
            reason=st.text(max_size=5),
            at=st.none() | moments,
        ),
        max_size=2,
    ).map(tuple),
    selection=st.none() | st.builds(Selection, reasoned=st.booleans(), confidence=st.none() | st.floats(0, 1)),
    recent_failures=st.integers(0, 3),
    now=moments,
    approved_other_content=st.booleans(),
    halts=st.lists(halts, max_size=1).map(tuple),
)
facts = st.builds(
    RunFacts,
    workflow_name=st.sampled_from(["restart", "drain"]),
    workflow_namespace=st.sampled_from(PLACES),
    action_type=st.just("RestartPod"),
    namespace=st.sampled_from(["shop", "bank"]),
    caller=st.sampled_from(["", "agent"]),
    risk_level=st.sampled_from(["", "low", "high"]),
    environment=st.sampled_from(["", "staging", "production"]),
    destructive=st.sampled_from([(), ("drain (kubectl drain)",)]),
    allowed_here=st.sampled_from([True, True, True, False]),
    unproven=st.booleans(),
    timeout_seconds=st.just(60.0),
)
bases = st.builds(
    lambda of_run, situation: DecisionBasis(facts=of_run.as_json(), situation=situation), facts, situations
)


@st.composite
def recorded(draw: st.DrawFn) -> RecordedDecision:
    basis = draw(bases)
    return RecordedDecision(
        invocation_id=f"inv-{draw(st.integers(0, 3))}",
        namespace=basis.facts["namespace"],
        at=basis.situation.now,
        outcome=draw(st.sampled_from(DecisionOutcome)).value,
        basis=basis,
    )


def in_force(*each: Contract) -> Rulebook:
    return Rulebook(each, shared_namespace=SHARED)


@given(st.lists(recorded(), max_size=6), st.lists(contracts, min_size=1, max_size=3))
def test_to_try_what_is_in_force_changes_nothing(decisions: list[RecordedDecision], others: list[Contract]) -> None:
    rulebook = in_force(*others)
    rehearsal = Rehearsal(others[-1], in_force=rulebook)  # of two of one name the last is in force
    assert rulebook.holds(others[-1])
    assert [rehearsal.add(each).change for each in decisions] == [None] * len(decisions)
    assert rehearsal.changes() == []
    assert rehearsal.runs == len({each.invocation_id for each in decisions})


@given(recorded(), st.lists(contracts, max_size=3), contracts)
def test_it_is_decided_as_the_run_was_by_the_contracts_that_would_apply(
    decision: RecordedDecision, others: list[Contract], tried: Contract
) -> None:
    compared = Rehearsal(tried, in_force=in_force(*others)).add(decision)
    kept = {(each.namespace, each.name): each for each in others} | {(tried.namespace, tried.name): tried}
    applying = tuple(each for each in kept.values() if each.namespace in (SHARED, decision.namespace))
    alone = judge(decision.basis.facts, replace(decision.basis.situation, contracts=applying))
    if any(rule.effect is Effect.HALT for each in applying for rule in each.rules):
        assert compared.after.outcome is DecisionOutcome.HALT
    else:
        assert compared.after == alone


@given(bases)
def test_what_a_decision_turned_on_survives_being_stored(basis: DecisionBasis) -> None:
    assert DecisionBasis.from_json(basis.as_json()) == basis
    canonical_json(basis.as_json())


@given(bases, st.sampled_from(["facts", "now", "selection", "approvals", "halts", "recent_failures"]))
def test_a_basis_that_lacks_something_is_told_apart(basis: DecisionBasis, missing: str) -> None:
    stored = {name: value for name, value in basis.as_json().items() if name != missing}
    with pytest.raises(BasisUnreadable, match="facts are missing"):
        DecisionBasis.from_json(stored)
    with pytest.raises(BasisUnreadable, match="another release"):
        DecisionBasis.from_json(basis.as_json() | {"format": 2})


@given(st.lists(recorded(), max_size=8), st.lists(contracts, max_size=2), contracts)
def test_a_run_is_listed_once_by_its_first_change_and_newly_allowed_ones_come_first(
    decisions: list[RecordedDecision], others: list[Contract], tried: Contract
) -> None:
    rehearsal = Rehearsal(tried, in_force=in_force(*others))
    compared = [rehearsal.add(each) for each in decisions]
    changes = rehearsal.changes()
    ids = [change.recorded.invocation_id for change in changes]
    assert len(ids) == len(set(ids))
    assert set(ids) == {each.recorded.invocation_id for each in compared if each.change is not None}
    for change in changes:
        of_run = [each for each in compared if each.recorded.invocation_id == change.recorded.invocation_id]
        assert change.recorded.at == min(each.recorded.at for each in of_run if each.change is not None)
    kinds = [list(Change).index(change.change) for change in changes if change.change is not None]
    assert kinds == sorted(kinds)
    allowed = [change.before.outcome.strength for change in changes if change.change is Change.ALLOWED]
    assert allowed == sorted(allowed, reverse=True)
