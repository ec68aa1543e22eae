"""Whoever owns the database can switch its protection off and change anything: verification says what, and where."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.audit.chain import GENESIS, IntegrityFinding, Problem, digest
from formulary_catalog.domain.audit.checkpoint import Seen
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.errors import StartupError
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.audit.retention import Retention
from formulary_catalog.store.database.connection import Database
from support.trail import KEY, event


class Owner:
    """Somebody with all rights to the database, and bad intentions."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def run(self, *statements: str) -> None:
        for statement in statements:
            await self._connection.execute(statement)

    async def rewrite(self, trace_id: str, *, first: int, text: str = "never happened", fix_head: bool = True) -> None:
        """Write another event in the place of one, and fresh hashes for it and all that follow."""
        rows = await self._connection.fetch(
            "select seq, body, hash from trace_event where trace_id = $1 order by seq", trace_id
        )
        previous = GENESIS
        for row in rows:
            content = json.loads(row["body"]) | {"previous": previous}
            if row["seq"] == first:
                content["payload"]["text"] = text
            body = canonical_json(content)
            previous = digest(body)
            if row["seq"] >= first:
                await self._connection.execute(
                    "update trace_event set body = $1, hash = $2 where trace_id = $3 and seq = $4",
                    body,
                    previous,
                    trace_id,
                    row["seq"],
                )
        if fix_head:
            await self._connection.execute("update trace_head set hash = $1 where trace_id = $2", previous, trace_id)


@pytest.fixture
async def owner(database: str, trail: None) -> AsyncIterator[Owner]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    await connection.execute("alter table trace_event disable trigger user")
    await connection.execute("alter table trace_checkpoint disable trigger user")
    yield Owner(connection)
    await connection.close()


@pytest.fixture
async def trail(traces: TraceStore, writing: Database) -> None:
    """Three traces with six events each. Checkpoints 1 to 3 vouch for the first two, four, five of them."""
    checkpoints = CheckpointStore(writing)
    written = 0
    for upto in (2, 4, 5):
        for trace_id in ("a", "b", "c"):
            for number in range(written + 1, upto + 1):
                await traces.append(event(trace_id, number))
        written = upto
        await checkpoints.checkpoint(KEY)
    for trace_id in ("a", "b", "c"):
        await traces.append(event(trace_id, 6))


Found = set[tuple[str, Problem, int]]


def _found(findings: Sequence[IntegrityFinding]) -> Found:
    return {(finding.trace_id, finding.problem, finding.seq) for finding in findings}


async def test_nothing_is_found_where_nobody_tampered(reader: TraceReader, traces: TraceStore, trail: None) -> None:
    for keys in ([], [KEY.public]):
        replay = await reader.verify(keys=keys)
        assert (replay.findings, replay.event_count, replay.trace_count) == ((), 18, 3)
    assert (await traces.verify("b")).checkpoint_count == 3


FOLLOWING = "update trace_event set seq = -seq where trace_id = 'b' and seq > {0}; "
UP = FOLLOWING + "update trace_event set seq = 1 - seq where trace_id = 'b' and seq < 0"
DOWN = FOLLOWING + "update trace_event set seq = -seq - 1 where trace_id = 'b' and seq < 0"
ONE_LESS = """
update trace_head set (seq, hash, changed_at) = (
    select seq, hash, (body::jsonb ->> 'at')::timestamptz from trace_event where trace_id = 'b'
    order by seq desc limit 1) where trace_id = 'b'
"""
FRESH = """
insert into trace_event (trace_id, seq, month, kind, caller, body, hash)
select trace_id, {place}, month, kind, caller, changed, encode(sha256(convert_to(changed, 'UTF8')), 'hex')
from (select *, replace(body, '"outcome":"ok"', '"outcome":"no"') as changed from trace_event
      where trace_id = 'b' and seq = {of}) as source
"""
RENAME = "update trace_{table} set trace_id = '{new}' where trace_id = '{old}'"
SWAP, SWAP_HEADS = (
    [RENAME.format(table=table, old=old, new=new) for old, new in ("ax", "ba", "xb")] for table in ("event", "head")
)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param(
            ["update trace_event set body = replace(body, 'ok', 'no') where trace_id = 'b' and seq = 3"],
            {("b", Problem.EDITED, 3)},
            id="an event edited",
        ),
        pytest.param(
            [f"update trace_event set hash = '{GENESIS}' where trace_id = 'b' and seq = 3"],
            {("b", Problem.EDITED, 3)},
            id="a hash edited",
        ),
        pytest.param(
            ["update trace_event set caller = 'nobody' where trace_id = 'b' and seq = 3"],
            {("b", Problem.COLUMN_EDITED, 3)},
            id="a caller edited",
        ),
        pytest.param(
            ["update trace_event set kind = 'list' where trace_id = 'b' and seq = 6"],
            {("b", Problem.COLUMN_EDITED, 6)},
            id="a kind edited",
        ),
        pytest.param(
            ["update trace_event set search_id = gen_random_uuid() where trace_id = 'b' and seq = 1"],
            {("b", Problem.COLUMN_EDITED, 1)},
            id="a search id edited",
        ),
        pytest.param(
            [
                "update trace_event set (body, hash) = (changed, encode(sha256(convert_to(changed, 'UTF8')), 'hex')) "
                "from (select replace(body, 'ok', 'no') as changed from trace_event where trace_id = 'b' and seq = 3) "
                "as source where trace_id = 'b' and seq = 3"
            ],
            {("b", Problem.REWRITTEN, 3)},
            id="an event replaced with a fresh hash",
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b' and seq = 3"], {("b", Problem.MISSING, 3)}, id="one deleted"
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b' and seq = 1"],
            {("b", Problem.MISSING, 1)},
            id="the first deleted",
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b' and seq = 3", *DOWN.format(3).split(";"), ONE_LESS],
            {("b", Problem.MISSING, 3), ("b", Problem.INSERTED, 6)},
            id="one deleted and the others renumbered",
        ),
        pytest.param(
            [
                "update trace_event set seq = seq - 5 where trace_id = 'b' and seq in (2, 3)",
                "update trace_event set seq = -seq where seq < 0",
            ],
            {("b", Problem.REORDERED, 2), ("b", Problem.REORDERED, 3)},
            id="two reordered",
        ),
        pytest.param(
            [
                *UP.format(3).split(";"),
                FRESH.format(place=4, of=5),
                "update trace_head set seq = 7 where trace_id = 'b'",
            ],
            {("b", Problem.INSERTED, 4), ("b", Problem.TRUNCATED, 7)},
            id="one inserted and the others renumbered",
        ),
        pytest.param(
            [FRESH.format(place=7, of=6)],
            {("b", Problem.INSERTED, 7)},
            id="one added behind the head",
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b' and seq > 4"],
            {("b", Problem.TRUNCATED, 5)},
            id="the tail cut off",
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b' and seq > 4", ONE_LESS],
            {("b", Problem.TRUNCATED, 5)},
            id="the tail cut off and the head fixed",
        ),
        pytest.param(
            [
                "delete from trace_event where trace_id = 'b' and seq > 4",
                ONE_LESS,
                "update trace_head set checkpointed = 4 where trace_id = 'b'",
            ],
            {("b", Problem.TRUNCATED, 5), ("b", Problem.HEAD_EDITED, 4)},
            id="the tail cut off and the head fixed as if never vouched for",
        ),
        pytest.param(
            SWAP,
            {
                ("a", Problem.MISPLACED, 1),
                ("b", Problem.MISPLACED, 1),
                ("a", Problem.HEAD_EDITED, 6),
                ("b", Problem.HEAD_EDITED, 6),
            },
            id="two traces swapped",
        ),
        pytest.param(
            [*SWAP, *SWAP_HEADS],
            {("a", Problem.MISPLACED, 1), ("b", Problem.MISPLACED, 1)},
            id="two traces swapped with their heads",
        ),
        pytest.param(
            [f"update trace_head set hash = '{'1' * 64}' where trace_id = 'b'"],
            {("b", Problem.HEAD_EDITED, 6)},
            id="the head edited",
        ),
        pytest.param(
            ["delete from trace_head where trace_id = 'b'"], {("b", Problem.HEAD_EDITED, 6)}, id="the head deleted"
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b'"], {("b", Problem.TRUNCATED, 1)}, id="all events deleted"
        ),
        pytest.param(
            ["delete from trace_event where trace_id = 'b'", "delete from trace_head where trace_id = 'b'"],
            {("b", Problem.DROPPED, 0)},
            id="a whole trace dropped with its head",
        ),
        pytest.param(
            ["update trace_checkpoint set body = replace(body, '\"b\"', '\"x\"') where id = 2"],
            {("", Problem.CHECKPOINT_EDITED, 2)},
            id="a checkpoint edited",
        ),
        pytest.param(
            [
                "update trace_checkpoint set body = changed, hash = encode(sha256(convert_to(changed, 'UTF8')), 'hex') "
                "from (select replace(body, '\"b\"', '\"x\"') as changed from trace_checkpoint where id = 3) as source "
                "where id = 3"
            ],
            {
                ("", Problem.CHECKPOINT_EDITED, 3),
                ("b", Problem.HEAD_EDITED, 6),
                ("x", Problem.DROPPED, 0),
            },
            id="a checkpoint edited with a fresh hash",
        ),
        pytest.param(
            ["update trace_checkpoint set signature = decode(repeat('00', 64), 'hex') where id = 2"],
            {("", Problem.CHECKPOINT_EDITED, 2)},
            id="a signature edited",
        ),
        pytest.param(
            ["update trace_checkpoint set signature = '', key_id = '' where id = 2"],
            {("", Problem.CHECKPOINT_UNSIGNED, 2)},
            id="a signature removed",
        ),
        pytest.param(
            ["update trace_checkpoint set signature = '', key_id = ''"],
            {("", Problem.CHECKPOINT_UNSIGNED, 1)},
            id="all signatures removed",
        ),
        pytest.param(
            ["update trace_checkpoint set key_id = 'another' where id = 3"],
            {("", Problem.CHECKPOINT_UNSIGNED, 3)},
            id="a checkpoint with another key",
        ),
        pytest.param(
            ["delete from trace_checkpoint where id = 2"], {("", Problem.CHECKPOINT_MISSING, 2)}, id="one dropped"
        ),
        pytest.param(
            ["delete from trace_checkpoint where id = 3"],
            {(trace, Problem.HEAD_EDITED, 6) for trace in "abc"},
            id="the newest checkpoint dropped",
        ),
        pytest.param(
            [
                "update trace_checkpoint set id = case id when 1 then -2 else -1 end where id < 3",
                "update trace_checkpoint set id = -id where id < 0",
            ],
            {
                ("", Problem.CHECKPOINT_EDITED, 1),
                ("", Problem.CHECKPOINT_EDITED, 2),
                ("", Problem.CHECKPOINT_EDITED, 3),
            },
            id="checkpoints reordered",
        ),
    ],
)
async def test_tampering_is_found_and_located(
    owner: Owner, reader: TraceReader, statements: list[str], expected: Found
) -> None:
    await owner.run(*statements)
    replay = await reader.verify(keys=[KEY.public])
    assert _found(replay.findings) == expected
    assert (replay.status, replay.error_count) == ("FAIL", len(replay.findings))


@pytest.mark.parametrize(("first", "located"), [(1, (1, 2)), (2, (1, 2)), (3, (3, 4)), (4, (3, 4)), (5, (5, 5))])
async def test_a_chain_rewritten_from_the_middle_is_found_between_two_checkpoints(
    owner: Owner, reader: TraceReader, traces: TraceStore, first: int, located: tuple[int, int]
) -> None:
    await owner.rewrite("b", first=first)
    for replay in (await reader.verify(keys=[KEY.public]), await reader.verify("b"), await traces.verify("b")):
        (finding,) = replay.findings
        assert (finding.trace_id, finding.problem) == ("b", Problem.REWRITTEN)
        assert (finding.seq, finding.last) == located
        assert replay.checks == {"schema_valid": True, "hash_chain_valid": False, "structure_valid": True}


async def test_a_chain_rewritten_without_its_head_shows_there_too(owner: Owner, reader: TraceReader) -> None:
    await owner.rewrite("b", first=6, fix_head=False)
    assert _found((await reader.verify()).findings) == {("b", Problem.HEAD_EDITED, 6)}


async def test_nobody_has_a_trace_dropped_with_a_signature_by_making_it_look_old(
    owner: Owner, reader: TraceReader, database: str, writing: Database
) -> None:
    await CheckpointStore(writing).checkpoint(KEY)
    await owner.run(
        "select create_trace_month('2020-01-01')",
        "update trace_event set month = '2020-01-01' where trace_id = 'b'",
        "update trace_head set month = '2020-01-01', changed_at = '2020-01-02' where trace_id = 'b'",
    )
    assert _found((await reader.verify(keys=[KEY.public])).findings) == {("b", Problem.HEAD_EDITED, 6)}
    async with Retention.open(database) as retention:
        assert [month.in_use for month in await retention.expirable(datetime(2021, 1, 1, tzinfo=UTC))] == [1]
        assert await retention.expire(datetime(2021, 1, 1, tzinfo=UTC), key=KEY) == []
    assert len(await reader.events("b")) == 6


async def test_nothing_expires_unsigned_once_checkpoints_are_signed(
    trail: None, reader: TraceReader, database: str
) -> None:
    async with Retention.open(database) as retention:
        with pytest.raises(StartupError, match="FORMULARY_AUDIT_KEY_FILE"):
            await retention.expire(datetime(2021, 1, 1, tzinfo=UTC), key=None)
    assert (await reader.verify(keys=[KEY.public])).checkpoint_count == 3


@pytest.mark.parametrize("kept", [0, 2])
async def test_checkpoints_that_were_dropped_and_signed_anew_are_missed_by_whoever_wrote_or_saw_them(
    owner: Owner, reader: TraceReader, writing: Database, traces: TraceStore, kept: int
) -> None:
    """Nothing in the database tells: the signatures are right, and vouch for the rewritten trace."""
    store = CheckpointStore(writing)
    before = await store.checkpoint(KEY)
    assert (await reader.verify(keys=[KEY.public], seen=store.written)).passed
    await owner.rewrite("b", first=5)
    await owner.run(
        f"delete from trace_checkpoint where id > {kept}", f"update trace_head set checkpointed = {2 * kept}"
    )
    seen = [Seen(each.id, each.hash) for each in before]
    assert ("", Problem.CHECKPOINT_MISSING, 4) in _found((await reader.verify(seen=seen)).findings)
    for _ in range(4):
        await traces.append(event("a"))
        await store.checkpoint(KEY)
    assert (await reader.verify(keys=[KEY.public])).passed
    for known in (seen, store.written):
        replay = await reader.verify(keys=[KEY.public], seen=known)
        assert _found(replay.findings) == {("", Problem.CHECKPOINT_EDITED, 4)}


async def test_an_event_that_is_nested_without_end_can_be_verified(
    traces: TraceStore, reader: TraceReader, trail: None
) -> None:
    for depth in (60, 198, 199, 300, 5000):
        outputs: Any = "deep"
        for _ in range(depth):
            outputs = [outputs]
        await traces.append(event("nested", payload={"outcome": "ok", "outputs": outputs}))
    assert (await reader.verify(keys=[KEY.public])).findings == ()
    *_, last = await traces.events("nested")
    assert last.payload["outcome"] == "ok"
    assert "nested too deep" in last.body


async def test_what_no_checkpoint_vouches_for_yet_can_be_rewritten_with_its_head(
    owner: Owner, reader: TraceReader, writing: Database
) -> None:
    """The window that checkpoints leave, as the documentation says; it ends with the next one."""
    await owner.rewrite("b", first=6)
    assert (await reader.verify(keys=[KEY.public])).passed
    await CheckpointStore(writing).checkpoint(KEY)
    await owner.rewrite("b", first=6, text="never happened either")
    assert _found((await reader.verify(keys=[KEY.public])).findings) == {("b", Problem.REWRITTEN, 6)}


async def test_one_trace_is_verified_by_itself(owner: Owner, reader: TraceReader, traces: TraceStore) -> None:
    await owner.run("delete from trace_event where trace_id = 'b'", "delete from trace_head where trace_id = 'b'")
    for replay in (await reader.verify("b", keys=[KEY.public]), await traces.verify("b")):
        assert _found(replay.findings) == {("b", Problem.DROPPED, 0)}
        assert replay.checks["structure_valid"] is False
    for replay in (await reader.verify("a", keys=[KEY.public]), await traces.verify("a")):
        assert (replay.status, replay.event_count, replay.trace_count) == ("PASS", 6, 1)


async def test_a_bent_checkpoint_shows_where_one_of_its_traces_is_verified(owner: Owner, traces: TraceStore) -> None:
    await owner.run("update trace_checkpoint set body = body || 'x' where id = 1")
    assert _found((await traces.verify("b")).findings) == {("", Problem.CHECKPOINT_EDITED, 1)}


async def test_traces_that_only_their_owner_says_are_expired_are_still_missed(
    owner: Owner, reader: TraceReader, writing: Database
) -> None:
    await owner.run(
        "delete from trace_event where trace_id = 'b'",
        "delete from trace_head where trace_id = 'b'",
        """
        insert into trace_checkpoint (id, body, previous, hash)
        select 4, body, hash, encode(sha256(convert_to(body, 'UTF8')), 'hex') from (
            select hash, format(
                E'formulary checkpoint 1 expired\\nid 4\\nat 2026-01-01T00:00:00.000000Z\\nprevious %s\\n'
                'traces 1\\n"b" 6 %s\\n', hash, hash) as body from trace_checkpoint where id = 3) as forged
        """,
    )
    assert _found((await reader.verify(keys=[KEY.public])).findings) == {("", Problem.CHECKPOINT_UNSIGNED, 4)}
