"""Halts, begun and lifted: each in one transaction with all that follows from it, its trail included.

As the writer's role a command and contracts halt; as the server's, people who call it. What either may do is decided
in functions of the database: the server lifts only what was said over a server, and nothing of contracts. Whatever
accepts, begins or starts a run takes the shared lock, whatever begins a halt the exclusive one: no run starts after a
halt has been answered. Servers and the operator read halts with `HaltReader`.
"""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg

from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.notifications.notices import notice_of_halt
from formulary_catalog.store.audit.events import TraceEvent, append_event
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.notifications import add_notices

HALT_COLUMNS = "namespace, contract, reason, by, at, trace_id, source"
"""Of a row, as `Halt` has them."""
_ORDER = 7204113606
"""An advisory lock: shared by all that accept, begin or start a run, exclusive for a halt."""
_LOOK_SECONDS = 0.02


async def before_a_halt(connection: Connection) -> None:
    """Have this transaction precede every halt whose effect it does not see. Taken before any lock on a row."""
    await connection.execute("select pg_advisory_xact_lock_shared($1)", _ORDER)


async def after_all_starts(connection: Connection) -> None:
    """Keep runs from being accepted, begun or started until this transaction ends."""
    await connection.execute("select pg_advisory_xact_lock($1)", _ORDER)


async def halts_of(connection: Connection, namespace: str) -> tuple[Halt, ...]:
    """The halts that hold for runs in a namespace, as far as the transaction may see them."""
    rows = await connection.fetch(
        f"select {HALT_COLUMNS} from halt where namespace in ('', $1) order by namespace, contract",
        namespace,
    )
    return tuple(Halt(**row) for row in rows)


class HaltReader:
    """Reads what is halted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def in_force(self, namespaces: Iterable[str] = ()) -> list[Halt]:
        """The halts of everywhere and of these namespaces; a writer gets all.

        Raises:
            Unavailable: the database does not answer.
        """
        named = ",".join(sorted(namespaces))

        async def read(connection: Connection) -> list[Halt]:
            if named:
                await connection.execute("select set_config('formulary.namespaces', $1, true)", named)
            rows = await connection.fetch(f"select {HALT_COLUMNS} from halt order by namespace, contract")
            return [Halt(**row) for row in rows]

        return await self._database.read(read)


class HaltWriter:
    """Halts and lifts, in the name of a person."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def halt(self, *, namespace: str, reason: str, by: str) -> tuple[Halt, int]:
        """Halt a namespace, or everywhere where it is empty. The halt, and how many runs it ends.

        Once this returns no run starts. Starts that are under way are waited for, some seconds at most. Over a server
        one that was said at the database is left as it is.

        Raises:
            Unavailable: the database does not answer; nothing is halted, as far as is known.
        """
        return await self._database.write(lambda connection: begin_halt(connection, namespace, reason=reason, by=by))

    async def resume(self, *, namespace: str, by: str, reason: str = "") -> tuple[Halt | None, list[Halt]]:
        """Lift what `halt` began, for new runs; None where nothing was halted so. And what is halted still.

        Raises:
            Unavailable: the database does not answer.
        """
        lifted = await self._database.write(lambda connection: lift_halt(connection, namespace, reason=reason, by=by))
        return lifted, await HaltReader(self._database).in_force([namespace])


async def begin_halt(
    connection: Connection, namespace: str, *, reason: str, by: str, contract: str = ""
) -> tuple[Halt, int]:
    """Halt in a transaction of the writer or the server; what is halted already gets the new reason."""
    await after_all_starts(connection)
    await _starts_are_over(connection, namespace)
    row = await connection.fetchrow(
        "select * from formulary.begin_halt($1, $2, $3, $4, $5)",
        namespace,
        contract,
        reason,
        by,
        OWN_TRACE + secrets.token_hex(16),
    )
    assert row is not None
    halt = _halt_of(row)
    if not row["begun"]:
        return halt, 0
    rows = await connection.fetch(
        "select formulary.end_halted($1, $2, $3) as id", namespace, contract, f"{halt}; trace {halt.trace_id}"
    )
    ended = sorted(row["id"] for row in rows)
    payload: Mapping[str, Any] = {
        "namespace": halt.namespace,
        "contract": halt.contract,
        "where": halt.where,
        "reason": reason,
        "runs": ended,
    }
    await append_event(connection, TraceEvent(trace_id=halt.trace_id, kind="halt.begun", caller=by, payload=payload))
    await add_notices(connection, [notice_of_halt(halt)])
    return halt, len(ended)


async def lift_halt(connection: Connection, namespace: str, *, reason: str, by: str, contract: str = "") -> Halt | None:
    """Lift a halt in a transaction of the writer or the server; a contract's by its name, wherever it holds."""
    row = await connection.fetchrow(
        "select * from formulary.lift_halt($1, $2, $3, $4)", namespace, contract, reason, by
    )
    return _halt_of(row) if row is not None else None


async def _starts_are_over(connection: Connection, namespace: str) -> None:
    """Wait for those who may be creating something in the cluster now. Nobody new gets leave: the lock is held."""
    while True:
        if not await connection.fetchval("select formulary.starts_under_way($1)", namespace):
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _halt_of(row: asyncpg.Record) -> Halt:
    return Halt(**{name: value for name, value in row.items() if name != "begun"})
