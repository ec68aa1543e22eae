"""What `execution.mode` makes of a real run: nothing but a dry run, or one that awaits a person whatever rules say."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from formulary_catalog.domain.governance.decision import Approval, ApprovalDecision, RunEvidence, decide
from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.settings import ExecutionMode, Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.halting import HaltReader
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.runs.poller import RunPoller
from formulary_operator.settings import OperatorSettings
from formulary_operator.watch.queue import WorkQueue
from support import playing
from support.governing import HARMLESS, NOW, rules
from support.invoking import asked, rows
from support.runnable import PRODUCTION, STAGING, TARGET


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


@pytest.mark.parametrize(("watched", "runs_namespace"), [((), "formulary-runs"), (("elsewhere",), TARGET)])
async def test_once_runs_are_switched_off_what_waits_is_denied_and_what_ran_has_no_known_outcome(
    parts: CatalogParts, dsn: str, owner: asyncpg.Connection, watched: tuple[str, ...], runs_namespace: str
) -> None:
    service, long = _service(parts, ExecutionMode.AUTO), asked(timeout_ms=600_000)  # which is answered at once
    async with playing.run_writer(dsn) as runs:
        await runs.announce()
        waits = await service.invoke(long, context=PRODUCTION, caller=LOCAL)
        asked_for = [await service.invoke(long, context=STAGING, caller=LOCAL) for _ in range(2)]
        ran, runs_still = [await runs.begin(each.invocation_id) for each in asked_for]
        assert ran is not None
        assert runs_still is not None
        earlier = "update formulary.invocation set {0} = {0} - interval '1 day' where id = $1"
        await owner.execute(earlier.format("created_at"), waits.invocation_id)
        await owner.execute(earlier.format("started_at"), ran.id)
        async with Database.opened(dsn, role=Role.WRITER) as database:
            halts, metrics = HaltReader(database), OperatorMetrics()
            poller = RunPoller(runs=runs, halts=halts, queue=WorkQueue(), metrics=metrics, namespaces=watched)
            ending = asyncio.create_task(poller.keep_ending(runs_namespace=runs_namespace))
            denied, unknown = [
                await service.status(each, caller=LOCAL, wait_seconds=10) for each in (waits.invocation_id, ran.id)
            ]
            ending.cancel()
        left = await runs.find(runs_still.id)

    assert (denied.state, unknown.state) == ("failed", "failed")
    assert "runs were switched off" in denied.message
    assert unknown.message.endswith("its outcome is unknown")
    assert left is not None
    assert left.phase is Phase.RUNNING


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
