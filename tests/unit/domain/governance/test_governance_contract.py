"""What rules of contracts match, when they hold, and what is no contract."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from formulary_catalog.domain.governance.decision import DecisionOutcome, RunEvidence, decide
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
        ({"pathPrefix": "/workflows/bank"}, DecisionOutcome.ALLOW),
    ],
)
def test_what_another_team_wrote_is_allowed_by_rules_that_name_its_namespace_alone(
    match: dict[str, Any], outcome: DecisionOutcome
) -> None:
    theirs = {"workflow_namespace": "bank", "foreign": True}

    assert outcome_under(rules({"effect": "ALLOW", "match": match}), **theirs) is outcome
    assert outcome_under(rules({"effect": "ALLOW", "match": match})) is DecisionOutcome.ALLOW
    assert outcome_under(rules({"effect": "DENY", "match": match}), **theirs) is DecisionOutcome.BLOCK


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
    ],
)
def test_a_contract_that_breaks_a_rule_is_refused_in_one_line(rule: dict[str, Any], message: str) -> None:
    other = {"id": "twice", "effect": "DENY"}

    with pytest.raises(InvalidInput) as refused:
        rules(rule, other)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
