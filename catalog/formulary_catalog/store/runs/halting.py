"""Halts, begun and lifted: each in one transaction with all that follows from it, its trail included."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.store.audit.events import TraceEvent, append_event
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.halts import HaltReader, after_all_starts
from formulary_catalog.store.runs.submission import ACTIVE

_LOOK_SECONDS = 0.02


class HaltWriter:
    """Halts and lifts, in the name of a person at a terminal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def halt(self, *, namespace: str, reason: str, by: str) -> tuple[Halt, int]:
        """Halt a namespace, or everything where it is empty. The halt, and how many runs it ends.

        Once this returns no run starts. Starts that are under way are waited for, some seconds at most.

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
        return lifted, await HaltReader(self._database).in_force()


async def begin_halt(
    connection: Connection, namespace: str, *, reason: str, by: str, contract: str = ""
) -> tuple[Halt, int]:
    """Halt in a transaction of the writer; what is halted already gets the new reason."""
    await after_all_starts(connection)
    await _starts_are_over(connection, namespace)
    row = await connection.fetchrow(
        """
        insert into halt (namespace, contract, reason, by, trace_id) values ($1, $2, $3, $4, $5)
        on conflict (namespace, contract) do update set reason = excluded.reason, by = excluded.by
        returning namespace, contract, reason, by, at, trace_id
        """,
        namespace,
        contract,
        reason,
        by,
        OWN_TRACE + secrets.token_hex(16),
    )
    assert row is not None
    halt = Halt(**row)
    ended = await connection.fetch(
        f"update invocation set halted = $2 where {ACTIVE} and halted = '' and ($1 = '' or namespace = $1) "
        "returning id",
        namespace,
        f"{halt}; trace {halt.trace_id}",
    )
    await _record(connection, halt, kind="halt.begun", reason=reason, by=by, runs=sorted(run["id"] for run in ended))
    return halt, len(ended)


async def lift_halt(connection: Connection, namespace: str, *, reason: str, by: str, contract: str = "") -> Halt | None:
    """Lift a halt in a transaction of the writer; a contract's by its name, wherever it holds."""
    row = await connection.fetchrow(
        "delete from halt where contract = $2 and ($2 <> '' or namespace = $1) "
        "returning namespace, contract, reason, by, at, trace_id",
        namespace,
        contract,
    )
    if row is None:
        return None
    halt = Halt(**row)
    await _record(connection, halt, kind="halt.lifted", reason=reason, by=by)
    return halt


async def _starts_are_over(connection: Connection, namespace: str) -> None:
    """Wait for those who may be creating something in the cluster now. Nobody new gets leave: the lock is held."""
    under_way = """
        select count(*) from run_start where ($1 = '' or namespace = $1) and until > clock_timestamp()
    """
    while True:
        if not await connection.fetchval(under_way, namespace):
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _record(connection: Connection, halt: Halt, *, kind: str, reason: str, by: str, **more: Any) -> None:
    payload: Mapping[str, Any] = {
        "namespace": halt.namespace,
        "contract": halt.contract,
        "where": halt.where,
        "reason": reason,
        **more,
    }
    await append_event(connection, TraceEvent(trace_id=halt.trace_id, kind=kind, caller=by, payload=payload))
