"""An attacker has an incident name its environment so that production counts as harmless."""

from dataclasses import replace

import pytest

from formulary_catalog.domain.governance.actions import ProposedAction, gate_actions
from formulary_catalog.domain.governance.gate import GateDecision, RunFacts, is_harmless
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS, Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_operator.settings import OperatorSettings
from support.runs import HARMLESS, request

LIKE_PRODUCTION = (
    "production",
    "Unknown",
    "n/a",
    "prodeast",
    "none",
    "\uff50\uff52\uff4f\uff44",  # full-width prod
    "\uff44\uff45\uff56",  # full-width dev
    "d\u0435v",  # with a Cyrillic letter
    "te\u017ft",  # with a long s
    "dev\u200b",  # with a space that has no width
    "dev prod",
    "dev,test",
    "preprod",
    " ",
)


async def test_whatever_is_not_on_the_list_waits_for_an_approval(writing: Database) -> None:
    runs = RunWriter(writing, shared_namespace="formulary")
    for environment in LIKE_PRODUCTION:
        run = (await runs.submit(request(facts=_in(environment)))).invocation
        assert run.phase is Phase.AWAITING_APPROVAL, environment
    for environment in (*HARMLESS_ENVIRONMENTS, "Staging", " QA "):
        assert (await runs.submit(request(facts=_in(environment)))).invocation.phase is Phase.PENDING, environment


async def test_the_list_is_that_of_the_settings(writing: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMULARY_HARMLESS_ENVIRONMENTS", "lab, Bühne")
    assert Settings().harmless_environments == OperatorSettings().harmless_environments == {"lab", "Bühne"}
    runs = RunWriter(writing, shared_namespace="formulary", harmless=Settings().harmless_environments)
    phases = [
        (await runs.submit(request(facts=_in(environment)))).invocation.phase
        for environment in ("LAB", "bu\u0308hne", "staging")
    ]
    assert phases == [Phase.PENDING, Phase.PENDING, Phase.AWAITING_APPROVAL]


async def test_what_counts_as_harmless_is_looked_up_again_at_the_start(writing: Database) -> None:
    generous = RunWriter(writing, shared_namespace="formulary", harmless=frozenset({"prodeast"}))
    accepted = (await generous.submit(request(facts=_in("prodeast")))).invocation
    assert accepted.phase is Phase.PENDING
    begun = await RunWriter(writing, shared_namespace="formulary").begin(accepted.id)
    assert begun is not None
    assert begun.phase is Phase.AWAITING_APPROVAL


@pytest.mark.parametrize("environment", LIKE_PRODUCTION[:-1])
def test_the_gate_for_other_actions_takes_it_for_production_too(environment: str) -> None:
    action = ProposedAction(action_type="delete_pod", resource="web-1")
    report = gate_actions("Heal it", context={"known": [{"Environment": environment}]}, actions=[action])
    assert report.decision is GateDecision.BLOCK
    assert not is_harmless(environment)


def _in(environment: str) -> RunFacts:
    return replace(HARMLESS, environment=environment)
