"""How real runs ended is counted, and makes the next run on the same target wait for a person."""

from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import pytest

from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.reviewing import ReviewReader
from formulary_catalog.store.runs.submission import InvocationStore
from support.runs import job_of, request


async def test_outcomes_of_real_runs_alone_are_counted(asked: InvocationStore, runs: RunWriter, database: str) -> None:
    ends = [Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT, Phase.CANCELLED]
    for number, phase in enumerate(ends):
        # Each on a target of its own: two failures on one would make the rules ask for an approval.
        target = replace(request().target, name=f"checkout-{number}")
        accepted = (await asked.submit(request(target=target))).invocation
        await runs.begin(accepted.id)
        await runs.note_reference(accepted.id, reference=job_of(accepted.id))
        await runs.finish(accepted.id, phase=phase, reason="x", message="")
    dry = (await asked.submit(request(dry_run=True))).invocation
    await runs.begin(dry.id)
    await runs.finish(dry.id, phase=Phase.SUCCEEDED, reason="DryRun", message="")
    owner = await asyncpg.connect(database)
    try:
        rows = await owner.fetch("select succeeded, failed, median_seconds from formulary.workflow_outcome")
    finally:
        await owner.close()
    assert [(row["succeeded"], row["failed"]) for row in rows] == [(2, 2)]
    assert 0 < rows[0]["median_seconds"] < 30


async def test_repeated_failures_on_one_target_make_the_next_run_wait_for_a_person(
    asked: InvocationStore, runs: RunWriter
) -> None:
    for _ in range(2):
        accepted = (await asked.submit(request())).invocation
        assert accepted.phase is Phase.PENDING
        await runs.begin(accepted.id)
        await runs.note_reference(accepted.id, reference=job_of(accepted.id))
        await runs.finish(accepted.id, phase=Phase.FAILED, reason="RunFailed", message="")
    assert (await asked.submit(request())).invocation.phase is Phase.AWAITING_APPROVAL
    elsewhere = replace(request().target, name="basket")
    assert (await asked.submit(request(target=elsewhere))).invocation.phase is Phase.PENDING


async def test_failures_of_dry_runs_say_nothing_of_the_workflow(
    asked: InvocationStore, runs: RunWriter, writing: Database
) -> None:
    contracts = ContractWriter(writing, shared_namespace="formulary")
    await contracts.save({"rules": [{"id": "r", "effect": "DEGRADE"}]}, namespace="shop", name="c", uid="u")
    for dry_run in (False, False, True, True):
        accepted = (await asked.submit(request(dry_run=dry_run))).invocation
        await runs.begin(accepted.id)
        await runs.note_reference(accepted.id, reference=job_of(accepted.id))
        await runs.finish(accepted.id, phase=Phase.FAILED, reason="StartFailed", message="")
    await contracts.remove(namespace="shop", name="c")
    assert (await asked.submit(request())).invocation.phase is Phase.PENDING


async def test_failures_count_where_the_owner_of_the_database_is_no_superuser(plain_owner: str) -> None:
    serving, writing = [await Database.open(plain_owner, role=role, deadline=30) for role in Role]
    asked = InvocationStore(serving, shared_namespace="formulary")
    runs = RunWriter(writing, shared_namespace="formulary")
    try:
        for _ in range(2):
            accepted = (await asked.submit(request())).invocation
            await runs.begin(accepted.id)
            await runs.note_reference(accepted.id, reference=job_of(accepted.id))
            await runs.finish(accepted.id, phase=Phase.FAILED, reason="RunFailed", message="")
        assert (await asked.submit(request())).invocation.phase is Phase.AWAITING_APPROVAL
    finally:
        await serving.close()
        await writing.close()


@pytest.mark.parametrize("reason", ["NotPermitted", "NotInvocable", "InputInvalid", "StartFailed"])
async def test_runs_for_which_nothing_was_created_are_no_outcome_and_no_failure(
    asked: InvocationStore, runs: RunWriter, serving_side: Database, database: str, reason: str
) -> None:
    for _ in range(2):
        accepted = (await asked.submit(request())).invocation
        await runs.begin(accepted.id)
        await runs.finish(accepted.id, phase=Phase.FAILED, reason=reason, message="nothing was created")
    assert (await asked.submit(request())).invocation.phase is Phase.PENDING
    owner = await asyncpg.connect(database)
    try:
        assert await owner.fetchval("select count(*) from formulary.workflow_outcome") == 0
    finally:
        await owner.close()
    days = ReviewReader(serving_side).ended_by_day(
        caller="", namespaces=None, version_ids=None, since=datetime(2020, 1, 1, tzinfo=UTC)
    )
    assert await days == []
