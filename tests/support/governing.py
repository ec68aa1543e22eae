"""A run, actions and contracts, for tests of the rules that judge them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.governance.actions import EnforceResult, ProposedAction, enforce
from formulary_catalog.domain.governance.contract import Contract, contract
from formulary_catalog.domain.governance.decision import DecisionOutcome, RunEvidence, decide
from formulary_catalog.domain.governance.gate import RunFacts

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HARMLESS = RunFacts(
    workflow_name="restart",
    workflow_namespace="formulary",
    action_type="RestartPod",
    namespace="shop",
    caller="agent",
    target_namespace="shop",
    risk_level="low",
    environment="staging",
    signal="OOMKilled",
    selection_recorded=True,
    selection_reasoned=True,
)


def action(action_type: str, resource: str = "", **more: str) -> ProposedAction:
    return ProposedAction(action_type=action_type, resource=resource, **more)


def rules(*given: Mapping[str, Any], namespace: str = "formulary") -> Contract:
    numbered = [{"id": f"r{number}", **rule} for number, rule in enumerate(given)]
    return contract({"rules": numbered}, name="own", namespace=namespace)


def outcome_under(given: Contract, **changed: Any) -> DecisionOutcome:
    return decide(facts=replace(HARMLESS, **changed), contracts=[given], evidence=RunEvidence(), now=NOW).outcome


def enforced(rule: Mapping[str, Any], *actions: ProposedAction) -> EnforceResult:
    return enforce(rules(rule), actions, caller="agent", now=NOW)
