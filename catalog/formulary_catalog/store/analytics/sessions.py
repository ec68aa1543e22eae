"""Sessions for SQL of callers: confined, few at a time, and each keeps its place until its backend has gone.

`store/analytics/connection` runs one statement in each. PostgreSQL ends a statement only where it looks for
interrupts, and some functions do not for minutes: neither a timeout, a cancellation nor a lost client ends these. So
the place of a statement is not free when its caller has an answer, but when the socket of its backend is closed.

PostgreSQL gives every session the same share of the processors; the operating system can give less to these, where
they are on this machine, as with `formulary up`. Elsewhere the limits of the database hold (`docs/analytics.md`).
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg
import psutil

from formulary_catalog.errors import NotSetUp, Overloaded
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.migrate import CONNECT_FAILURES, connection_failure, describe

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

ROLE = "formulary_insight"
SESSIONS = 2
"""Sessions that the role may have, of all servers together; the migration sets it."""
LOG_SETTINGS = (
    "log_min_messages = log",
    "log_min_error_statement = panic",
    "log_statement = none",
    "log_min_duration_statement = -1",
    "log_min_duration_sample = -1",
    "log_transaction_sample_rate = 0",
    "track_activities = off",
)
"""Settings of the role that keep statements of callers out of the log of PostgreSQL; revision 0040 sets them."""
_GRACE = 0.2
"""Seconds beyond those of a statement."""
_PATIENCE = 1.0
"""Seconds that a statement waits for its place."""
_PAUSE = 0.05
"""Seconds between two tries where all sessions of the role are taken."""
# A place is free when the socket is closed, and a host that vanishes closes none. So the system asks whether it is
# there, and gives up after a minute; else the place would be taken until the server is started again.
_KEEPALIVE = (
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
    ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 60_000),  # for what is sent and not acknowledged
)

# A session that logged in as another role could go back to it, and `set_config` does that in the middle of a SELECT.
_CONFINED = f"""
select session_user = '{ROLE}'
   and not exists (
       select from pg_roles where rolname = session_user
         and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication))
   and not exists (select from pg_auth_members where member = session_user::regrole) as confined,
   coalesce(has_schema_privilege(to_regnamespace('insight'), 'usage'), false) as admitted,
   (select rolconnlimit from pg_roles where rolname = session_user)
"""
BOUNDS = f"select rolconnlimit, rolconfig from pg_roles where rolname = '{ROLE}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLimits:
    """What one statement may take, and how many run at a time: a search needs a processor beside them.

    `niceness` holds where the database is on this machine. No limit is on what the planner expects: that follows from
    rows which the caller may not see, and so would a refusal.
    """

    seconds: float = 2.0
    connections: int = 1
    work_mem: str = "16MB"
    niceness: int = 10
    read_only: bool = True

    def session(self) -> dict[str, str]:
        """Settings of the connection."""
        milliseconds = f"{int(self.seconds * 1000)}ms"
        return {
            "search_path": "insight",
            "application_name": ROLE,
            "statement_timeout": milliseconds,
            "lock_timeout": "500ms",
            "idle_in_transaction_session_timeout": milliseconds,
            "client_connection_check_interval": "200ms",  # a statement ends soon after its caller has left
            "work_mem": self.work_mem,
            "hash_mem_multiplier": "1",
            "max_parallel_workers_per_gather": "0",
            "jit": "off",
            "standard_conforming_strings": "on",
            "default_transaction_read_only": "on" if self.read_only else "off",
        }


LIMITS = StatementLimits()


async def require_confined(connection: Connection, *, dsn: str) -> None:
    """Raises NotSetUp if the session is not that of the role, could be more than that, or one of too many."""
    found = await connection.fetchrow(_CONFINED)
    assert found is not None
    if not found["confined"]:
        raise NotSetUp(
            f"the user of FORMULARY_ANALYTICS_DATABASE_URL for {describe(dsn)} can do more than read `insight`; "
            f"log in as {ROLE}, which must be a member of no role"
        )
    if not found["admitted"]:
        raise NotSetUp(
            f"{ROLE} may not read `insight` in {describe(dsn)}; run `select insight.admit()` as the database's owner"
        )
    if problem := _limit_problem(found):
        raise NotSetUp(f"analytics is not set up: {problem}")


class Sessions:
    """Opens sessions of the role, so many at a time as the limits say."""

    def __init__(self, dsn: str, *, limits: StatementLimits, require: Callable[..., Awaitable[None]]) -> None:
        self._dsn = dsn
        self._limits = limits
        self._require = require
        self._places = asyncio.Semaphore(limits.connections)
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Connection]:
        """A transaction on a new connection, which ends with it, for as long as one statement may take.

        Raises:
            Overloaded: others are being answered, or their statements do not end.
            NotSetUp, Unavailable: no such session can be opened.
            TimeoutError: it took too long. What it does may go on, and it keeps its place until that has ended.
        """
        if not self._dsn:
            raise NotSetUp(
                "analytics is not set up: name the database once more in FORMULARY_ANALYTICS_DATABASE_URL, with the "
                f"user {ROLE}"
            )
        await self._take_place()
        connection = None
        try:
            async with asyncio.timeout(self._limits.seconds + _GRACE):
                connection = await self._connect()
                await self._prepare(connection)
                yield connection
        finally:
            ending = asyncio.create_task(self._leave_place(connection))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _take_place(self) -> None:
        """A short statement before is waited for, a long one is not."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            raise self._overloaded() from None

    async def _leave_place(self, connection: Connection | None) -> None:
        """PostgreSQL closes the socket of a backend when its process ends, and not before."""
        try:
            if connection is not None:
                with suppress(*CONNECT_FAILURES):  # it is gone without a goodbye
                    await connection.close()
        finally:
            self._places.release()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            try:
                connection = await asyncpg.connect(
                    self._dsn, statement_cache_size=0, server_settings=self._limits.session()
                )
                _keep_alive(connection)
                return connection
            except asyncpg.TooManyConnectionsError:  # those of other servers, and what these could not end
                if loop.time() > deadline:
                    raise self._overloaded() from None
                await asyncio.sleep(_PAUSE)
            except CONNECT_FAILURES as error:
                raise connection_failure(error, dsn=self._dsn) from error

    async def _prepare(self, connection: Connection) -> None:
        # To look types up, the driver would turn JIT off, which is off, by a function that the role may not call.
        capabilities = connection._server_caps._replace(jit=False)  # type: ignore[attr-defined]  # no public way
        connection._server_caps = capabilities  # type: ignore[attr-defined]
        await self._require(connection, dsn=self._dsn)
        yield_processors(connection.get_server_pid(), role=ROLE, niceness=self._limits.niceness)
        await connection.execute(
            f"begin isolation level repeatable read {'read only' if self._limits.read_only else 'read write'}"
        )

    def _overloaded(self) -> Overloaded:
        problem = (
            "a statement of an earlier caller is still being ended" if self._ending else "other statements are running"
        )
        return Overloaded(f"{problem}; retry in a few seconds", retry_after=self._limits.seconds)


def _keep_alive(connection: Connection) -> None:
    """Have the system close the socket of a host that has vanished."""
    used = connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]  # no public way
    if used is None or used.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, option, value in _KEEPALIVE:
        if hasattr(socket, option):  # not every system has each
            used.setsockopt(getattr(socket, level), getattr(socket, option), value)


async def session_problems(database: Database) -> list[str]:
    """What the role lacks that bounds its sessions, each with the way out; a server reports it when it starts.

    Raises:
        Unavailable: the database does not answer.
    """
    return [problem for row in await database.fetch(BOUNDS) for problem in problems_of(row)]


def problems_of(row: "asyncpg.Record") -> list[str]:
    """The problems that a row of `BOUNDS` shows."""
    return [problem for problem in (_limit_problem(row), _log_problem(row)) if problem]


def _limit_problem(row: "asyncpg.Record") -> str | None:
    """With 0 sessions nobody has an answer, and -1 is no limit."""
    limit = row["rolconnlimit"]
    if 1 <= limit <= SESSIONS:
        return None
    return (
        f"{ROLE} has a connection limit of {limit}, and not 1 to {SESSIONS}; run "
        f"`alter role {ROLE} connection limit {SESSIONS}` as an administrator"
    )


def _log_problem(row: "asyncpg.Record") -> str | None:
    held = row["rolconfig"] or []
    missing = [setting for setting in LOG_SETTINGS if setting.replace(" ", "") not in held]
    if not missing:
        return None
    changes = "; ".join(f"alter role {ROLE} set {setting}" for setting in missing)
    return f"PostgreSQL may log the statements of callers; run `{changes}` as an administrator"


def yield_processors(pid: int, *, role: str, niceness: int) -> bool:
    """Give the session of `role` in process `pid` this niceness; with 10 a tenth of what others get, where all work.

    Says whether it did: not where no process here has that id and that role, and where the system does not let us.
    """
    try:
        process = psutil.Process(pid)
        if role not in " ".join(process.cmdline()):  # the number of a process on another machine
            return False
        process.nice(niceness)
    except (psutil.Error, OSError):
        return False
    return True
