"""The state of a database as `formulary doctor` shows it: versions, protection, contents."""

from dataclasses import dataclass

import asyncpg

from formulary_catalog.store.database import Role
from formulary_catalog.store.migrate import connection_failure, schema_revision

_PROTECTED = ("workflow_version", "workflow_search", "request_context")
_CONNECT_TIMEOUT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found. `revision` is empty where there is no schema, and everything below it says nothing then.

    `exposed` names tables on which row-level security is not forced; `privileges` what the server's role can do that
    would get it round that; `vectors` counts the active workflows that have a vector, by model.
    """

    postgres: str
    pgvector: str
    revision: str
    exposed: tuple[str, ...] = ()
    privileges: tuple[str, ...] = ()
    workflows: int = 0
    contexts: int = 0
    vectors: dict[str, int]


async def health(dsn: str) -> Health:
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
        if not revision:
            return Health(postgres=postgres, pgvector=pgvector, revision="", vectors={})
        return Health(
            postgres=postgres,
            pgvector=pgvector,
            revision=revision,
            exposed=await _exposed(connection),
            privileges=await _privileges(connection),
            workflows=await connection.fetchval(
                "select count(*) from formulary.workflow_version where status = 'Active'"
            ),
            contexts=await connection.fetchval("select count(*) from formulary.request_context"),
            vectors=await _vectors(connection),
        )
    finally:
        await connection.close(timeout=_CONNECT_TIMEOUT)


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


async def _privileges(connection: asyncpg.Connection) -> tuple[str, ...]:
    role = await connection.fetchrow(
        """
        select rolsuper, rolbypassrls, exists (
            select from pg_class where relnamespace = 'formulary'::regnamespace
            and pg_has_role(pg_roles.oid, relowner, 'MEMBER')) as owns
        from pg_roles where rolname = $1
        """,
        str(Role.SERVER),
    )
    if role is None:
        return ("does not exist",)
    found = {"is a superuser": role["rolsuper"], "bypasses it": role["rolbypassrls"], "owns tables": role["owns"]}
    return tuple(privilege for privilege, held in found.items() if held)


async def _vectors(connection: asyncpg.Connection) -> dict[str, int]:
    rows = await connection.fetch(
        """
        select model_id, count(distinct version_id) from formulary.workflow_search
        where emb is not null group by model_id
        """
    )
    return {row[0]: row[1] for row in rows}
