"""The state of a database as `formulary doctor` shows it: versions, protection, contents."""

from dataclasses import dataclass

import asyncpg

from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.store.analytics.sessions import BOUNDS, problems_of
from formulary_catalog.store.database.connection import DATABASE_ID, Role
from formulary_catalog.store.database.migrate import connection_failure, schema_revision, works_with
from formulary_catalog.store.database.owner import held_privileges
from formulary_catalog.store.runs.halting import HALT_COLUMNS

_PROTECTED = (
    "tenant",
    "workflow_version",
    "workflow_search",
    "workflow_relation",
    "request_context",
    "refused_workflow",
    "trace_event",
    "trace_head",
)
_CONNECT_TIMEOUT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSweep:
    """Of `served` workflows an operator found so many `missing` from the cluster that it does not believe it."""

    id: str
    missing: int
    served: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseHealth:
    """What was found. `id` is that of `Database.id`, empty if it may not be read. `revision` is empty where there is no
    schema, and everything below it says nothing then.

    `exposed` names tables on which row-level security is not forced; `privileges` what the server's role can do to
    undo that; `analytics` what the role for SQL of callers lacks; `vectors` counts the active workflows that have a
    vector, by model. `serving` is the model whose vectors searches compare, empty where there are none yet.
    """

    id: str
    postgres: str
    pgvector: str
    revision: str
    exposed: tuple[str, ...] = ()
    privileges: tuple[str, ...] = ()
    analytics: tuple[str, ...] = ()
    workflows: int = 0
    contexts: int = 0
    vectors: dict[str, int]
    serving: str = ""
    refused_sweeps: tuple[RefusedSweep, ...] = ()
    halts: tuple[Halt, ...] = ()


async def health(dsn: str) -> DatabaseHealth:
    """Examine a database, connected as its owner.

    Raises:
        StartupError, Unavailable: no connection could be made, or its schema may not be read.
    """
    revision = await schema_revision(dsn)
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise connection_failure(error, dsn=dsn) from error
    try:
        postgres = await connection.fetchval("show server_version")
        pgvector = await connection.fetchval("select extversion from pg_extension where extname = 'vector'") or ""
        id_ = await _id(connection)
        if not revision:
            return DatabaseHealth(id=id_, postgres=postgres, pgvector=pgvector, revision="", vectors={})
        return DatabaseHealth(
            id=id_,
            postgres=postgres,
            pgvector=pgvector,
            revision=revision,
            exposed=await _exposed(connection) if works_with(revision) else (),
            privileges=await held_privileges(connection, Role.SERVER.value),
            analytics=tuple(problem for row in await connection.fetch(BOUNDS) for problem in problems_of(row)),
            workflows=await connection.fetchval(
                "select count(*) from formulary.workflow_version where status = 'Active'"
            ),
            contexts=await connection.fetchval("select count(*) from formulary.request_context"),
            vectors=await _vectors(connection),
            serving=await _serving(connection) if works_with(revision) else "",
            refused_sweeps=await _sweeps(connection) if works_with(revision) else (),
            halts=await _halts(connection) if works_with(revision) else (),
        )
    finally:
        await connection.close(timeout=_CONNECT_TIMEOUT)


async def _id(connection: asyncpg.Connection) -> str:
    try:
        return str(await connection.fetchval(DATABASE_ID))
    except asyncpg.InsufficientPrivilegeError:  # a service that runs PostgreSQL for others may keep it back
        return ""


async def _exposed(connection: asyncpg.Connection) -> tuple[str, ...]:
    rows = await connection.fetch(
        """
        select relname from pg_class
        where relnamespace = 'formulary'::regnamespace and relname = any ($1)
          and not (relrowsecurity and relforcerowsecurity)
        order by relname
        """,
        list(_PROTECTED),
    )
    return tuple(row[0] for row in rows)


async def _vectors(connection: asyncpg.Connection) -> dict[str, int]:
    rows = await connection.fetch(
        """
        select model_id, count(distinct version_id) from formulary.workflow_search
        where emb is not null group by model_id
        """
    )
    return {row[0]: row[1] for row in rows}


async def _halts(connection: asyncpg.Connection) -> tuple[Halt, ...]:
    rows = await connection.fetch(f"select {HALT_COLUMNS} from formulary.halt order by namespace, contract")
    return tuple(Halt(**row) for row in rows)


async def _serving(connection: asyncpg.Connection) -> str:
    return str(
        await connection.fetchval("select model_id from formulary.embedding_model where state = 'serving'") or ""
    )


async def _sweeps(connection: asyncpg.Connection) -> tuple[RefusedSweep, ...]:
    rows = await connection.fetch(
        """
        select id, jsonb_array_length(missing) as missing, served from formulary.sweep_refusal
        where allowed_at is null order by operator
        """
    )
    return tuple(RefusedSweep(**row) for row in rows)
