"""Checkpoints over the heads of all traces, written again and again by the process that feeds the catalog."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import structlog

from formulary_catalog.domain.audit.checkpoint import Checkpoint, CheckpointKind, Seen, SigningKey, Vouched, compose
from formulary_catalog.errors import StartupError, Unavailable
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.owner import OwnerConnection

TRACES_IN_ONE = 2000
"""How many traces one checkpoint vouches for: it locks their heads while it is written."""
_MONTHS_AHEAD = 12
_REMEMBERED = 5000
"""Checkpoints: days of them, so that several verifications come by."""
_COVERED_UNTIL = """
select coalesce(
    (select at from formulary.trace_checkpoint order by id desc limit 1),
    (select min(changed_at) from formulary.trace_head where seq > checkpointed))
where exists (select from formulary.trace_head where seq > checkpointed)
"""
_PUBLISHED_UNTIL = """
with published as (
    select id, at from formulary.trace_checkpoint
    where id = any($1::bigint[]) and (id, hash) in (select * from unnest($1::bigint[], $2::text[]))
)
select case when (select max(id) from formulary.trace_checkpoint) is distinct from (select max(id) from published)
    then coalesce(
        (select at from published order by id desc limit 1),
        (select at from formulary.trace_checkpoint order by id limit 1))
    end as until
"""
_log = structlog.get_logger(__name__)


class CheckpointStore:
    """Writes checkpoints, as the role that feeds the catalog. Remembers the newest of them, for verification."""

    def __init__(self, database: Database, *, traces_in_one: int = TRACES_IN_ONE) -> None:
        self._database = database
        self._traces_in_one = traces_in_one
        self._written: deque[Seen] = deque(maxlen=_REMEMBERED)

    @property
    def written(self) -> tuple[Seen, ...]:
        """The newest checkpoints that were written here."""
        return tuple(self._written)

    async def checkpoint(self, key: SigningKey | None) -> list[Checkpoint]:
        """Vouch for the events that no checkpoint vouches for yet; unsigned without a key. Returns what was written.

        Traces that are appended to at this moment have their turn with the next checkpoint.

        Raises:
            Unavailable: the database does not answer.
        """

        async def write(connection: Connection) -> Checkpoint | None:
            return await _vouch(connection, key, at_most=self._traces_in_one)

        written: list[Checkpoint] = []
        while (checkpoint := await self._database.write(write)) is not None:
            written.append(checkpoint)
            self._written.append(Seen(checkpoint.id, checkpoint.hash))
            if checkpoint.traces < self._traces_in_one:
                break
        return written

    async def since(self, known: int, *, at_most: int) -> list[Seen]:
        """The checkpoint with this number, if it is there, and the newest ones after it.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch("select id, hash from formulary.checkpoints_from($1, $2)", known, at_most)
        return [Seen(row["id"], row["hash"]) for row in rows]

    async def covered_until(self) -> datetime | None:
        """The time of the newest checkpoint, or of the first event without any; None if every event is covered.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> datetime | None:
            await connection.execute("set local formulary.whole_trail = 'on'")
            found: datetime | None = await connection.fetchval(_COVERED_UNTIL)
            return found

        return await self._database.read(read)

    async def published_until(self, published: Sequence[Seen]) -> datetime | None:
        """The time of the newest of these checkpoints, or of the first one without any; None if all are published.

        Raises:
            Unavailable: the database does not answer.
        """
        ids, hashes = [each.id for each in published], [each.hash for each in published]
        (row,) = await self._database.fetch(_PUBLISHED_UNTIL, ids, hashes)
        until: datetime | None = row["until"]
        return until

    async def prepare_months(self) -> None:
        """See to it that there are partitions for the traces of the next year.

        Raises:
            Unavailable: the database does not answer.
        """
        await self._database.execute("select formulary.prepare_trace_months($1)", _MONTHS_AHEAD)


async def _vouch(connection: Connection, key: SigningKey | None, *, at_most: int) -> Checkpoint | None:
    """Write one checkpoint in the transaction of the connection; None where nothing has changed since the last."""
    begun = await connection.fetchrow(
        "select last_id, last_hash, heads::text from formulary.begin_checkpoint($1)", at_most
    )
    assert begun is not None
    lines = [Vouched(trace_id=trace, seq=seq, hash=hash_) for trace, seq, hash_ in json.loads(begun["heads"])]
    if not lines:
        return None
    at = datetime.now(UTC)
    checkpoint = compose(
        kind=CheckpointKind.HEADS, after=begun["last_id"], previous=begun["last_hash"], at=at, lines=lines, key=key
    )
    await end_checkpoint(connection, checkpoint, at=at, heads=begun["heads"])
    return checkpoint


async def end_checkpoint(
    connection: Connection | OwnerConnection, checkpoint: Checkpoint, *, at: datetime, heads: str = "[]"
) -> None:
    """Store a checkpoint; `heads` is a JSON list of the heads that it vouches for from now on."""
    await connection.execute(
        "select formulary.end_checkpoint($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb)",
        checkpoint.id,
        at,
        checkpoint.body,
        checkpoint.previous,
        checkpoint.hash,
        checkpoint.key_id,
        checkpoint.signature,
        heads,
    )


async def require_key(connection: OwnerConnection, key: SigningKey | None) -> None:
    """Refuse to go on without a key behind a checkpoint that is signed: verification would report it for ever.

    Raises:
        StartupError: there is no key, and the newest checkpoint is signed.
    """
    if key is None and await connection.fetchval(
        "select signature <> '' from formulary.trace_checkpoint order by id desc limit 1"
    ):
        raise StartupError(
            "the newest checkpoint of the trail is signed, and one that is not would look like tampering for ever; "
            "name the key in FORMULARY_AUDIT_KEY_FILE"
        )


async def keep_checkpointing(
    store: CheckpointStore,
    *,
    every_seconds: float,
    key: SigningKey | None,
    covered: Callable[[], object] = lambda: None,
) -> None:
    """Write checkpoints until cancelled. An outage is logged, and what was missed follows with the next one.

    Each goes to the log with its hash, so that a log that is kept elsewhere vouches for the checkpoints. `covered` is
    called whenever they cover every event.
    """
    while True:
        try:
            await store.prepare_months()
            for checkpoint in await store.checkpoint(key):
                _log.info(
                    "trace_checkpoint",
                    checkpoint=checkpoint.id,
                    hash=checkpoint.hash,
                    traces=checkpoint.traces,
                    key_id=checkpoint.key_id,
                )
            covered()
        except Unavailable as error:
            _log.warning("trace_checkpoint_failed", reason=str(error))
        await asyncio.sleep(every_seconds)
