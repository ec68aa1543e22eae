"""Checkpoints vouch for what changed since the last one, and follow each other."""

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.audit.chain import Problem
from formulary_catalog.domain.audit.checkpoint import CheckpointKind, compose
from formulary_catalog.errors import Unavailable
from formulary_catalog.store.audit.checkpoints import CheckpointStore, end_checkpoint, keep_checkpointing
from formulary_catalog.store.audit.events import TraceStore, append_event
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Connection, Database
from support.trail import KEY, THIS_YEAR, event, write_trace


async def test_checkpoints_vouch_for_what_changed_since_the_last_and_follow_each_other(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader
) -> None:
    await write_trace(traces, "rr-1", 2)
    await write_trace(traces, "rr-2", 1)
    (first,) = await checkpoints.checkpoint(KEY)
    assert await checkpoints.checkpoint(KEY) == []
    await write_trace(traces, "rr-2", 1)
    (second,) = await checkpoints.checkpoint(KEY)
    assert (first.traces, second.traces, second.previous) == (2, 1, first.hash)
    assert [line.split()[:2] for line in first.body.splitlines()[5:]] == [['"rr-1"', "2"], ['"rr-2"', "1"]]
    replay = await reader.verify(keys=[KEY.public])
    assert (replay.status, replay.event_count, replay.trace_count, replay.checkpoint_count) == ("PASS", 4, 2, 2)
    assert (replay.unsigned, replay.unchecked) == (0, 0)
    assert (await reader.verify()).unchecked == 2


@pytest.mark.parametrize("changes", [{"id": 9}, {"id": 0}, {"previous": "1" * 64}, {"hash": "1" * 64}, {"body": "x"}])
async def test_only_the_checkpoint_after_the_last_one_is_taken(
    traces: TraceStore, checkpoints: CheckpointStore, writing: Database, reader: TraceReader, changes: dict[str, Any]
) -> None:
    await write_trace(traces, "rr-1", 1)
    (first,) = await checkpoints.checkpoint(KEY)
    following = compose(kind=CheckpointKind.HEADS, after=1, previous=first.hash, at=THIS_YEAR, lines=[], key=KEY)

    async def write(connection: Connection) -> None:
        await end_checkpoint(connection, replace(following, **changes), at=THIS_YEAR)

    with pytest.raises(Unavailable) as refused:
        await writing.write(write)
    assert "not the checkpoint after the last one" in str(refused.value.__cause__)
    assert (await reader.verify(keys=[KEY.public])).checkpoint_count == 1


async def test_checkpoints_without_a_key_are_told_of(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader
) -> None:
    await write_trace(traces, "rr-1", 2)
    await checkpoints.checkpoint(None)
    replay = await reader.verify()
    assert (replay.status, replay.unsigned) == ("PASS", 1)
    (finding,) = (await reader.verify(keys=[KEY.public])).findings
    assert finding.problem is Problem.CHECKPOINT_UNSIGNED


async def test_many_changed_traces_are_vouched_for_in_several_checkpoints(
    traces: TraceStore, writing: Database, reader: TraceReader
) -> None:
    for number in range(5):
        await write_trace(traces, f"rr-{number}", 1)
    checkpoints = CheckpointStore(writing, traces_in_one=2)
    assert [each.traces for each in await checkpoints.checkpoint(KEY)] == [2, 2, 1]
    assert (await reader.verify(keys=[KEY.public])).passed


async def test_checkpoints_written_at_once_beside_appends_fit_together(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader
) -> None:
    appends = [write_trace(traces, f"rr-{number % 3}", 5) for number in range(6)]
    await asyncio.gather(*appends, *(checkpoints.checkpoint(KEY) for _ in range(5)))
    await checkpoints.checkpoint(KEY)
    replay = await reader.verify(keys=[KEY.public])
    assert (replay.findings, replay.event_count) == ((), 30)


async def _vouched_for(database: str, events: int) -> None:
    owner = await asyncpg.connect(database)
    for _ in itertools.count():
        if await owner.fetchval("select checkpointed from formulary.trace_head") == events:
            break
        await asyncio.sleep(0.02)
    await owner.close()


async def test_checkpoints_are_kept_up_until_cancelled(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader, database: str
) -> None:
    keeping = asyncio.create_task(keep_checkpointing(checkpoints, every_seconds=0.01, key=KEY))
    await write_trace(traces, "rr-1", 3)
    async with asyncio.timeout(20):
        await _vouched_for(database, 3)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert (await reader.verify(keys=[KEY.public])).passed


async def test_a_trace_that_is_appended_to_has_its_turn_with_the_next_checkpoint(
    traces: TraceStore, checkpoints: CheckpointStore, serving_role: Database
) -> None:
    await write_trace(traces, "rr-1", 1)
    await write_trace(traces, "rr-2", 1)

    async def append_slowly(connection: Connection) -> None:
        await append_event(connection, event("rr-1", 2))
        (checkpoint,) = await checkpoints.checkpoint(KEY)
        assert [line.split()[0] for line in checkpoint.body.splitlines()[5:]] == ['"rr-2"']

    await serving_role.write(append_slowly)
    (checkpoint,) = await checkpoints.checkpoint(KEY)
    assert [line.split()[:2] for line in checkpoint.body.splitlines()[5:]] == [['"rr-1"', "2"]]
