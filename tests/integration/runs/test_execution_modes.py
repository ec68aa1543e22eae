"""What `execution.mode` makes of a real run: nothing but a dry run, or one that awaits a person whatever rules say."""

from dataclasses import replace

import asyncpg
import pytest

from formulary_catalog.domain.governance.decision import Approval, ApprovalDecision, RunEvidence, decide
from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.settings import ExecutionMode, Settings
from formulary_operator.settings import OperatorSettings
from support import playing
from support.governing import HARMLESS, NOW, rules
from support.invoking import asked, rows
from support.runnable import STAGING


def _service(parts: CatalogParts, mode: ExecutionMode) -> InvocationService:
    return Services.on(parts, settings=Settings(execution=mode)).invocations


@pytest.mark.parametrize("operator_is_there", [False, True])
async def test_where_nothing_is_run_the_answer_is_a_dry_run_that_says_how_a_person_runs_it(
    parts: CatalogParts, dsn: str, owner: asyncpg.Connection, operator_is_there: bool
) -> None:
    service = _service(parts, ExecutionMode.OFF)
    before = await rows(owner)
    if operator_is_there:  # as it was until the mode was changed
        async with playing.operator(dsn):
            answer = await service.invoke(asked(), context=STAGING, caller=LOCAL)
    else:
        answer = await service.invoke(asked(), context=STAGING, caller=LOCAL)

    assert (answer.state, answer.dry_run) == ("completed", True)
    assert answer.manifest["kind"] == "Job"
    assert any("execution.mode is off" in note and "kubectl create -f" in note for note in answer.notes)
    assert await rows(owner) == before + 1


async def test_where_each_run_is_approved_a_harmless_one_awaits_a_person_too(parts: CatalogParts, dsn: str) -> None:
    async with playing.run_writer(dsn) as runs:
        await runs.announce()
        answer = await _service(parts, ExecutionMode.APPROVE).invoke(asked(), context=STAGING, caller=LOCAL)
        looked_at = await runs.begin(answer.invocation_id, known={"supervised": True})

    assert answer.state == "awaiting_approval"
    assert answer.message.startswith("Waits for an approval: by default, because execution.mode is approve.")
    assert looked_at is not None
    assert looked_at.message == answer.message


def test_no_rule_lifts_the_mode_and_a_person_does() -> None:
    allowing = rules({"effect": "ALLOW", "match": {"workflows": ["formulary/restart"]}})
    supervised: RunFacts = replace(HARMLESS, supervised=True)
    approved = Approval(decision=ApprovalDecision.APPROVE, approver="ada")

    def outcome(evidence: RunEvidence) -> str:
        return decide(facts=supervised, contracts=[allowing], evidence=evidence, now=NOW).outcome

    assert outcome(RunEvidence(selection_reasoned=True)) == "AWAIT"
    assert outcome(RunEvidence(approvals=(approved,))) == "ALLOW"


@pytest.mark.parametrize(
    ("written", "mode"),
    [("true", "auto"), ("false", "off"), (True, "auto"), (False, "off"), ("off", "off"), ("approve", "approve")],
)
def test_what_earlier_releases_wrote_keeps_its_meaning(written: object, mode: str) -> None:
    assert Settings(execution=written).execution == mode
    assert OperatorSettings(execution=written).execution == mode
