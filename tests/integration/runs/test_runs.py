"""Runs as rows: one request is one run, an end is an end, and the server reads and writes no more than it needs."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.errors import FormularyError, InvalidInput, RateLimited
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import CallerLimits, InvocationStore
from support.runs import CALLER, HARMLESS, IN_PRODUCTION, request


async def _kinds(database: str, trace_id: str) -> list[str]:
    owner = await asyncpg.connect(database)
    try:
        rows = await owner.fetch("select kind from formulary.trace_event where trace_id = $1 order by seq", trace_id)
        return [row["kind"] for row in rows]
    finally:
        await owner.close()


async def test_a_harmless_run_is_accepted_begun_and_ended_and_its_trail_says_so(
    asked: InvocationStore, runs: RunWriter, database: str
) -> None:
    accepted = (await asked.submit(request())).invocation
    assert (accepted.phase, accepted.reason) == (Phase.PENDING, "Accepted")
    begun = await runs.begin(accepted.id)
    assert begun is not None
    assert begun.phase is Phase.RUNNING
    assert begun.started_at is not None
    ended = await runs.finish(accepted.id, phase=Phase.SUCCEEDED, reason="Completed", message="", outputs={"a": 1})
    assert ended is not None
    assert ended.outputs == {"a": 1}
    assert ended.duration_seconds is not None
    read = await asked.find(accepted.id)
    assert read == ended
    assert await _kinds(database, "rr-1") == [
        "invocation.requested",
        "invocation.decided",
        "invocation.decided",
        "invocation.started",
        "invocation.finished",
    ]


async def test_twenty_requests_with_one_key_at_once_are_one_run(asked: InvocationStore, runs: RunWriter) -> None:
    submitted = await asyncio.gather(*(asked.submit(request(key="k")) for _ in range(20)))
    assert len({each.invocation.id for each in submitted}) == 1
    assert sum(not each.repeated for each in submitted) == 1
    assert len(await runs.active()) == 1


async def test_a_key_that_was_used_for_another_request_is_refused(asked: InvocationStore) -> None:
    await asked.submit(request(key="k"))
    with pytest.raises(InvalidInput, match="was used for another request"):
        await asked.submit(request(key="k", values={"REPLICAS": 3}))


async def test_a_run_begins_once_however_many_try(asked: InvocationStore, runs: RunWriter, database: str) -> None:
    accepted = (await asked.submit(request())).invocation
    began = await asyncio.gather(*(runs.begin(accepted.id) for _ in range(10)))
    assert {run.started_at for run in began if run is not None} == {began[0].started_at if began[0] else None}
    assert (await _kinds(database, "rr-1")).count("invocation.started") == 1


async def test_a_run_in_production_waits_until_it_is_approved(
    asked: InvocationStore, runs: RunWriter, writing: Database, database: str
) -> None:
    waiting = (await asked.submit(request(facts=IN_PRODUCTION))).invocation
    assert waiting.phase is Phase.AWAITING_APPROVAL
    still = await runs.begin(waiting.id)
    assert still is not None
    assert still.phase is Phase.AWAITING_APPROVAL
    approvals = ApprovalStore(writing)
    approval = NewApproval(
        invocation_id=waiting.id, namespace="shop", decision="Approve", approver="ada", reason="looked", uid="u1"
    )
    assert await approvals.add(approval) is not None
    assert await approvals.add(approval) is not None, "the same object again"
    begun = await runs.begin(waiting.id)
    assert begun is not None
    assert begun.phase is Phase.RUNNING
    assert begun.decision["why"] == ["approved by ada (looked)"]
    assert (await _kinds(database, "rr-1")).count("invocation.approved") == 1


async def test_an_approval_from_another_namespace_is_none(
    asked: InvocationStore, runs: RunWriter, writing: Database
) -> None:
    waiting = (await asked.submit(request(facts=IN_PRODUCTION))).invocation
    elsewhere = NewApproval(invocation_id=waiting.id, namespace="other", decision="Approve", approver="eve", uid="u1")
    assert await ApprovalStore(writing).add(elsewhere) is None
    still = await runs.begin(waiting.id)
    assert still is not None
    assert still.phase is Phase.AWAITING_APPROVAL


async def test_a_rejection_ends_the_run(asked: InvocationStore, runs: RunWriter, serving_side: Database) -> None:
    waiting = (await asked.submit(request(facts=IN_PRODUCTION))).invocation
    rejection = NewApproval(invocation_id=waiting.id, namespace="shop", decision="Reject", approver=CALLER)
    await ApprovalStore(serving_side).add(rejection)
    ended = await runs.begin(waiting.id)
    assert ended is not None
    assert (ended.phase, ended.reason) == (Phase.FAILED, "Rejected")


async def test_an_end_stays_as_it_is(asked: InvocationStore, runs: RunWriter) -> None:
    accepted = (await asked.submit(request())).invocation
    await runs.begin(accepted.id)
    await runs.finish(accepted.id, phase=Phase.FAILED, reason="RunFailed", message="exit 1")
    late = await runs.finish(accepted.id, phase=Phase.SUCCEEDED, reason="Completed", message="")
    assert late is not None
    assert late.phase is Phase.FAILED
    cancelled = await runs.cancel(accepted.id, message="deleted")
    assert cancelled is not None
    assert cancelled.phase is Phase.FAILED
    again = await runs.begin(accepted.id)
    assert again is not None
    assert again.phase is Phase.FAILED


async def test_sensitive_values_are_digests_in_the_row_and_the_trail_and_gone_when_the_run_is_over(
    asked: InvocationStore, runs: RunWriter, database: str
) -> None:
    accepted = (await asked.submit(request(secret={"TOKEN": "hunter2-hunter2"}))).invocation
    assert accepted.input["TOKEN"].startswith("sha256:")
    assert await runs.secret(accepted.id) == {"TOKEN": "hunter2-hunter2"}
    await runs.begin(accepted.id)
    await runs.finish(accepted.id, phase=Phase.SUCCEEDED, reason="Completed", message="")
    assert await runs.secret(accepted.id) == {}
    owner = await asyncpg.connect(database)
    try:
        tables = await owner.fetch("select tablename from pg_tables where schemaname = 'formulary'")
        for table in tables:
            rows = await owner.fetch(f"select t::text from formulary.{table[0]} t")
            assert not any("hunter2" in row[0] for row in rows), table[0]
    finally:
        await owner.close()


async def test_equal_secrets_of_two_runs_have_different_digests(asked: InvocationStore) -> None:
    one = (await asked.submit(request(secret={"TOKEN": "x"}))).invocation
    other = (await asked.submit(request(secret={"TOKEN": "x"}))).invocation
    assert one.input["TOKEN"] != other.input["TOKEN"]


async def test_a_caller_gets_no_more_runs_at_a_time_than_it_may(asked: InvocationStore, runs: RunWriter) -> None:
    limits = CallerLimits(concurrent=2)
    results = await asyncio.gather(*(asked.submit(request(), limits=limits) for _ in range(6)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, RateLimited)]
    assert len(refused) == 4
    assert all(error.retry_after > 0 for error in refused)
    assert (
        await asked.submit(request(caller="somebody-else", facts=replace(HARMLESS)), limits=limits)
    ).repeated is False
    first = (await runs.active())[0]
    await runs.cancel(first.id, message="")
    await asked.submit(request(), limits=limits)


async def test_a_caller_gets_no_more_runs_within_an_hour_than_it_may(asked: InvocationStore) -> None:
    limits = CallerLimits(per_hour=3)
    for number in range(3):
        await asked.submit(request(key=str(number)), limits=limits)
    with pytest.raises(RateLimited, match="3 runs within an hour") as refused:
        await asked.submit(request(key="4"), limits=limits)
    assert 3500 < refused.value.retry_after <= 3600
    repeated = await asked.submit(request(key="1"), limits=limits)
    assert repeated.repeated, "hearing of a run that is there costs nothing"


async def test_the_server_reads_no_run_that_it_cannot_name(asked: InvocationStore, serving_side: Database) -> None:
    accepted = (await asked.submit(request())).invocation
    assert await asked.find("inv-" + "0" * 20) is None

    async def snoop(connection: Connection) -> int:
        return int(await connection.fetchval("select count(*) from invocation"))

    assert await serving_side.read(snoop) == 0
    assert await asked.find(accepted.id) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "update invocation set phase = 'Succeeded'",
        "delete from invocation",
        "select sealed from invocation_secret",
        "insert into governance_contract (namespace, name, uid, spec) values ('formulary', 'x', 'x', '{}')",
        "delete from governance_contract",
        "update invocation_approval set approver = 'ada'",
        "insert into executor (name, engines) values ('x', '{job}')",
        "update workflow_outcome set succeeded = 100",
        "select * from admission_record",
        "select * from workflow_author",
    ],
)
async def test_the_server_may_not(statement: str, serving_side: Database) -> None:
    with pytest.raises(FormularyError) as refused:
        await serving_side.execute(statement)
    assert isinstance(refused.value.__cause__, asyncpg.InsufficientPrivilegeError)


async def test_the_server_cannot_approve_in_the_name_of_another(asked: InvocationStore, serving_side: Database) -> None:
    waiting = (await asked.submit(request(facts=IN_PRODUCTION))).invocation

    async def forge(connection: Connection) -> None:
        await connection.execute(
            "select set_config('formulary.caller', 'agent', true), set_config('formulary.invocation', $1, true)",
            waiting.id,
        )
        await connection.execute(
            "insert into invocation_approval (uid, source, invocation_id, namespace, name, decision, approver) "
            "values ('u', 'server', $1, 'shop', '', 'Approve', 'ada')",
            waiting.id,
        )

    with pytest.raises(FormularyError) as refused:
        await serving_side.write(forge)
    assert isinstance(refused.value.__cause__, asyncpg.InsufficientPrivilegeError)


@pytest.mark.parametrize(
    ("facts", "age", "message"),
    [
        (HARMLESS, "11 minutes", "not begun within its timeout of 60 s"),
        (IN_PRODUCTION, "25 hours", "no approval within 24 hours"),
    ],
)
async def test_a_run_that_has_waited_too_long_is_over_and_never_begins(
    facts: RunFacts, age: str, message: str, asked: InvocationStore, runs: RunWriter, database: str
) -> None:
    waiting = (await asked.submit(request(facts=facts))).invocation
    owner = await asyncpg.connect(database)
    try:
        await owner.execute(f"update formulary.invocation set created_at = created_at - interval '{age}'")
    finally:
        await owner.close()
    ended = await runs.begin(waiting.id)
    assert ended is not None
    assert (ended.phase, ended.reason, ended.started_at) == (Phase.TIMED_OUT, "DeadlineExceeded", None)
    assert message in ended.message
    assert await runs.active() == []
    assert (await _kinds(database, "rr-1"))[-1] == "invocation.finished"
