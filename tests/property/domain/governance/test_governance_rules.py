"""Whether a run may go ahead: each sentence of the rules, for any facts, contracts and evidence."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

from hypothesis import assume, given
from hypothesis import strategies as st

from formulary_catalog.domain.governance.contract import ApprovalReason, Contract, Effect, Match, Rule, contract
from formulary_catalog.domain.governance.decision import (
    Approval,
    ApprovalDecision,
    DecisionOutcome,
    RunDecision,
    RunEvidence,
    decide,
)
from formulary_catalog.domain.governance.gate import GateDecision, RunFacts, Severity, is_harmless

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday
NAMESPACES = ["shop", "bank"]
ENVIRONMENTS = ["", "staging", "Production", "prod-eu", "test"]
RISK_LEVELS = ["", "low", "medium", "high"]

windows = st.sampled_from(
    [
        None,
        {"days": ["fri"]},
        {"days": ["sat", "sun"]},
        {"from": "22:00", "to": "06:00"},
        {"from": "08:00", "to": "18:00", "timeZone": "Europe/Berlin"},
        {"notAfter": "2026-01-01T00:00:00Z"},
    ]
)
matches = st.fixed_dictionaries(
    {},
    optional={
        "pathPrefix": st.sampled_from(["", "*", "/workflows", "/workflows/shop", "/workflows/shop/restart", "/other"]),
        "workflows": st.lists(st.sampled_from(["restart", "shop/restart", "drain", "*"]), max_size=2),
        "actionTypes": st.lists(st.sampled_from(["RestartPod", "drainnode", "*"]), max_size=2),
        "namespaces": st.lists(st.sampled_from([*NAMESPACES, "*"]), max_size=2),
        "environments": st.lists(st.sampled_from(["production", "STAGING", "test", "*"]), max_size=2),
        "signals": st.lists(st.sampled_from(["oomkilled", "Evicted", "*"]), max_size=2),
        "riskLevels": st.lists(st.sampled_from(["low", "medium", "high", "*"]), max_size=2),
        "callers": st.lists(st.sampled_from(["agent", "person", "*"]), max_size=2),
        "during": windows,
    },
)


MATCHING = tuple(effect for effect in Effect if effect is not Effect.HALT)
"""The effects of rules that may match something rather than everything."""


def rules(effects: Sequence[Effect]) -> st.SearchStrategy[dict[str, object]]:
    return st.builds(
        lambda rule, lifts: {**rule, "lifts": lifts} if rule["effect"] == Effect.ALLOW else rule,
        st.fixed_dictionaries(
            {
                "effect": st.sampled_from([effect.value for effect in effects]),
                "match": matches | st.just({}),
                "rationale": st.sampled_from(["", "because\nof much\n"]),
            }
        ),
        st.lists(st.sampled_from([reason.value for reason in ApprovalReason]), unique=True),
    )


def contracts(effects: Sequence[Effect] = MATCHING) -> st.SearchStrategy[Contract]:
    def numbered(namespace: str, name: str, given_rules: list[dict[str, object]]) -> Contract:
        spec = {"rules": [{**rule, "id": f"r{number}"} for number, rule in enumerate(given_rules)]}
        return contract(spec, name=name, namespace=namespace)

    return st.builds(
        numbered,
        st.sampled_from(["formulary", *NAMESPACES]),
        st.sampled_from(["base", "extra", "freeze"]),
        st.lists(rules(effects), max_size=4),
    )


run_facts = st.builds(
    RunFacts,
    workflow_name=st.sampled_from(["restart", "drain"]),
    workflow_namespace=st.sampled_from(["formulary", "shop"]),
    action_type=st.sampled_from(["RestartPod", "DrainNode"]),
    namespace=st.sampled_from(NAMESPACES),
    target_namespace=st.sampled_from(["", *NAMESPACES]),
    caller=st.sampled_from(["agent", "person"]),
    risk_level=st.sampled_from(RISK_LEVELS),
    environment=st.sampled_from(ENVIRONMENTS),
    signal=st.sampled_from(["", "OOMKilled", "evicted"]),
    priority=st.sampled_from(["", "P0", "P3"]),
    has_steps=st.booleans(),
    has_rollback=st.booleans(),
    destructive=st.sampled_from([(), ("evict (kubectl drain)",)]),
    selection_recorded=st.booleans(),
    selection_reasoned=st.booleans(),
    selection_confidence=st.sampled_from([None, 0.2, 0.9]),
    recent_failures=st.integers(0, 3),
    caller_may_target=st.booleans(),
    allowed_here=st.booleans(),
    foreign=st.booleans(),
    unproven=st.booleans(),
    unauthored=st.booleans(),
    bundled=st.booleans(),
    templated=st.booleans(),
    timeout_seconds=st.sampled_from([30.0, 600.0]),
    estimated_seconds=st.sampled_from([None, 300.0]),
)
sound_facts = run_facts.map(lambda facts: replace(facts, caller_may_target=True, allowed_here=True))
plain_facts = sound_facts.map(
    lambda facts: replace(
        facts,
        foreign=False,
        unproven=False,
        unauthored=False,
        bundled=False,
        templated=False,
        recent_failures=min(facts.recent_failures, 1),
    )
)
"""Plain Jobs: no approval that they need has a reason which a rule has to name."""
approvals = st.builds(
    Approval,
    decision=st.sampled_from(ApprovalDecision),
    approver=st.sampled_from(["jane", "joe"]),
    reason=st.sampled_from(["", "seen", "seen\n# Allowed"]),
)
evidence = st.builds(
    RunEvidence,
    selection_reasoned=st.booleans(),
    approvals=st.lists(approvals, max_size=2).map(lambda given: (*given,)),
)
some_contracts = st.lists(contracts(), max_size=3)
moments = st.integers(0, 14 * 24).map(lambda hours: NOON + timedelta(hours=hours))

NO_EVIDENCE = RunEvidence()
BROAD = matches.map(
    lambda match: {name: value for name, value in match.items() if name not in ("workflows", "pathPrefix")}
) | st.sampled_from([{"workflows": ["*"]}, {"pathPrefix": "/workflows"}, {"pathPrefix": "*"}])
"""Matches that name neither a workflow nor its namespace."""
EVERYTHING = contract({"rules": [{"id": "all", "effect": "ALLOW"}]}, name="open", namespace="formulary")
APPROVED = Approval(decision=ApprovalDecision.APPROVE, approver="jane")
REJECTED = Approval(decision=ApprovalDecision.REJECT, approver="joe", reason="too late in the day")


def outcome(
    facts: RunFacts, given_contracts: Sequence[Contract], shown: RunEvidence, now: datetime = NOON
) -> DecisionOutcome:
    return decide(facts=facts, contracts=given_contracts, evidence=shown, now=now).outcome


def matching(effect: Effect) -> Contract:
    """A contract whose one rule matches every run."""
    return contract({"rules": [{"id": "own", "effect": effect.value}]}, name="own", namespace="formulary")


@given(sound_facts, some_contracts, evidence, moments)
def test_deny_always_wins(facts: RunFacts, others: list[Contract], shown: RunEvidence, now: datetime) -> None:
    decision = decide(facts=facts, contracts=[*others, matching(Effect.DENY)], evidence=shown, now=now)

    assert decision.outcome is DecisionOutcome.BLOCK
    assert not decision.rejected
    assert "DENY by rule own of contract formulary/own" in decision.message


@given(run_facts, some_contracts, evidence, moments)
def test_a_critical_risk_blocks_whatever_the_rules_and_the_evidence_say(
    facts: RunFacts, others: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    for forbidden in (replace(facts, allowed_here=False), replace(facts, caller_may_target=False)):
        decision = decide(facts=forbidden, contracts=[*others, EVERYTHING], evidence=shown, now=now)

        assert decision.outcome is DecisionOutcome.BLOCK
        assert decision.gate.decision is GateDecision.BLOCK


@given(run_facts, some_contracts, evidence, moments)
def test_the_order_of_rules_and_of_contracts_means_nothing(
    facts: RunFacts, some: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    first = decide(facts=facts, contracts=some, evidence=shown, now=now)

    for contracts_in_order in permutations(some):
        reversed_rules = [replace(each, rules=each.rules[::-1]) for each in contracts_in_order]
        assert decide(facts=facts, contracts=reversed_rules, evidence=shown, now=now) == first


@given(run_facts, some_contracts, contracts([effect for effect in MATCHING if effect.restricts]), evidence, moments)
def test_adding_rules_that_restrict_never_allows_more(
    facts: RunFacts, some: list[Contract], added: Contract, shown: RunEvidence, now: datetime
) -> None:
    before = outcome(facts, some, shown, now)

    assert outcome(facts, [*some, added], shown, now).strength >= before.strength


@given(run_facts, some_contracts, contracts([Effect.ALLOW]), evidence, moments)
def test_adding_rules_that_allow_never_forbids_more(
    facts: RunFacts, some: list[Contract], added: Contract, shown: RunEvidence, now: datetime
) -> None:
    assert outcome(facts, [*some, added], shown, now).strength <= outcome(facts, some, shown, now).strength


@given(run_facts, some_contracts, evidence, moments)
def test_adding_an_approval_never_denies(
    facts: RunFacts, some: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    more = replace(shown, approvals=(*shown.approvals, APPROVED))

    assert outcome(facts, some, more, now).strength <= outcome(facts, some, shown, now).strength


@given(run_facts, some_contracts, evidence, moments)
def test_a_recorded_selection_with_reasoning_never_denies(
    facts: RunFacts, some: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    chosen, unchosen = replace(shown, selection_reasoned=True), replace(shown, selection_reasoned=False)

    assert outcome(facts, some, chosen, now).strength <= outcome(facts, some, unchosen, now).strength


@given(sound_facts, some_contracts, evidence, moments)
def test_one_rejection_blocks_whoever_approved(
    facts: RunFacts, some: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    decision = decide(
        facts=facts, contracts=some, evidence=replace(shown, approvals=(*shown.approvals, REJECTED)), now=now
    )

    assert decision.outcome is DecisionOutcome.BLOCK
    assert decision.rejected or any(rule.effect is Effect.DENY for rule in decision.rules)


@given(sound_facts, some_contracts, evidence, moments)
def test_a_rule_that_degrades_leaves_no_more_than_a_dry_run(
    facts: RunFacts, some: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    assert outcome(facts, [*some, matching(Effect.DEGRADE)], shown, now) in (
        DecisionOutcome.DEGRADE,
        DecisionOutcome.BLOCK,
    )


@given(sound_facts)
def test_without_a_matching_rule_all_but_harmless_runs_wait_for_an_approval(facts: RunFacts) -> None:
    harmless = facts.risk_level == "low" and is_harmless(facts.environment)
    harmless = harmless and not (facts.unproven or facts.unauthored)
    decision = decide(facts=facts, contracts=[], evidence=RunEvidence(selection_reasoned=True), now=NOON)

    grave = any(risk.severity in (Severity.HIGH, Severity.CRITICAL) for risk in decision.gate.risks)
    assert decision.outcome is (DecisionOutcome.ALLOW if harmless and not grave else DecisionOutcome.AWAIT)
    assert decision.missing == ([] if decision.outcome is DecisionOutcome.ALLOW else ["an approval"])
    assert outcome(facts, [], RunEvidence(approvals=(APPROVED,))) is DecisionOutcome.ALLOW


@given(plain_facts, evidence)
def test_a_rule_that_allows_lifts_the_default_approval_of_plain_jobs(facts: RunFacts, shown: RunEvidence) -> None:
    assume(shown.rejection is None)

    assert outcome(facts, [EVERYTHING], shown) is DecisionOutcome.ALLOW


@given(
    sound_facts,
    st.lists(contracts([effect for effect in MATCHING if effect.restricts]), max_size=2),
    st.sampled_from(["formulary", *NAMESPACES]),
    BROAD,
    st.sets(st.sampled_from(ApprovalReason)),
    evidence,
    moments,
)
def test_adding_a_broad_rule_that_allows_lifts_no_approval_whose_reason_it_does_not_name(
    facts: RunFacts,
    others: list[Contract],
    namespace: str,
    match: dict[str, object],
    lifts: set[ApprovalReason],
    shown: RunEvidence,
    now: datetime,
) -> None:
    assume(shown.approval is None)
    spec = {"rules": [{"id": "broad", "effect": "ALLOW", "match": match, "lifts": sorted(lifts)}]}
    decision = decide(
        facts=facts,
        contracts=[*others, contract(spec, name="broad", namespace=namespace)],
        evidence=shown,
        now=now,
    )
    grave = {reason.category for reason in decision.reasons} & set(ApprovalReason)

    assert (grave <= lifts) or decision.outcome is not DecisionOutcome.ALLOW
    assert {each: each in grave for each in ApprovalReason} == {
        "bundle": facts.bundled,
        "template": facts.templated,
        "repeat-failure": facts.recent_failures > 1,
        "foreign": facts.foreign,
        "unproven": facts.unproven,
        "unauthored": facts.unauthored,
    }


@given(sound_facts, some_contracts, st.sampled_from(["formulary", *NAMESPACES]), st.booleans(), moments)
def test_no_rule_that_allows_outranks_one_that_requires_an_approval(
    facts: RunFacts, others: list[Contract], namespace: str, selected: bool, now: datetime
) -> None:
    lifting = {"id": "all", "effect": "ALLOW", "match": {}, "lifts": [reason.value for reason in ApprovalReason]}
    naming = {"id": "named", "effect": "ALLOW", "match": {"workflows": [facts.workflow]}}
    lenient = contract({"rules": [lifting, naming]}, name="lenient", namespace=namespace)
    given_contracts = [*others, lenient, matching(Effect.REQUIRE_APPROVAL)]
    decision = decide(
        facts=facts, contracts=given_contracts, evidence=RunEvidence(selection_reasoned=selected), now=now
    )

    assert decision.outcome is not DecisionOutcome.ALLOW
    assert outcome(facts, given_contracts, RunEvidence(approvals=(APPROVED,)), now) in (
        DecisionOutcome.ALLOW,
        DecisionOutcome.DEGRADE,
        DecisionOutcome.BLOCK,
    )


@given(plain_facts)
def test_evidence_that_a_rule_asks_for_is_a_selection_with_reasoning_or_an_approval(facts: RunFacts) -> None:
    demanding = [EVERYTHING, matching(Effect.REQUIRE_EVIDENCE)]
    waiting = decide(facts=facts, contracts=demanding, evidence=NO_EVIDENCE, now=NOON)

    assert waiting.outcome is DecisionOutcome.AWAIT
    assert waiting.missing == ["a recorded selection of this workflow version with reasoning, or an approval"]
    assert outcome(facts, demanding, RunEvidence(selection_reasoned=True)) is DecisionOutcome.ALLOW
    assert outcome(facts, demanding, RunEvidence(approvals=(APPROVED,))) is DecisionOutcome.ALLOW


@given(run_facts, some_contracts, evidence, moments)
def test_every_decision_explains_itself_in_one_line_and_as_json(
    facts: RunFacts, some: list[Contract], shown: RunEvidence, now: datetime
) -> None:
    decision: RunDecision = decide(facts=facts, contracts=some, evidence=shown, now=now)
    told = decision.as_json()

    assert decision.why
    assert "\n" not in decision.message
    assert bool(decision.missing) is (decision.outcome is DecisionOutcome.AWAIT)
    assert told["gate"]["version"] == "1.0.0"
    assert [rule["effect"] for rule in told["rules"]] == [rule.effect for rule in decision.rules]


@given(run_facts)
def test_facts_survive_being_stored(facts: RunFacts) -> None:
    assert RunFacts.from_json(facts.as_json()) == facts
    assert RunFacts.from_json(facts.as_json() | {"of_another_release": 1}) == facts


@given(matches, run_facts, moments)
def test_what_an_unknown_fact_leaves_open_counts_against_the_run(
    match: dict[str, object], facts: RunFacts, now: datetime
) -> None:
    unknown = replace(facts, environment="", signal="", risk_level="", caller="")
    rule = Match.model_validate(match)
    denying = Contract(name="own", rules=(Rule(id="r", effect=Effect.DENY, match=rule),))

    if outcome(facts, [denying], NO_EVIDENCE, now) is DecisionOutcome.BLOCK:
        assert outcome(unknown, [denying], NO_EVIDENCE, now) is DecisionOutcome.BLOCK
