"""Reading workflows by name or id, under row-level security.

`kernel.lookup` calls it for whatever names a workflow, and checks again with the pure rules what the call may read.
"""

from collections.abc import Collection
from dataclasses import fields, replace

import asyncpg

from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.workflows.identity import WorkflowReference, precedence
from formulary_catalog.domain.workflows.labels import UNCONSTRAINED, Constraints
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.allowed import AllowedVersions
from formulary_catalog.store.search.page import outcome_column, outcome_of, version_columns

_READABLE = "status <> 'Deleted'"
_NOWHERE: frozenset[str] = frozenset()


def not_suspended(
    arguments: StatementArguments, *, rows: str = "workflow_version", but_in: frozenset[str] | None = _NOWHERE
) -> str:
    """A condition on rows of versions: their workflow is not suspended, in whatever version.

    `but_in` are the namespaces of which suspended ones are read too; None for all.
    """
    if but_in is None:
        return "true"
    served = f"""not exists (
        select from workflow_version as current
        where current.namespace = {rows}.namespace and current.name = {rows}.name and current.status = 'Disabled'
    )"""
    return f"({rows}.namespace = any ({arguments.add(sorted(but_in), 'text[]')}) or {served})" if but_in else served


def manifest_columns(row: str, *, allowed: AllowedVersions) -> str:
    """The columns of a `StoredManifest`, for a row of `workflow_version`; `allowed` as for `version_columns`."""
    return f"{row}.version_id, {row}.changed_at, {row}.document, {version_columns(row, allowed=allowed)}"


def stored_manifest(row: asyncpg.Record) -> StoredManifest:
    """From a row with the columns of `manifest_columns`."""
    columns = {column.name: row[column.name] for column in fields(StoredManifest)}
    return StoredManifest(**{**columns, "outcome": outcome_of(row["outcome"])})


class WorkflowReader:
    """Reads what the caller's namespaces hold; deleted workflows are never returned."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self,
        reference: WorkflowReference,
        *,
        namespaces: frozenset[str] | None,
        constraints: Constraints = UNCONSTRAINED,
        suspended_in: frozenset[str] | None = _NOWHERE,
    ) -> list[tuple[StoredManifest, list[StoredManifest]]]:
        """What a reference may mean, at most one version for each namespace, each with its history, newest first.

        A name alone means the active version; with a version or a pinned id history is readable too. Of a workflow that
        is suspended no version is found, but in the namespaces `suspended_in`, None for all: to say why it is not run.
        `constraints` say which workflows of other namespaces make a name ambiguous; what is found need not hold them.
        """
        arguments = StatementArguments()
        namespace, version = arguments.add(reference.namespace, "text"), arguments.add(reference.version, "text")
        if reference.version_id:
            named = f"version_id = {arguments.add(reference.version_id, 'text')}"
        else:
            named = f"name = {arguments.add(reference.name, 'text')}"
        current = "status = 'Active'" if suspended_in == _NOWHERE else "status in ('Active', 'Disabled')"
        served = "true" if reference.version or reference.version_id else current
        shown = not_suspended(arguments, but_in=suspended_in)
        columns = manifest_columns("workflow_version", allowed=AllowedVersions(constraints, arguments))

        async def read(connection: Connection) -> list[tuple[StoredManifest, list[StoredManifest]]]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select distinct on (namespace) {columns}
                from workflow_version
                where {_READABLE} and {shown}
                  and {named} and {served}
                  and ({namespace} = '' or namespace = {namespace}) and ({version} = '' or version = {version})
                order by namespace, status, changed_at desc
                """,
                *arguments.values,
            )
            found = [stored_manifest(row) for row in rows]
            return [(version, await _history(connection, version)) for version in found]

        return await self._database.read(read)

    async def versions(
        self, version_ids: Collection[str], *, namespaces: frozenset[str] | None, constraints: Constraints
    ) -> list[StoredManifest]:
        """Those of these versions that `find` would find, in no particular order, by one statement.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        named = f"version_id = any ({arguments.add(list(version_ids), 'text[]')})"
        columns = manifest_columns("workflow_version", allowed=AllowedVersions(constraints, arguments))
        statement = f"""
            select {columns} from workflow_version
            where {named} and {_READABLE} and {not_suspended(arguments)}
        """

        async def read(connection: Connection) -> list[StoredManifest]:
            await enter(connection, namespaces=namespaces)
            return [stored_manifest(row) for row in await connection.fetch(statement, *arguments.values)]

        return await self._database.read(read)

    async def readable(self, version_ids: Collection[str], *, namespaces: frozenset[str] | None) -> frozenset[str]:
        """Those of these versions that `find` would find: visible, not deleted, of a workflow that is not suspended.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> frozenset[str]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"select version_id from workflow_version where version_id = any ($1) and {_READABLE} "
                f"and {not_suspended(StatementArguments())}",
                list(version_ids),
            )
            return frozenset(row["version_id"] for row in rows)

        return await self._database.read(read)

    async def allowed_versions(self, *, constraints: Constraints, namespaces: frozenset[str] | None) -> frozenset[str]:
        """The ids of the served versions that are visible and allowed.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        statement = f"select version_id from workflow_version as version where {allowed.condition('version')}"

        async def read(connection: Connection) -> frozenset[str]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(statement, *arguments.values)
            return frozenset(row["version_id"] for row in rows)

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


async def _history(connection: Connection, version: StoredManifest) -> list[StoredManifest]:
    """All versions of its workflow, the highest first."""
    rows = await connection.fetch(
        f"""
        select version_id, version, status, changed_at, document,
               {outcome_column("workflow_version.version_id")} as outcome
        from workflow_version
        where {_READABLE} and namespace = $1 and name = $2 order by status, changed_at desc
        """,
        version.namespace,
        version.name,
    )
    versions = [replace(version, **{**row, "outcome": outcome_of(row["outcome"])}) for row in rows]
    return sorted(versions, key=lambda each: precedence(each.version), reverse=True)
