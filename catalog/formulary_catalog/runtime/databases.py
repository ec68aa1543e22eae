"""The database that a command works on: the one that was named, or the one in a data directory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from formulary_catalog.errors import DirectoryInUse, FormularyError, StartupError, Unavailable
from formulary_catalog.runtime.process import background
from formulary_catalog.settings import Settings
from formulary_catalog.store.analytics.sessions import ROLE, session_problems
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import describe, migrate, require_current_schema
from formulary_catalog.store.embedded.server import EmbeddedPostgres, default_data_dir
from formulary_catalog.store.runs.input_keys import local_key_file

_SUPERVISION_SECONDS = 1.0
_POD_BUFFERS = "128MB"
"""Of a server in a pod, whose memory is limited."""

_log = structlog.get_logger(__name__)


def embedded(settings: Settings) -> EmbeddedPostgres:
    """The PostgreSQL of the data directory, not started."""
    return EmbeddedPostgres(data_dir=settings.data_dir or default_data_dir())


def with_local_parts(settings: Settings) -> Settings:
    """The settings of who serves an embedded database: with its role for analytics, and the key file of its directory.

    Raises:
        StartupError: the file cannot be written.
    """
    if settings.database_url:
        return settings
    path = settings.input_key_file or local_key_file(settings.data_dir or default_data_dir())
    return with_analytics(settings).model_copy(update={"input_key_file": path})


def with_analytics(settings: Settings) -> Settings:
    """The settings with the address for SQL of callers where the database is an embedded one."""
    if settings.database_url:
        return settings
    return settings.model_copy(update={"analytics_database_url": embedded(settings).dsn(user=ROLE)})


def has_analytics(settings: Settings) -> bool:
    """Whether SQL of callers is answered: with an embedded database, and where the settings have an address for it."""
    return bool(settings.analytics_database_url) or not settings.database_url


async def report_sessions(database: Database, *, settings: Settings) -> None:
    """Log what the role for SQL of callers lacks that bounds it.

    Raises:
        Unavailable: the database does not answer.
    """
    if has_analytics(settings):
        for problem in await session_problems(database):
            _log.warning("analytics_not_bounded", reason=problem)


async def start(postgres: EmbeddedPostgres, *, stack: AsyncExitStack) -> None:
    """Start it, and stop it with the stack, even if it is interrupted while it starts.

    Raises:
        StartupError: it cannot start.
    """
    stack.push_async_callback(asyncio.to_thread, postgres.stop)
    await asyncio.to_thread(postgres.start)


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Settings]:
    """The settings of a server with the address of its database, which is run meanwhile if it is an embedded one.

    It is migrated by its owner and then entered as the server's role. Another container of the pod enters it by the
    socket in the data directory.

    Raises:
        StartupError, Unavailable: it cannot start, or cannot be migrated.
    """
    if settings.database_url:
        yield settings
        return
    postgres = EmbeddedPostgres(data_dir=settings.data_dir or default_data_dir(), shared_buffers=_POD_BUFFERS)
    async with AsyncExitStack() as stack:
        await start(postgres, stack=stack)
        await asyncio.to_thread(migrate, postgres.dsn())
        await stack.enter_async_context(background(supervise(postgres)))
        yield settings.model_copy(update={"database_url": postgres.dsn(user=Role.SERVER)})


async def supervise(postgres: EmbeddedPostgres) -> None:
    """Start PostgreSQL again whenever it dies under us."""
    while True:
        await asyncio.sleep(_SUPERVISION_SECONDS)
        try:
            if await asyncio.to_thread(postgres.restart_if_dead):
                _log.warning("postgres_restarted")
        except FormularyError as error:
            _log.error("postgres_does_not_start", reason=str(error))


async def answers(postgres: EmbeddedPostgres) -> bool:
    """Whether another process, such as a `formulary up`, runs it and has set up its schema.

    Raises:
        StartupError: its schema is not ours.
    """
    try:
        await require_current_schema(postgres.dsn())
    except Unavailable:
        return False
    return True


def describe_database(settings: Settings) -> str:
    """The database of the settings as messages may name it."""
    return describe(settings.database_url) if settings.database_url else str(settings.data_dir or default_data_dir())


@asynccontextmanager
async def existing_database(settings: Settings, *, role: str = "") -> AsyncIterator[str]:
    """The DSN of a database that should hold a catalog; an embedded one that nobody runs is run meanwhile.

    An embedded one is entered as `role`, without one as its owner; a named one as the user of its DSN.

    Raises:
        StartupError: there is no such data directory, or it cannot be used.
    """
    if settings.database_url:
        yield settings.database_url
        return
    data_dir = settings.data_dir or default_data_dir()
    if not data_dir.exists():
        raise StartupError(f"there is no catalog in {data_dir}; make one with `formulary up --data-dir {data_dir}`")
    postgres = embedded(settings)
    async with AsyncExitStack() as stack:
        if not await answers(postgres):
            try:
                await start(postgres, stack=stack)
            except DirectoryInUse as error:
                raise StartupError(
                    f"the PostgreSQL in {data_dir} does not answer, and {error.holder} (formulary up) runs it; wait "
                    "until it has started, and if it has hung, restart that `formulary up`"
                ) from error
        yield postgres.dsn(user=role) if role else postgres.dsn()
