"""Migrations: alembic's revisions, run once under a lock (DESIGN section 10)."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import asyncpg

from formulary_catalog.errors import FormularyError, NotMigrated, StartupError, Unavailable

if TYPE_CHECKING:
    from alembic.script import Script

HEAD = "0044"
"""The newest revision; a test holds it equal to alembic's, so that starting need not import alembic.

Revisions that begin with the same digit only add to what was there: programs of an older release work with them, so
that a release can be rolled back without its schema. Where that cannot be, the first digit is raised.
"""

_JOINED = ("0010", "0040")
"""Revisions from the first to before the second were joined before any release had them."""
_LAST_WITH_JOINED = "5fa61ffd"
"""The last commit that can bring a database at one of them to the newest of them."""

MIN_POSTGRES = 16
_MIGRATIONS = Path(__file__).parents[1] / "migrations"
_LOCK = 7_204_113_601  # any number that is ours
_CONNECT_TIMEOUT = 10
_LOCK_ATTEMPTS = 20
_LOCK_PAUSE = 2.0
_HELD_UP = (asyncpg.LockNotAvailableError.sqlstate, asyncpg.DeadlockDetectedError.sqlstate)
CONNECT_FAILURES = (
    OSError,
    ValueError,
    OverflowError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_FIND_REVISIONS = "select to_regclass('formulary.alembic_version')"
_NEWEST_REVISION = "select max(version_num) from formulary.alembic_version"
_OTHER_TABLES = """
select n.nspname || '.' || c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'formulary')
  and n.nspname not like 'pg\\_%'
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by 1 limit 3
"""


def migrate(dsn: str) -> None:
    """Bring the database to the newest revision; a no-op when it is there. Blocking: asyncio callers use a thread.

    Raises:
        StartupError: the database is not usable for us; the message says the way out.
        Unavailable: it does not answer.
    """
    asyncio.run(_migrate(dsn))


async def schema_revision(dsn: str) -> str:
    """The revision of the schema; empty when there is none.

    Raises:
        StartupError, Unavailable: as `migrate`.
    """
    async with _connected(dsn) as connection:
        return await _revision(connection)


def works_with(revision: str) -> bool:
    """Whether this version works with a schema of that revision as it is."""
    return revision >= HEAD and revision[:1] == HEAD[:1]


async def require_current_schema(dsn: str) -> None:
    """Check that the schema is one that this version works with.

    Raises:
        NotMigrated: it is older or missing.
        StartupError: it is newer, or the database cannot be used.
        Unavailable: the database does not answer.
    """
    revision = await schema_revision(dsn)
    if works_with(revision):
        return
    _require_known(revision, dsn=dsn)
    found = f"at revision {revision}" if revision else "empty"
    raise NotMigrated(f"the schema of {describe(dsn)} is {found}, this version needs {HEAD}; run `formulary migrate`")


def describe(dsn: str) -> str:
    """The database as messages may name it: no user, no password, not even unescaped ones."""
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return "the database"
    if not parts.scheme or "@" in parts.path:
        return "the database"
    place = f" on {parts.hostname}" if parts.hostname else ""
    return f"database {parts.path.lstrip('/') or 'postgres'!r}{place}"


def migration_scripts() -> "list[Script]":
    """The revisions, the oldest first."""
    from alembic.config import Config  # slow to import, and only needed when there is something to do
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return list(ScriptDirectory.from_config(config).walk_revisions())[::-1]


async def _migrate(dsn: str) -> None:
    async with _connected(dsn) as connection:
        await _revision(connection)  # who may not look learns it here
        try:
            await connection.execute("select pg_advisory_lock($1)", _LOCK)
        except asyncpg.InsufficientPrivilegeError as error:
            raise _unprivileged(dsn, reason=str(error)) from error
        revision = await _revision(connection)
        if works_with(revision):
            return
        _require_known(revision, dsn=dsn)
        if not revision:
            await _require_ours(connection, dsn=dsn)
        try:
            await connection.execute("create schema if not exists formulary")
            await connection.execute("create extension if not exists vector")
            await _upgrade_concurrently(dsn)
            # A rewritten table has no visibility map: until a vacuum, every search would look into its rows.
            await connection.execute("vacuum (analyze) formulary.workflow_search")
        except asyncpg.InsufficientPrivilegeError as error:
            raise _unprivileged(dsn, reason=str(error)) from error


async def _upgrade_concurrently(dsn: str) -> None:
    """Upgrade without holding up the searches of running servers.

    A change of a table waits for its readers, such as a backup, and all later statements wait behind it. So
    it waits shortly, and often.
    """
    for _ in range(_LOCK_ATTEMPTS):
        try:
            return await _upgrade(dsn)
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(_LOCK_PAUSE)
    raise Unavailable(
        f"a table of {describe(dsn)} has been in use for a minute, by a backup perhaps; run `formulary migrate` again "
        "when that is over"
    )


async def _upgrade(dsn: str, *, to: str = "head") -> None:
    from alembic import command  # slow to import, and only needed when there is something to do
    from alembic.config import Config
    from sqlalchemy import Connection
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))

    def upgrade(connection: Connection) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, to)

    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT, server_settings={"lock_timeout": "1s"})

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        # A transaction for each revision: locks of one are gone before the next asks for others.
        async with engine.connect() as connection:
            await connection.run_sync(upgrade)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == asyncpg.InsufficientPrivilegeError.sqlstate:
            raise _unprivileged(dsn, reason=str(error.orig)) from error
        if getattr(error.orig, "sqlstate", None) in _HELD_UP:
            raise asyncpg.LockNotAvailableError(str(error.orig)) from error
        raise
    finally:
        await engine.dispose()


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT)
    except CONNECT_FAILURES as error:
        raise connection_failure(error, dsn=dsn) from error
    try:
        version = connection.get_server_version().major
        if version < MIN_POSTGRES:
            raise StartupError(f"{describe(dsn)} runs PostgreSQL {version}; Formulary needs {MIN_POSTGRES} or newer")
        yield connection
    finally:
        with suppress(TimeoutError):  # closed all the same
            await connection.close(timeout=_CONNECT_TIMEOUT)


def connection_failure(error: Exception, *, dsn: str) -> FormularyError:
    """Why no connection could be made, with the way out."""
    where = describe(dsn)
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return StartupError(
            f"{where} refuses the user or password; correct them in --database-url, or await its migration"
        )
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return StartupError(f"{where} does not exist; create it (createdb) or correct --database-url")
    if isinstance(error, asyncpg.InsufficientPrivilegeError | asyncpg.InvalidParameterValueError):
        return _unprivileged(dsn, reason=str(error))
    if (problem := _certificate_problem(error, dsn=dsn)) is not None:
        return StartupError(problem)
    if isinstance(error, asyncpg.ClientConfigurationError | ValueError | OverflowError):
        return StartupError("--database-url is not a PostgreSQL address; give postgresql://user:password@host/database")
    return Unavailable(f"{where} does not answer; check that it runs and that --database-url names it")


def _certificate_problem(error: Exception, *, dsn: str) -> str | None:
    """What is wrong with the server's certificate or with the root certificate that shall vouch for it, if that is it.

    A root certificate that cannot be read is the same error as a socket that is not there, so the file is looked at.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {describe(dsn)} is not accepted ({error.verify_message}); name the root certificate "
            "that signed it with sslrootcert=FILE in --database-url, and the host as the certificate does"
        )
    root = _root_certificate(dsn)
    if not root:
        if isinstance(error, asyncpg.ClientConfigurationError) and str(error).startswith("root certificate file"):
            return (
                "sslmode in --database-url asks for a root certificate, and there is none; name it with "
                "sslrootcert=FILE in --database-url"
            )
        return None
    unreadable = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError)
    if unreadable and not (Path(root).is_file() and os.access(root, os.R_OK)):
        return f"the root certificate {root!r} cannot be read; correct sslrootcert in --database-url"
    if isinstance(error, ssl.SSLError) and error.library in ("X509", "PEM"):
        return f"the root certificate {root!r} is not one; give a PEM file as sslrootcert in --database-url"
    return None


def _root_certificate(dsn: str) -> str:
    """The file that the address or the environment names as the root certificate; empty if neither does."""
    try:
        named = parse_qs(urlsplit(dsn).query).get("sslrootcert", [])
    except ValueError:
        return ""
    return named[-1] if named else os.environ.get("PGSSLROOTCERT", "")


async def _revision(connection: asyncpg.Connection) -> str:
    try:
        if await connection.fetchval(_FIND_REVISIONS, timeout=_CONNECT_TIMEOUT) is None:
            return ""
        return str(await connection.fetchval(_NEWEST_REVISION, timeout=_CONNECT_TIMEOUT) or "")
    except asyncpg.InsufficientPrivilegeError as error:
        # The first migration makes the schema before it opens it to the roles of server and operator.
        raise NotMigrated(
            "the database user may not read the schema `formulary`; connect as its owner (a server: as "
            "formulary_server), or let `formulary migrate` end"
        ) from error
    except CONNECT_FAILURES as error:
        raise Unavailable("the database went away while its schema was looked at; try again") from error


async def _require_ours(connection: asyncpg.Connection, *, dsn: str) -> None:
    others = [row[0] for row in await connection.fetch(_OTHER_TABLES)]
    if others:
        raise StartupError(
            f"{describe(dsn)} belongs to something else (tables {', '.join(others)}); give Formulary a database of "
            "its own, for example `createdb formulary`"
        )
    if await connection.fetchval("select to_regnamespace('formulary')") is not None and await connection.fetchval(
        "select exists (select from pg_class where relnamespace = 'formulary'::regnamespace and relkind in ('r','p'))"
    ):
        raise StartupError(f"the schema `formulary` of {describe(dsn)} was not made by Formulary; use another database")
    if not await connection.fetchval("select exists (select from pg_available_extensions where name = 'vector')"):
        raise StartupError(
            f"{describe(dsn)} has no pgvector; install pgvector 0.8 or newer on that server (package "
            "postgresql-NN-pgvector), or leave --database-url out to use the embedded PostgreSQL"
        )


def _require_known(revision: str, *, dsn: str) -> None:
    if revision > HEAD:
        raise StartupError(
            f"the database was migrated by a newer Formulary (revision {revision}, this one knows {HEAD}); upgrade "
            "this one"
        )
    first, newest = _JOINED
    if first <= revision < newest:
        raise StartupError(
            f"the schema of {describe(dsn)} is at revision {revision}, which no release has; give Formulary a new "
            "database (`formulary up`: a new --data-dir) and load the manifests again, or, to keep this one, run "
            f"`formulary migrate` of commit {_LAST_WITH_JOINED} first"
        )


def _unprivileged(dsn: str, *, reason: str) -> StartupError:
    return StartupError(
        f"the user of {describe(dsn)} lacks a privilege ({reason}); connect as the database's owner with CREATEROLE, "
        "or have an administrator run `create extension vector; create role formulary_server login; create role "
        "formulary_writer login` and grant both roles to it"
    )
