"""Runs and admission records expire: old ones go in batches, whatever may still be needed stays, counts stay."""

from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.expiry import ExpiryWriter, ObjectOfRun
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.authors import AdmissionRecords
from support.runs import job_of, request

DAY = 24 * 3600.0
OUTCOME = "select succeeded, failed, median_seconds is null as unknown from formulary.workflow_outcome"


@pytest.fixture
def expiry(writing: Database) -> ExpiryWriter:
    return ExpiryWriter(writing)


async def queried(dsn: str, statement: str, *arguments: Any) -> Sequence[tuple[Any, ...]]:
    """The rows of a statement of the owner."""
    owner = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await owner.fetch(statement, *arguments)]
    finally:
        await owner.close()


async def aged(dsn: str, run: str, *, days: float) -> None:
    """Let the end of a run be so many days ago."""
    end = "now() - make_interval(secs => $2)"
    shifted = f"update formulary.invocation set finished_at = {end}, verify_at = {end} where id = $1"
    await queried(dsn, shifted, run, days * DAY)


async def ended(runs: RunWriter, *, uid: str = "", phase: Phase = Phase.SUCCEEDED, **changes: Any) -> str:
    """A real run that began and ended; its id."""
    run = (await runs.submit(request(**changes))).invocation
    await runs.begin(run.id)
    await runs.note_reference(run.id, reference=job_of(run.id))
    if uid:
        await runs.note_object(run.id, uid=uid)
    await runs.finish(run.id, phase=phase, reason="Completed", message="")
    return run.id


async def runs_gone(expiry: ExpiryWriter, *, existing: set[str]) -> int:
    """Delete what ended more than 90 days ago; how many."""
    return sum([number async for number in expiry.delete_runs(before_seconds=90 * DAY, existing=existing)])


async def ids(dsn: str) -> set[str]:
    return {row[0] for row in await queried(dsn, "select id from formulary.invocation")}


async def test_only_runs_that_ended_long_ago_and_have_no_object_are_deleted(
    runs: RunWriter, expiry: ExpiryWriter, database: str
) -> None:
    gone, kept, young = await ended(runs, uid="gone"), await ended(runs, uid="kept"), await ended(runs, uid="young")
    never_had_one = await ended(runs)
    under_way = (await runs.submit(request())).invocation.id
    for run in (gone, kept, never_had_one):
        await aged(database, run, days=91)
    await aged(database, young, days=89)
    await queried(database, "update formulary.invocation set created_at = now() - interval '1 year'")
    assert await runs_gone(expiry, existing={"kept"}) == 2
    assert await ids(database) == {kept, young, under_way}


async def test_the_approvals_and_the_input_of_a_run_go_with_it(
    runs: RunWriter, expiry: ExpiryWriter, writing: Database, database: str
) -> None:
    run = (await runs.submit(request(secret={"TOKEN": "hunter2"}))).invocation.id
    approval = NewApproval(
        invocation_id=run, namespace="shop", decision="Reject", approver="ada", reason="no", uid="approval"
    )
    await ApprovalStore(writing).add(approval)
    await runs.begin(run)
    await aged(database, run, days=91)
    assert await runs_gone(expiry, existing=set()) == 1
    for table in ("invocation", "invocation_approval", "invocation_secret"):
        assert await queried(database, f"select count(*) from formulary.{table}") == [(0,)], table


async def test_what_runs_came_to_is_still_counted_when_they_are_gone(
    runs: RunWriter, expiry: ExpiryWriter, database: str
) -> None:
    for phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT):
        await aged(database, await ended(runs, phase=phase), days=91)
    for phase in (Phase.CANCELLED, Phase.HALTED):
        await ended(runs, phase=phase)
    assert await queried(database, OUTCOME) == [(1, 2, False)]
    assert await runs_gone(expiry, existing=set()) == 3
    await ended(runs, phase=Phase.FAILED)
    assert await queried(database, OUTCOME) == [(1, 3, False)]
    await ended(runs)
    assert await queried(database, OUTCOME) == [(2, 3, False)]


async def test_many_pages_of_runs_are_gone_through_whether_their_objects_are_there_or_not(
    runs: RunWriter, expiry: ExpiryWriter, database: str
) -> None:
    await aged(database, await ended(runs), days=91)
    ((columns,),) = await queried(
        database,
        "select string_agg(column_name, ', ') from information_schema.columns where table_schema = 'formulary' "
        "and table_name = 'invocation' and column_name not in ('id', 'object_uid')",
    )
    await queried(
        database,
        f"insert into formulary.invocation (id, object_uid, {columns}) select 'inv-' || number, number, {columns} "
        "from formulary.invocation, generate_series(1, 6000) as number",
    )
    existing = {str(number) for number in range(1, 6001) if number <= 3000 or number % 2}
    assert await runs_gone(expiry, existing=existing) == 1501
    assert await runs_gone(expiry, existing=existing) == 0
    assert len(await ids(database)) == 4500


async def test_runs_of_namespaces_that_are_not_watched_stay(runs: RunWriter, writing: Database, database: str) -> None:
    run = await ended(runs)
    await aged(database, run, days=91)
    others = ExpiryWriter(writing, namespaces={"bank"})
    assert await runs_gone(others, existing=set()) == 0
    assert await ids(database) == {run}


async def test_of_objects_it_is_known_which_runs_ended_long_ago_and_which_have_none(
    runs: RunWriter, expiry: ExpiryWriter, database: str
) -> None:
    over, young = await ended(runs, uid="over"), await ended(runs, uid="young")
    rehearsed, rehearsing = await ended(runs, uid="rehearsed", dry_run=True), await ended(runs, uid="now", dry_run=True)
    under_way = (await runs.submit(request())).invocation.id
    await runs.note_object(under_way, uid="under-way")
    await aged(database, over, days=8)
    await aged(database, rehearsed, days=0.1)
    objects = [
        ObjectOfRun(namespace="shop", name=name, uid=uid)
        for name, uid in (
            (over, "over"),
            (over, "another"),
            (young, "young"),
            (rehearsed, "rehearsed"),
            (rehearsing, "now"),
            (under_way, "under-way"),
            ("x", "y"),
        )
    ]
    asked = {"before_seconds": 7 * DAY, "rehearsals_before_seconds": 3600.0}
    assert await expiry.ended(objects, **asked) == {
        "over": True,
        "young": False,
        "rehearsed": True,
        "now": False,
        "under-way": False,
    }
    assert await expiry.ended([], **asked) == {}


async def test_who_created_an_object_is_forgotten_only_when_it_is_gone(
    expiry: ExpiryWriter, writing: Database, database: str
) -> None:
    records = AdmissionRecords(writing)
    for uid, resource in (
        ("gone", "workflowinvocations"),
        ("kept", "workflowinvocations"),
        ("halts/3", "governancecontracts"),
        ("gone-too/1", "governancecontracts"),
        ("new", "invocationapprovals"),
    ):
        await records.record(resource=resource, namespace="shop", name="x", uid=uid, username="ada")
    await queried(database, "update formulary.admission_record set at = now() - interval '91 days' where uid <> 'new'")
    assert (
        sum([number async for number in expiry.delete_admissions(before_seconds=90 * DAY, existing={"kept", "halts"})])
        == 2
    )
    assert await queried(database, "select uid from formulary.admission_record order by uid") == [
        ("halts/3",),
        ("kept",),
        ("new",),
    ]
