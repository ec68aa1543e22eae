"""What rules of contracts match, when they hold, and what is no contract."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from formulary_catalog.domain.governance.decision import (
    Approval,
    ApprovalDecision,
    DecisionOutcome,
    RunEvidence,
    decide,
)
from formulary_catalog.domain.governance.rules import lifts_less
from formulary_catalog.domain.governance.window import Window
from formulary_catalog.errors import InvalidInput
from support.governing import HARMLESS, NOW, action, enforced, outcome_under, rules


@pytest.mark.parametrize(
    ("prefix", "path", "below"),
    [
        ("/prod", "/prod", True),
        ("/prod", "/prod/orders", True),
        ("/prod/", "prod/orders", True),
        ("/prod", "/production", False),
        ("/prod", "/staging/../prod/orders", True),
        ("/prod/orders", "/prod", False),
        ("", "/anything", True),
        ("*", "", True),
        ("/prod", "", False),
    ],
)
def test_paths_match_by_whole_segments(prefix: str, path: str, below: bool) -> None:
    result = enforced({"effect": "DENY", "match": {"path_prefix": prefix}}, action("write", path_prefix=path))

    assert (result.decision_summary == "BLOCK") is below


def test_the_path_of_a_run_is_that_of_its_workflow() -> None:
    denied = rules({"effect": "DENY", "match": {"pathPrefix": "/workflows/formulary/restart"}})

    assert outcome_under(denied) is DecisionOutcome.BLOCK
    assert outcome_under(denied, workflow_name="restart-all") is DecisionOutcome.ALLOW


@pytest.mark.parametrize(
    ("match", "matching"),
    [
        ({"workflows": ["restart"]}, True),
        ({"workflows": ["formulary/restart"]}, True),
        ({"workflows": ["shop/restart"]}, False),
        ({"actionTypes": ["restartpod"]}, True),
        ({"namespaces": ["shop"]}, True),
        ({"namespaces": ["Shop"]}, False),
        ({"environments": ["STAGING"]}, True),
        ({"environments": ["production"]}, False),
        ({"signals": ["oomkilled"]}, True),
        ({"signals": ["Evicted"]}, False),
        ({"riskLevels": ["low", "high"]}, True),
        ({"callers": ["agent"]}, True),
        ({"callers": ["Agent"]}, False),
        ({"callers": ["*"], "environments": ["*"], "workflows": ["*"], "namespaces": ["*"]}, True),
        ({"workflows": ["restart"], "environments": ["production"]}, False),
    ],
)
def test_every_given_member_of_a_match_must_match(match: dict[str, Any], matching: bool) -> None:
    assert (outcome_under(rules({"effect": "DENY", "match": match})) is DecisionOutcome.BLOCK) is matching


def test_a_restricting_rule_matches_a_fact_that_nobody_knows_and_an_allowing_one_does_not() -> None:
    production, staging = {"environments": ["production"]}, {"environments": ["staging"]}

    assert outcome_under(rules({"effect": "DENY", "match": production}), environment="") is DecisionOutcome.BLOCK
    assert outcome_under(rules({"effect": "ALLOW", "match": staging}), environment="") is DecisionOutcome.AWAIT
    evicted = {"signals": ["Evicted"]}
    assert outcome_under(rules({"effect": "DENY", "match": evicted}), signal="") is DecisionOutcome.BLOCK
    assert (
        outcome_under(rules({"effect": "ALLOW", "match": evicted}), signal="", risk_level="high")
        is DecisionOutcome.AWAIT
    )
    ada = {"callers": ["ada"]}
    assert outcome_under(rules({"effect": "DENY", "match": ada}), caller="") is DecisionOutcome.BLOCK
    assert (
        outcome_under(rules({"effect": "ALLOW", "match": ada}), caller="", risk_level="high") is DecisionOutcome.AWAIT
    )


def test_a_restricting_rule_matches_run_or_target_and_an_allowing_one_both() -> None:
    elsewhere = {"target_namespace": "kube-system", "risk_level": "high"}

    assert outcome_under(rules({"effect": "DENY", "match": {"namespaces": ["kube-system"]}}), **elsewhere) is (
        DecisionOutcome.BLOCK
    )
    assert (
        outcome_under(rules({"effect": "ALLOW", "match": {"namespaces": ["shop"]}}), **elsewhere)
        is DecisionOutcome.AWAIT
    )
    both = rules({"effect": "ALLOW", "match": {"namespaces": ["shop", "kube-system"]}})
    assert outcome_under(both, **elsewhere) is DecisionOutcome.ALLOW


def test_a_name_alone_allows_only_in_the_namespace_of_the_contract() -> None:
    allowing = rules({"effect": "ALLOW", "match": {"workflows": ["restart"]}})
    denying = rules({"effect": "DENY", "match": {"workflows": ["restart"]}})

    assert outcome_under(allowing, risk_level="high") is DecisionOutcome.ALLOW
    assert outcome_under(allowing, risk_level="high", workflow_namespace="shop") is DecisionOutcome.AWAIT
    assert outcome_under(denying, workflow_namespace="shop") is DecisionOutcome.BLOCK


@pytest.mark.parametrize(
    ("match", "outcome"),
    [
        ({}, DecisionOutcome.AWAIT),
        ({"actionTypes": ["RestartPod"], "riskLevels": ["low"]}, DecisionOutcome.AWAIT),
        ({"workflows": ["*"]}, DecisionOutcome.AWAIT),
        ({"pathPrefix": "/workflows"}, DecisionOutcome.AWAIT),
        ({"workflows": ["bank/restart"]}, DecisionOutcome.ALLOW),
        ({"pathPrefix": "/workflows/bank"}, DecisionOutcome.AWAIT),
        ({"pathPrefix": "/workflows/bank/restart"}, DecisionOutcome.ALLOW),
    ],
)
def test_what_another_team_wrote_is_allowed_by_rules_that_name_the_workflow_alone(
    match: dict[str, Any], outcome: DecisionOutcome
) -> None:
    theirs = {"workflow_namespace": "bank", "foreign": True}

    assert outcome_under(rules({"effect": "ALLOW", "match": match}), **theirs) is outcome
    assert outcome_under(rules({"effect": "ALLOW", "match": match})) is DecisionOutcome.ALLOW
    assert outcome_under(rules({"effect": "DENY", "match": match}), **theirs) is DecisionOutcome.BLOCK


NAMED_ONLY: dict[str, dict[str, Any]] = {
    "bundle": {"bundled": True},
    "template": {"templated": True},
    "repeat-failure": {"recent_failures": 2},
    "foreign": {"workflow_namespace": "bank", "foreign": True},
    "unproven": {"unproven": True},
    "unauthored": {"unauthored": True},
}
"""The reasons for an approval that a rule has to name, each with the facts of a run that has it."""
OF_PEOPLE = ("unproven", "unauthored")


@pytest.mark.parametrize(("reason", "facts"), NAMED_ONLY.items())
@pytest.mark.parametrize(
    "match",
    [
        {},
        {"riskLevels": ["low"]},
        {"namespaces": ["shop"]},
        {"environments": ["production"], "actionTypes": ["RestartPod"]},
        {"workflows": ["*"]},
        {"pathPrefix": "/workflows"},
    ],
)
def test_a_broad_rule_lifts_no_approval_for_a_reason_that_it_does_not_name(
    reason: str, facts: dict[str, Any], match: dict[str, Any]
) -> None:
    production = {"environment": "production", **facts}
    others = [each for each in NAMED_ONLY if each != reason]

    assert outcome_under(rules({"effect": "ALLOW", "match": match}), environment="production") is DecisionOutcome.ALLOW
    assert outcome_under(rules({"effect": "ALLOW", "match": match}), **production) is DecisionOutcome.AWAIT
    for lifts, outcome in (([reason], DecisionOutcome.ALLOW), (others, DecisionOutcome.AWAIT)):
        assert outcome_under(rules({"effect": "ALLOW", "match": match, "lifts": lifts}), **production) is outcome


@pytest.mark.parametrize("name", ["workflows", "pathPrefix"])
@pytest.mark.parametrize(("reason", "facts"), NAMED_ONLY.items())
def test_a_rule_that_names_the_workflow_lifts_all_but_who_asks_and_who_wrote_it(
    reason: str, facts: dict[str, Any], name: str
) -> None:
    workflow = f"{facts.get('workflow_namespace', 'formulary')}/restart"
    match = {"workflows": [workflow]} if name == "workflows" else {"pathPrefix": f"/workflows/{workflow}/"}
    another = {"workflows": [f"{workflow}-all", "*"]}

    waits = DecisionOutcome.AWAIT if reason in OF_PEOPLE else DecisionOutcome.ALLOW
    assert outcome_under(rules({"effect": "ALLOW", "match": match}), **facts) is waits
    assert outcome_under(rules({"effect": "ALLOW", "match": another}), **facts) is DecisionOutcome.AWAIT


def test_the_namespace_in_a_path_names_no_workflow_of_another_team() -> None:
    theirs = {"effect": "ALLOW", "match": {"pathPrefix": "/workflows/bank"}}
    foreign = NAMED_ONLY["foreign"]

    assert outcome_under(rules(theirs), **foreign) is DecisionOutcome.AWAIT
    assert outcome_under(rules({**theirs, "lifts": ["foreign"]}), **foreign) is DecisionOutcome.ALLOW
    assert outcome_under(rules({**theirs, "lifts": ["foreign"]}), **foreign, bundled=True) is DecisionOutcome.AWAIT


def test_what_different_rules_name_is_lifted_together() -> None:
    two = {"bundled": True, "recent_failures": 3}
    failing, bundles = ({"effect": "ALLOW", "lifts": [each]} for each in ("repeat-failure", "bundle"))

    assert outcome_under(rules(failing), **two) is DecisionOutcome.AWAIT
    assert outcome_under(rules(bundles), **two) is DecisionOutcome.AWAIT
    assert outcome_under(rules(failing, bundles), **two) is DecisionOutcome.ALLOW


@pytest.mark.parametrize("allowing", ["formulary", "shop"])
@pytest.mark.parametrize("insisting", ["formulary", "shop"])
def test_a_rule_that_requires_an_approval_is_outranked_by_no_rule_that_allows(insisting: str, allowing: str) -> None:
    named = {"effect": "ALLOW", "match": {"workflows": ["formulary/restart"]}, "lifts": list(NAMED_ONLY)}
    contracts = [
        rules({"effect": "REQUIRE_APPROVAL", "rationale": "Somebody looks."}, namespace=insisting),
        rules(named, namespace=allowing),
    ]
    approved = Approval(decision=ApprovalDecision.APPROVE, approver="ada")
    alone = decide(facts=HARMLESS, contracts=contracts, evidence=RunEvidence(selection_reasoned=True), now=NOW)
    with_a_person = decide(facts=HARMLESS, contracts=contracts, evidence=RunEvidence(approvals=(approved,)), now=NOW)

    assert (alone.outcome, alone.missing) == (DecisionOutcome.AWAIT, ["an approval"])
    assert alone.why == [f"REQUIRE_APPROVAL by rule r0 of contract {insisting}/own (Somebody looks.)"]
    assert with_a_person.outcome is DecisionOutcome.ALLOW


def test_neither_evidence_nor_an_approval_can_be_shown_for_an_action_that_is_no_run() -> None:
    for effect in ("REQUIRE_EVIDENCE", "REQUIRE_APPROVAL"):
        assert enforced({"effect": effect}, action("write")).decision_summary == "BLOCK"


@pytest.mark.parametrize(
    ("rule", "lifts_less_now"),
    [
        ({"effect": "ALLOW", "match": {"riskLevels": ["low"]}}, True),
        ({"effect": "ALLOW", "match": {"workflows": ["*", "shop/restart"]}}, True),
        ({"effect": "ALLOW", "match": {"pathPrefix": "/workflows/shop"}}, True),
        ({"effect": "ALLOW", "match": {"workflows": ["shop/restart"]}}, False),
        ({"effect": "ALLOW", "match": {"pathPrefix": "/workflows/shop/restart"}}, False),
        ({"effect": "ALLOW", "lifts": []}, False),
        ({"effect": "ALLOW", "lifts": ["bundle"]}, False),
        ({"effect": "DENY"}, False),
    ],
)
def test_a_rule_that_lifts_less_than_in_earlier_releases_is_named_until_it_says_what_it_lifts(
    rule: dict[str, Any], lifts_less_now: bool
) -> None:
    said = lifts_less(rules({"effect": "DENY"}, rule))

    assert bool(said) is lifts_less_now
    assert not lifts_less_now or said.startswith("rule r1 no longer lifts the approvals that bundle, template")


@pytest.mark.parametrize(
    ("window", "moment", "holds"),
    [
        ({}, "2026-11-20T12:00+00:00", True),
        ({"days": ["fri"]}, "2026-11-20T23:59+00:00", True),
        ({"days": ["fri"]}, "2026-11-21T00:00+00:00", False),
        ({"from": "22:00", "to": "06:00"}, "2026-11-20T23:00+00:00", True),
        ({"from": "22:00", "to": "06:00"}, "2026-11-20T05:59+00:00", True),
        ({"from": "22:00", "to": "06:00"}, "2026-11-20T06:00+00:00", False),
        ({"days": ["fri"], "from": "22:00", "to": "06:00"}, "2026-11-21T05:00+00:00", True),
        ({"days": ["fri"], "from": "22:00", "to": "06:00"}, "2026-11-20T05:00+00:00", False),
        ({"days": ["sun"], "from": "22:00", "to": "06:00"}, "2026-11-23T01:00+00:00", True),
        ({"from": "18:00"}, "2026-11-20T17:59+00:00", False),
        ({"from": "18:00"}, "2026-11-20T23:59+00:00", True),
        ({"to": "08:00"}, "2026-11-20T07:59+00:00", True),
        ({"from": "12:00", "to": "24:00"}, "2026-11-20T23:59+00:00", True),
        ({"from": "13:00", "to": "14:00", "timeZone": "Europe/Berlin"}, "2026-11-20T12:30+00:00", True),
        ({"from": "13:00", "to": "14:00", "timeZone": "Europe/Berlin"}, "2026-07-20T12:30+00:00", False),
        ({"days": ["sat"], "timeZone": "Asia/Tokyo"}, "2026-11-20T15:00+00:00", True),
        ({"notBefore": "2026-12-24T00:00:00+01:00"}, "2026-12-23T22:59+00:00", False),
        ({"notBefore": "2026-12-24T00:00:00+01:00"}, "2026-12-23T23:00+00:00", True),
        ({"notAfter": "2027-01-02T00:00:00Z"}, "2027-01-02T00:00+00:00", False),
    ],
)
def test_a_window_holds_in_its_own_time_zone(window: dict[str, Any], moment: str, holds: bool) -> None:
    assert Window.model_validate(window).holds(datetime.fromisoformat(moment)) is holds


def test_a_rule_for_a_time_shows_as_a_frozen_window_among_the_risks() -> None:
    freeze = rules({"effect": "REQUIRE_EVIDENCE", "match": {"during": {"days": ["fri"]}}, "rationale": "Weekend."})
    facts = replace(HARMLESS, selection_reasoned=True)
    decision = decide(facts=facts, contracts=[freeze], evidence=RunEvidence(selection_reasoned=True), now=NOW)

    assert ("high", "frozen-window") in {(risk.severity.value, risk.category) for risk in decision.gate.risks}
    assert decision.outcome is DecisionOutcome.AWAIT
    assert "Weekend." in decision.message


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "rules.0.effect: is required"),
        ({"effect": "FORBID"}, "'FORBID'"),
        ({"effect": "DENY", "match": {"namespace": "shop"}}, "rules.0.match.namespace: is unknown"),
        ({"effect": "DENY", "match": {"workflows": ["oom-*"]}}, "patterns are not supported"),
        ({"effect": "DENY", "match": {"pathPrefix": "/prod/*"}}, "patterns are not supported"),
        ({"effect": "DENY", "match": {"during": {"timeZone": "Berlin"}}}, "IANA"),
        ({"effect": "DENY", "match": {"during": {"timeZone": "../etc/passwd"}}}, "IANA"),
        ({"effect": "DENY", "match": {"during": {"from": "9:00"}}}, "'9:00'"),
        ({"effect": "DENY", "match": {"during": {"from": "09:00", "to": "09:00"}}}, "the same time"),
        ({"effect": "DENY", "match": {"during": {"notBefore": "2026-01-01T00:00:00"}}}, "notBefore"),
        ({"effect": "DENY", "match": {"during": {"notBefore": 17}}}, "2026-12-24T18:00:00Z"),
        ({"effect": "DENY", "id": "twice"}, "the id 'twice' is used twice"),
        ({"effect": "DENY", "lifts": ["bundle"]}, "only an ALLOW rule lifts"),
        ({"effect": "ALLOW", "lifts": ["bundles"]}, "'bundles'"),
        ({"effect": "ALLOW", "lifts": ["*"]}, "rules.0.lifts"),
    ],
)
def test_a_contract_that_breaks_a_rule_is_refused_in_one_line(rule: dict[str, Any], message: str) -> None:
    other = {"id": "twice", "effect": "DENY"}

    with pytest.raises(InvalidInput) as refused:
        rules(rule, other)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
