"""People are notified of runs once each, however often their receiver fails and the sender dies."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.notifications.notices import Event
from formulary_catalog.domain.notifications.receivers import Format, Receiver
from formulary_catalog.domain.runs.outcome import Outcome, Verdict
from formulary_catalog.domain.runs.run import Invocation, Phase
from formulary_catalog.errors import Unavailable
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.notifications import Outbox
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.halting import HaltWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_catalog.store.runs.verification import VerificationStore
from formulary_operator import notifying
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.notifying import NotDelivered, Notifying
from support.runs import IN_PRODUCTION, job_of, request
from support.webhooks import Hook, hooked

SENDER = "formulary/operator"


@dataclass
class World:
    """A database with runs, one receiver, and the sender."""

    database: Database
    hook: Hook
    runs: RunWriter
    approvals: ApprovalStore
    metrics: OperatorMetrics = field(default_factory=OperatorMetrics)

    def sender(self, *receivers: Receiver) -> Notifying:
        return Notifying(
            receivers,
            sender=SENDER,
            database=self.database,
            metrics=self.metrics,
            console_url="https://formulary.example",
        )

    async def send(self, receiver: Receiver) -> int:
        """Try all that is due once; how many attempts failed."""
        failed = 0
        while True:
            try:
                if not await self.sender(receiver).send_next(receiver):
                    return failed
            except NotDelivered:
                failed += 1

    async def earlier(self, what: str, *, hours: float) -> None:
        """Have times of all notices be so much earlier, as if so much time had passed."""
        await self.database.execute(f"update notification set {what} = {what} - make_interval(hours => {int(hours)})")

    async def answer(self, run: Invocation, decision: str) -> None:
        answer = NewApproval(invocation_id=run.id, namespace=run.namespace, decision=decision, approver="ada")
        await self.approvals.add(answer)

    async def waiting(self) -> Invocation:
        return (await self.runs.submit(request(facts=IN_PRODUCTION))).invocation

    def outcomes(self) -> dict[str, float]:
        found = next(each for each in self.metrics.registry.collect() if each.name == "formulary_notifications")
        return {s.labels["outcome"]: s.value for s in found.samples if s.name.endswith("_total")}


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with hooked() as receiving:
        yield receiving


@pytest.fixture
def oncall(hook: Hook) -> Receiver:
    return Receiver(name="oncall", url=hook.url)


@pytest.fixture
async def world(writing: Database, runs: RunWriter, hook: Hook, oncall: Receiver) -> World:
    await Outbox(writing, sender=SENDER).announce([oncall])
    return World(writing, hook, runs, ApprovalStore(writing))


async def test_people_hear_once_of_each_thing_that_happens_to_a_run(
    world: World, oncall: Receiver, asked: InvocationStore
) -> None:
    approved = (await asked.submit(request(facts=IN_PRODUCTION))).invocation
    await world.answer(approved, "Approve")
    await world.runs.begin(approved.id)
    await world.runs.note_reference(approved.id, reference=job_of(approved.id))
    await world.runs.finish(approved.id, phase=Phase.FAILED, reason="RunFailed", message="password=hunter2")
    rejected = await world.waiting()
    await world.answer(rejected, "Reject")
    await world.answer(rejected, "Reject")
    await world.runs.begin(rejected.id)
    assert await world.send(oncall) == 0
    assert await world.send(oncall) == 0
    by_run = {
        run.id: [each["type"] for each in world.hook.taken if each["subject"] == run.id] for run in (approved, rejected)
    }
    assert by_run == {
        approved.id: ["dev.formulary.run.decided", "dev.formulary.run.failed"],
        rejected.id: ["dev.formulary.run.decided"],
    }
    first = world.hook.taken[0]["data"]
    assert (first["state"], first["decided_by"]) == ("approved", "ada")
    assert first["link"] == "https://formulary.example/console/incidents/rr-1"
    assert b"hunter2" not in b"".join(world.hook.bodies)


async def test_a_halt_is_reported_by_itself_and_for_each_run_that_it_ends(
    world: World, oncall: Receiver, serving_side: Database
) -> None:
    run = (await world.runs.submit(request())).invocation
    await world.runs.begin(run.id)
    dry = (await world.runs.submit(request(dry_run=True))).invocation
    halt, _ = await HaltWriter(serving_side).halt(namespace="", reason="hunter2", by="ada")
    for each in (run, dry):
        await world.runs.finish(each.id, phase=Phase.HALTED, reason="Halted", message="hunter2")
    await world.send(oncall)
    assert [(each["type"], each["subject"]) for each in world.hook.taken] == [
        ("dev.formulary.halt.halted", halt.trace_id),
        ("dev.formulary.run.halted", run.id),
    ]
    assert b"hunter2" not in b"".join(world.hook.bodies)


async def test_that_a_problem_is_back_is_reported_and_that_it_is_gone_is_not(
    world: World, oncall: Receiver, writing: Database
) -> None:
    ended = []
    for outcome in (Outcome.RELAPSED, Outcome.HELPED):
        run = (await world.runs.submit(request())).invocation
        await world.runs.begin(run.id)
        await world.runs.note_reference(run.id, reference=job_of(run.id))
        await world.runs.finish(run.id, phase=Phase.SUCCEEDED, reason="", message="")
        await VerificationStore(writing).decide(run.id, Verdict(outcome=outcome, feedback="hunter2"))
        ended.append(run.id)
    await world.send(oncall)
    assert [(each["type"], each["subject"]) for each in world.hook.taken] == [("dev.formulary.run.relapsed", ended[0])]
    assert b"hunter2" not in b"".join(world.hook.bodies)


async def test_a_receiver_that_fails_hangs_and_redirects_gets_everything_when_it_returns(
    world: World, oncall: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "ATTEMPT_SECONDS", 0.2)
    expected = {f"{(await world.waiting()).id}.waiting" for _ in range(3)}
    for world.hook.status, world.hook.hangs in ((500, False), (204, True), (307, False)):
        assert await world.send(oncall) == 3
        await world.earlier("due_at", hours=1)
    nowhere = oncall.model_copy(update={"url": "http://127.0.0.1:1/"})
    assert await world.send(nowhere) == 3
    await world.earlier("due_at", hours=1)
    world.hook.status, world.hook.hangs, world.hook.taken = 204, False, []
    assert await world.send(oncall) == 0
    assert sorted(each["id"] for each in world.hook.taken) == sorted(expected)
    assert len(set(world.hook.bodies)) == 3, "each attempt sends the same"
    assert world.outcomes() == {"failed": 12, "delivered": 3}


async def test_a_sender_that_dies_between_sending_and_noting_it_sends_the_same_id_again(
    world: World, oncall: Receiver
) -> None:
    await world.waiting()
    world.hook.hangs = True
    dying = asyncio.create_task(world.send(oncall))
    async with asyncio.timeout(10):
        await world.hook.arrived.wait()
    dying.cancel()
    with suppress(asyncio.CancelledError):
        await dying
    world.hook.hangs = False
    await world.send(oncall)
    assert world.hook.taken == [], "it is claimed still: another sender does not send it meanwhile"
    await world.earlier("due_at", hours=1)
    await world.send(oncall)
    assert world.hook.bodies[0] == world.hook.bodies[1]
    assert world.hook.ids == ["waiting"]


@pytest.mark.parametrize(
    ("decision", "events"), [("Approve", ["waiting", "decided.approved"]), ("", ["waiting", "reminder"])]
)
async def test_a_reminder_comes_before_a_run_expires_unless_somebody_has_decided(
    world: World, oncall: Receiver, decision: str, events: list[str]
) -> None:
    run = await world.waiting()
    await world.send(oncall)
    assert world.hook.ids == ["waiting"]
    await world.earlier("due_at", hours=21)
    await world.send(oncall)
    assert world.hook.ids == ["waiting"]
    if decision:
        await world.answer(run, decision)
    await world.earlier("due_at", hours=1)
    await world.send(oncall)
    assert world.hook.ids == events


async def test_people_hear_that_nobody_approved_a_run_in_time(world: World, oncall: Receiver) -> None:
    run = await world.waiting()
    await world.database.execute("update invocation set created_at = created_at - interval '25 hours'")
    await world.runs.begin(run.id)
    await world.send(oncall)
    assert world.hook.ids == ["failed"]
    title = "formulary/restart on shop/Deployment/checkout was not approved in time"
    assert world.hook.taken[0]["data"]["title"] == title


async def test_nobody_is_asked_for_a_decision_that_was_made_while_the_receiver_was_down(
    world: World, oncall: Receiver
) -> None:
    world.hook.status = 503
    run = await world.waiting()
    assert await world.send(oncall) == 1
    await world.answer(run, "Approve")
    world.hook.status = 204
    await world.earlier("due_at", hours=22)
    await world.send(oncall)
    assert world.hook.ids == ["decided.approved"]
    assert world.outcomes() == {"failed": 1, "overtaken": 2, "delivered": 1}


async def test_a_run_waits_again_and_says_so_when_what_was_approved_has_changed(world: World, oncall: Receiver) -> None:
    run = await world.waiting()
    await world.runs.begin(run.id, content={"digest": "sha256:" + "a" * 64})
    await world.answer(run, "Approve")
    for _ in range(2):
        await world.runs.begin(run.id, content={"digest": "sha256:" + "b" * 64})
    await world.send(oncall)
    assert sorted(world.hook.ids) == sorted(["waiting", f"waiting.{'b' * 12}", f"decided.{'a' * 12}.approved"])
    await world.earlier("due_at", hours=22)
    await world.send(oncall)
    assert world.hook.ids[3:] == ["reminder"]


async def test_a_rejection_is_reported_of_what_somebody_else_has_approved(world: World, oncall: Receiver) -> None:
    run = await world.waiting()
    for decision in ("Approve", "Reject", "Reject"):
        await world.answer(run, decision)
    await world.send(oncall)
    assert [each["data"]["state"] for each in world.hook.taken] == ["approved", "rejected"]


async def test_a_receiver_that_is_removed_meanwhile_does_not_hinder_a_halt(
    world: World, serving_side: Database, database: str
) -> None:
    other = await asyncpg.connect(database)
    try:
        async with other.transaction(), asyncio.timeout(10):
            await other.execute("delete from formulary.notification_receiver")
            halting = asyncio.create_task(HaltWriter(serving_side).halt(namespace="", reason="", by="ada"))
            while not await other.fetchval("select exists (select from pg_locks where not granted)"):
                assert not halting.done()
                await asyncio.sleep(0)
        halt, _ = await halting
    finally:
        await other.close()
    assert halt.by == "ada"
    assert await world.database.fetch("select from notification") == []


async def test_a_receiver_gets_the_events_and_namespaces_that_it_wants(world: World, hook: Hook) -> None:
    elsewhere = Receiver(name="elsewhere", url=hook.url, namespaces=("bank",))
    decided = Receiver(name="decided", url=hook.url, namespaces=("shop", "bank"), events=(Event.DECIDED,))
    await Outbox(world.database, sender=SENDER).announce([elsewhere, decided])
    run = await world.waiting()
    await world.answer(run, "Reject")
    for receiver in (elsewhere, decided):
        await world.send(receiver)
    assert [each["type"] for each in hook.taken] == ["dev.formulary.run.decided"]


async def test_a_notice_is_given_up_after_a_day_and_forgotten_after_a_week(world: World, oncall: Receiver) -> None:
    run = await world.waiting()
    await world.answer(run, "Reject")
    await world.send(oncall)
    await world.runs.begin(run.id)
    world.hook.status = 500
    failing = (await world.runs.submit(request())).invocation
    await world.runs.begin(failing.id)
    await world.runs.finish(failing.id, phase=Phase.FAILED, reason="RunFailed", message="")
    for hours in (0, 24, 2):
        await world.earlier("at", hours=hours)
        await world.earlier("due_at", hours=1)
        assert await world.send(oncall) == 1
    assert world.outcomes() == {"overtaken": 1, "delivered": 1, "failed": 3, "given_up": 1}
    await world.earlier("due_at", hours=24)
    assert await world.send(oncall) == 0
    await world.database.execute("update notification set done_at = done_at - interval '8 days'")
    await Outbox(world.database, sender=SENDER).announce([oncall])
    assert await world.database.fetch("select from notification") == []


async def test_a_notice_of_a_newer_release_is_given_up_and_holds_up_no_other(world: World, oncall: Receiver) -> None:
    await world.waiting()
    await world.database.execute('update notification set notice = notice || \'{"event": "unheard-of"}\'')
    await world.waiting()
    assert await world.send(oncall) == 0
    assert world.outcomes() == {"given_up": 1, "delivered": 1}


async def test_nothing_is_kept_of_what_was_rolled_back_or_for_who_receives_nothing_any_more(
    world: World, oncall: Receiver, asked: InvocationStore
) -> None:
    with pytest.raises(Unavailable):
        await asked.submit(request(facts=IN_PRODUCTION), no_executor=Unavailable("nobody runs anything"))
    assert await world.database.fetch("select from notification") == []
    await world.waiting()
    await Outbox(world.database, sender=SENDER).announce([])
    await world.waiting()
    assert await world.database.fetch("select from notification") == []


async def test_the_loops_of_the_operator_sign_what_they_send_with_the_secret_of_the_receiver(
    world: World, hook: Hook, tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(hook.url + "\n")
    (tmp_path / "signing-key").write_text("s3cret\n")
    slack = Receiver(name="oncall", format=Format.SLACK, secret_dir=tmp_path)
    await world.waiting()
    works = [asyncio.create_task(work) for work in world.sender(slack).works()]
    try:
        async with asyncio.timeout(10):
            await hook.arrived.wait()
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
    headers = hook.headers[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + hook.bodies[0]
    digest = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    assert "blocks" in json.loads(hook.bodies[0])


async def test_the_server_can_add_a_notice_of_a_run_that_there_is_and_read_none(
    world: World, serving_side: Database
) -> None:
    def add(subject: str) -> Callable[[Connection], Any]:
        return lambda connection: connection.execute(
            "select formulary.add_notice('forged', 'waiting', $1, null, '{}')", subject
        )

    await serving_side.write(add("inv-none"))
    assert await world.database.fetch("select from notification") == []
    with pytest.raises(Unavailable):
        await serving_side.fetch("select from notification")
