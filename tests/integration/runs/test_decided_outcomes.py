"""The outcome of a run is decided once, counted once and recorded once, whoever tries."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import asyncpg
import pytest

from formulary_catalog.domain.alerts.reading import ID_PREFIX
from formulary_catalog.domain.runs.outcome import Outcome, TargetState, TargetWatch, Verdict
from formulary_catalog.domain.runs.run import Invocation, Phase, RunTarget
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.expiry import ExpiryWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_catalog.store.runs.verification import VerificationStore
from formulary_operator.access.targets import KubernetesTargets
from formulary_operator.measuring import Measuring
from formulary_operator.runs.verifying import RunVerifier
from support.runs import job_of, request

BEFORE = TargetState(name="Deployment/checkout", uid="u", generation=1, ready=False)
EVENTS = "select body::jsonb -> 'payload' as payload from formulary.trace_event where kind = 'invocation.verified'"


@pytest.fixture
def verifying(writing: Database) -> VerificationStore:
    return VerificationStore(writing)


@pytest.fixture
async def ended(asked: InvocationStore, runs: RunWriter, verifying: VerificationStore) -> Invocation:
    """A run that changed something and succeeded."""
    return await run(asked, runs, verifying)


async def run(
    asked: InvocationStore,
    runs: RunWriter,
    verifying: VerificationStore,
    *,
    phase: Phase = Phase.SUCCEEDED,
    **changes: Any,
) -> Invocation:
    accepted = (await asked.submit(request(**changes))).invocation
    await runs.begin(accepted.id)
    await verifying.note_before(accepted.id, watch=TargetWatch(before=BEFORE))
    await runs.note_reference(accepted.id, reference=job_of(accepted.id))
    over = await runs.finish(accepted.id, phase=phase, reason="x", message="", target=replace(BEFORE, generation=2))
    assert over is not None
    return over


async def test_of_many_leaders_one_decides(ended: Invocation, verifying: VerificationStore, database: str) -> None:
    verdicts = [Verdict(outcome=each, feedback="seen") for each in (*Outcome, *Outcome)]
    decided = await asyncio.gather(*(verifying.decide(ended.id, each) for each in verdicts))
    (first,) = [each for each in decided if each is not None]
    assert await verifying.decide(ended.id, verdicts[0]) is None
    assert await verifying.open_runs() == []
    owner = await asyncpg.connect(database)
    try:
        events = await owner.fetch(EVENTS)
        (stored,) = await owner.fetch("select outcome, revision from formulary.invocation where id = $1", ended.id)
        (counted,) = await owner.fetch("select helped, verified from formulary.workflow_outcome")
    finally:
        await owner.close()
    assert len(events) == 1
    assert (stored["outcome"], stored["revision"]) == (first.outcome, ended.revision + 1)
    known = first.outcome != Outcome.UNKNOWN
    assert (counted["helped"], counted["verified"]) == (first.outcome == Outcome.HELPED, known)


async def test_what_was_seen_before_and_after_a_run_survives_a_restart(
    ended: Invocation, verifying: VerificationStore
) -> None:
    (due,) = await verifying.open_runs(namespaces={ended.namespace})
    assert await verifying.open_runs(namespaces={"bank"}) == []
    assert (due.id, due.seconds, due.is_due) == (ended.id, 900, False)
    found = await verifying.find(ended.id)
    assert found is not None
    watch = TargetWatch.from_json(found[0].observed)
    assert (watch.before, watch.after) == (BEFORE, replace(BEFORE, generation=2))
    later = watch.seen(replace(BEFORE, generation=3), at=found[1])
    await verifying.note(ended.id, watch=later)
    assert "changed by somebody else" in (await verifying.watch(ended.id)).changed


async def test_a_run_whose_namespace_nobody_watches_any_more_is_unknown_once(
    ended: Invocation, verifying: VerificationStore, writing: Database, database: str
) -> None:
    def verifier(*namespaces: str) -> RunVerifier:
        nothing_is_read = cast(KubernetesTargets, None)
        return RunVerifier(
            store=verifying,
            alerts=AlertReader(writing),
            targets=nothing_is_read,
            measuring=Measuring(None),
            namespaces=namespaces,
            decided=lambda run: pytest.fail("its object is not watched"),
        )

    await verifier("bank").look_once()
    assert await verifying.find(ended.id) is not None, "it is not due"
    await writing.execute("update invocation set verify_at = clock_timestamp() - interval '16 min'")
    (own,) = await verifying.open_runs(namespaces={ended.namespace})
    assert not own.is_abandoned
    for namespace in ("bank", "bank", "other"):
        await verifier(namespace).look_once()
    owner = await asyncpg.connect(database)
    try:
        events = await owner.fetch(EVENTS)
        (stored,) = await owner.fetch("select outcome, feedback from formulary.invocation where id = $1", ended.id)
    finally:
        await owner.close()
    assert len(events) == 1
    assert (*stored,) == ("Unknown", f"no operator watched namespace {ended.namespace} when the outcome was due")


@pytest.mark.parametrize("target", [request().target, RunTarget(kind="Pod", name="checkout-1", namespace="shop")])
async def test_another_run_on_the_same_target_is_known(
    ended: Invocation,
    asked: InvocationStore,
    runs: RunWriter,
    verifying: VerificationStore,
    writing: Database,
    target: RunTarget,
) -> None:
    assert await other_run(ended, verifying) == ""
    later = await run(asked, runs, verifying, target=target)
    assert await other_run(ended, verifying) == later.id
    assert await other_run(later, verifying) == ended.id, "it may have helped later than it ended"
    long_ago = (
        "update invocation set finished_at = finished_at - interval '1 h', verify_at = verify_at - interval '1 h' "
    )
    await writing.execute(f"{long_ago} where id = $1", ended.id)
    assert await other_run(later, verifying) == ""


async def other_run(run: Invocation, verifying: VerificationStore) -> str:
    assert run.verify_at is not None
    return await verifying.other_run(run, until=run.verify_at)


async def test_the_verdict_on_a_run_of_an_alert_comes_after_its_window(
    asked: InvocationStore, runs: RunWriter, verifying: VerificationStore, writing: Database
) -> None:
    accepted = (await asked.submit(request())).invocation
    await runs.begin(accepted.id)
    await runs.note_reference(accepted.id, reference=job_of(accepted.id))
    await writing.execute("update invocation set remediation_id = $1", f"{ID_PREFIX}1")
    await runs.finish(accepted.id, phase=Phase.SUCCEEDED, reason="", message="")
    assert [each.seconds for each in await verifying.open_runs()] == [1200]


async def test_a_run_is_kept_until_its_outcome_is_known(
    ended: Invocation, writing: Database, verifying: VerificationStore
) -> None:
    expiry = ExpiryWriter(writing)
    assert [number async for number in expiry.delete_runs(before_seconds=-1, existing=set())] == []
    await verifying.decide(ended.id, Verdict(outcome=Outcome.UNKNOWN, feedback="seen"))
    assert [number async for number in expiry.delete_runs(before_seconds=-1, existing=set())] == [1]


async def test_what_was_stopped_is_unknown_at_once_and_what_did_nothing_has_no_outcome(
    asked: InvocationStore, runs: RunWriter, verifying: VerificationStore
) -> None:
    stopped = await run(asked, runs, verifying, phase=Phase.CANCELLED)
    dry = (await asked.submit(request(dry_run=True))).invocation
    await runs.begin(dry.id)
    rehearsed = await runs.finish(dry.id, phase=Phase.SUCCEEDED, reason="DryRun", message="")
    assert (stopped.outcome, stopped.feedback) == ("Unknown", "the run was cancelled before it ended")
    assert rehearsed is not None
    assert (rehearsed.outcome, rehearsed.verify_at) == ("", None)
    assert await verifying.open_runs() == []


@pytest.mark.parametrize("outcome", ["", "Helped"])
async def test_the_server_asks_for_runs_and_cannot_say_what_they_came_to(
    ended: Invocation, serving_side: Database, outcome: str
) -> None:
    async def forge(connection: Connection) -> None:
        await connection.execute("select set_config('formulary.caller', $1, true)", ended.requester)
        forged: dict[str, Any] = {"id": "inv-forged", "outcome": outcome, "verify_at": None, "observed": {}}
        await connection.execute(
            "insert into invocation select (jsonb_populate_record(run, $2)).* from invocation as run where id = $1",
            ended.id,
            forged,
        )

    if not outcome:
        await serving_side.write(forge)
        return
    with pytest.raises(FormularyError) as refused:
        await serving_side.write(forge)
    assert isinstance(refused.value.__cause__, asyncpg.InsufficientPrivilegeError)
