"""The operator watches over the trail: it signs checkpoints, verifies, and tells of what was bent meanwhile."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database
from formulary_operator.audit import Auditing
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from support.trail import KEY, write_trace

_WAITING_SECONDS = 60
_COVERED = "formulary_trace_checkpoint_timestamp_seconds "
_PUBLISHED = 'formulary_trace_published_timestamp_seconds{place="named"} '


@pytest.fixture
async def metrics(database: str, writing: Database, tmp_path: Path) -> AsyncIterator[OperatorMetrics]:
    """The metrics of an operator that signs and verifies all the time."""
    (tmp_path / "audit.pem").write_bytes(KEY.pem())
    settings = OperatorSettings(
        database_url=database, audit_key_file=tmp_path / "audit.pem", checkpoint_seconds=0.05, verify_seconds=0.2
    )
    metrics = OperatorMetrics()
    works = [asyncio.create_task(work) for work in Auditing(settings, database=writing, metrics=metrics).works()]
    yield metrics
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)


async def _signed(database: str, *, checkpoints: int) -> None:
    async with asyncio.timeout(_WAITING_SECONDS), TraceReader.open(database) as reader:
        for _ in itertools.count():
            if (await reader.verify(keys=[KEY.public])).checkpoint_count >= checkpoints:
                return
            await asyncio.sleep(0.02)


async def _told(metrics: OperatorMetrics, *, of_findings: bool) -> None:
    """Wait for a verification that found something, or nothing."""
    async with asyncio.timeout(_WAITING_SECONDS):
        for _ in itertools.count():
            if (_findings(metrics) > 0) is of_findings:
                return
            await asyncio.sleep(0.02)


def _findings(metrics: OperatorMetrics) -> float:
    lines = metrics.exposition().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("formulary_trace_findings "))


async def test_the_age_of_checkpoints_grows_while_they_cannot_be_written_or_published(
    traces: TraceStore, database: str, writing: Database, tmp_path: Path
) -> None:
    published = tmp_path / "published"
    settings = OperatorSettings(
        database_url=database, checkpoint_seconds=0.05, verify_seconds=0, audit_published=str(published)
    )
    metrics = OperatorMetrics()
    works = [asyncio.create_task(work) for work in Auditing(settings, database=writing, metrics=metrics).works()]
    owner = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    try:
        await write_trace(traces, "rr-1", 1)
        await _until(published.exists)
        started = (_value(metrics, _COVERED), _value(metrics, _PUBLISHED))
        await _until(lambda: _value(metrics, _COVERED) > started[0] and _value(metrics, _PUBLISHED) > started[1])

        published.write_text("something else\n")
        await _stands_still(metrics, _PUBLISHED, while_grows=_COVERED)
        published.write_text(f"1:{'0' * 64}\n")
        await _stands_still(metrics, _PUBLISHED, while_grows=_COVERED)
        published.unlink()
        await owner.execute("revoke execute on function begin_checkpoint from formulary_writer")
        await _stands_still(metrics, _COVERED, while_grows=_PUBLISHED)
    finally:
        await owner.close()
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def test_a_leader_that_starts_counts_from_the_last_checkpoint_and_not_from_its_start(
    traces: TraceStore, database: str, writing: Database, tmp_path: Path
) -> None:
    published = tmp_path / "published"
    owner = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    try:
        checkpoints = CheckpointStore(writing)
        for number in (1, 2):
            await write_trace(traces, f"rr-{number}", 1)
            (written,) = await checkpoints.checkpoint(None)
            if number == 1:
                published.write_text(f"{written.id}:{written.hash}\n")
        await write_trace(traces, "rr-3", 1)
        await owner.execute("alter table trace_checkpoint disable trigger user")
        await owner.execute("update trace_checkpoint set at = to_timestamp(1000 * id)")
        await owner.execute("revoke execute on function begin_checkpoint, checkpoints_from from formulary_writer")

        first = await _started(database, writing, published)
        published.write_text("something else\n")
        unreadable = await _started(database, writing, published)
    finally:
        await owner.close()

    assert first == (2000.0, 1000.0)
    assert unreadable == (2000.0, 1000.0), "nothing is known to be published since the first checkpoint"


async def test_a_leader_of_a_trail_that_no_checkpoint_covers_counts_from_its_first_event(
    traces: TraceStore, database: str, writing: Database, tmp_path: Path
) -> None:
    await write_trace(traces, "rr-1", 1)
    owner = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    await owner.execute("update trace_head set changed_at = to_timestamp(3000)")
    await owner.execute("revoke execute on function begin_checkpoint from formulary_writer")
    await owner.close()

    assert (await _started(database, writing, tmp_path / "published"))[0] == 3000.0


async def _started(database: str, writing: Database, published: Path) -> tuple[float, float]:
    """The first times that a leader has: of what is covered, and of what is published."""
    settings = OperatorSettings(
        database_url=database, checkpoint_seconds=3600, verify_seconds=0, audit_published=str(published)
    )
    metrics = OperatorMetrics()
    works = [asyncio.create_task(work) for work in Auditing(settings, database=writing, metrics=metrics).works()]
    try:
        await _until(lambda: bool(_value(metrics, _COVERED) and _value(metrics, _PUBLISHED)))
        return _value(metrics, _COVERED), _value(metrics, _PUBLISHED)
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_WAITING_SECONDS):
        for _ in itertools.count():
            if holds():
                return
            await asyncio.sleep(0.02)


async def _stands_still(metrics: OperatorMetrics, name: str, *, while_grows: str) -> None:
    """Wait until one time stays as it is while the other one goes on three times."""
    async with asyncio.timeout(_WAITING_SECONDS):
        while True:
            stood, grew = _value(metrics, name), _value(metrics, while_grows)
            for _ in range(3):
                last = _value(metrics, while_grows)
                await _until(lambda last=last: _value(metrics, while_grows) > last)  # type: ignore[misc]
            if _value(metrics, name) == stood and _value(metrics, while_grows) > grew:
                return


def _value(metrics: OperatorMetrics, name: str) -> float:
    lines = metrics.exposition().decode().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)


async def test_checkpoints_that_were_dropped_and_signed_anew_are_missed_by_the_operator(
    traces: TraceStore, database: str, metrics: OperatorMetrics
) -> None:
    await write_trace(traces, "rr-1", 2)
    await _signed(database, checkpoints=1)
    await _told(metrics, of_findings=False)
    owner = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    await owner.execute("alter table trace_checkpoint disable trigger user")
    await owner.execute("delete from trace_checkpoint; update trace_head set checkpointed = 0")
    await owner.close()
    await write_trace(traces, "rr-2", 1)
    await _signed(database, checkpoints=1)
    async with TraceReader.open(database) as reader:
        assert (await reader.verify(keys=[KEY.public])).passed
    await _told(metrics, of_findings=True)
