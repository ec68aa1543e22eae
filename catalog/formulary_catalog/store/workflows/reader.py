"""Reading workflows by name or id, and listing them, under row-level security."""

from dataclasses import fields

import asyncpg

from formulary_catalog.domain.stored import HistoryLine, StoredVersion
from formulary_catalog.domain.workflows.identity import WorkflowReference, precedence
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import Arguments, enter
from formulary_catalog.store.search.filters import label_conditions
from formulary_catalog.store.search.page import outcome_of, page_columns

_COLUMNS = f"version_id, namespace, name, version, status, document, {page_columns('workflow_version')}"
_READABLE = "status <> 'Deleted'"
_SUSPENDED = """exists (
    select from workflow_version as current
    where current.namespace = workflow_version.namespace and current.name = workflow_version.name
      and current.status = 'Disabled'
)"""
"""A condition on rows of versions: their workflow is suspended, in whatever version."""


class WorkflowReader:
    """Reads what the caller's namespaces hold; deleted workflows are never returned."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, reference: WorkflowReference, *, namespaces: frozenset[str] | None, suspended: bool = False
    ) -> list[tuple[StoredVersion, list[HistoryLine]]]:
        """What a reference may mean, at most one version for each namespace, each with its history, newest first.

        A name alone means the active version; with a version or a pinned id history is readable too. Of a workflow that
        is suspended no version is found, unless `suspended` asks for those as well: to say why it is not run.
        """

        async def read(connection: Connection) -> list[tuple[StoredVersion, list[HistoryLine]]]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select distinct on (namespace) {_COLUMNS}, {_SUSPENDED} as suspended from workflow_version
                where {_READABLE} and ($5 or not {_SUSPENDED})
                  and case when $4 <> '' then version_id = $4 else name = $1 end
                  and ($2 = '' or namespace = $2) and ($3 = '' or version = $3)
                  and (status = 'Active' or $3 <> '' or $4 <> '')
                order by namespace, status, changed_at desc
                """,
                reference.name,
                reference.namespace,
                reference.version,
                reference.version_id,
                suspended,
            )
            found = [_stored(row) for row in rows]
            return [(version, await _history(connection, version)) for version in found]

        return await self._database.read(read)

    async def served(
        self, *, constraints: Constraints, namespaces: frozenset[str] | None, limit: int, offset: int = 0
    ) -> tuple[list[StoredVersion], int]:
        """A page of the active workflows that are visible and allowed, by name and namespace; and how many there are.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = Arguments()
        where = " and ".join(label_conditions(constraints, arguments).allowed)
        page = f"limit {arguments.add(limit, 'integer')} offset {arguments.add(offset, 'integer')}"

        async def read(connection: Connection) -> tuple[list[StoredVersion], int]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                with allowed as materialized (
                    select version_id, namespace, name from workflow_search where {where}
                ), page as (
                    select version_id from allowed order by name, namespace {page}
                )
                select (select count(*) from allowed) as total, false as suspended, {_COLUMNS}
                from (select) as always left join page on true left join workflow_version using (version_id)
                order by name, namespace
                """,
                *arguments.values,
            )
            total = rows[0]["total"]
            return [_stored(row) for row in rows if row["version_id"] is not None], total

        return await self._database.read(read)

    async def counts(self) -> dict[str, int]:
        """How many workflow versions there are by status, over all namespaces; empty for an empty catalog."""

        async def read(connection: Connection) -> dict[str, int]:
            await enter(connection, namespaces=None)
            rows = await connection.fetch("select status, count(*) from workflow_version group by status")
            return {row[0]: row[1] for row in rows}

        return await self._database.read(read)

    async def uses_clusters(self) -> bool:
        """Whether an active workflow of any namespace declares `labels.cluster`."""

        async def read(connection: Connection) -> bool:
            await enter(connection, namespaces=None)
            return bool(
                await connection.fetchval(
                    "select exists (select from workflow_search where leading_row and cardinality(cluster) > 0)"
                )
            )

        return await self._database.read(read)


def _stored(row: asyncpg.Record) -> StoredVersion:
    stored = {column.name: row[column.name] for column in fields(StoredVersion)}
    return StoredVersion(**{**stored, "outcome": outcome_of(row["outcome"])})


async def _history(connection: Connection, version: StoredVersion) -> list[HistoryLine]:
    rows = await connection.fetch(
        f"""
        select version, version_id, status, document from workflow_version
        where {_READABLE} and namespace = $1 and name = $2 order by status, changed_at desc
        """,
        version.namespace,
        version.name,
    )
    lines = [HistoryLine(**row) for row in rows]
    return sorted(lines, key=lambda line: precedence(line.version), reverse=True)
