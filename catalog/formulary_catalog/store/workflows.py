"""Reading workflows by name or id, and listing them, under row-level security."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain.identity import WorkflowReference
from formulary_catalog.store.database import Connection, Database
from formulary_catalog.store.search import enter

_COLUMNS = "version_id, namespace, name, version, status, document"
_READABLE = "status <> 'Deleted'"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """One version of a workflow; `status` is Active, Disabled or Superseded."""

    version_id: str
    namespace: str
    name: str
    version: str
    status: str
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One version in a workflow's history."""

    version: str
    version_id: str
    status: str


class WorkflowReader:
    """Reads what the caller's namespaces hold; deleted workflows are never returned."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, reference: WorkflowReference, *, namespaces: frozenset[str] | None
    ) -> list[tuple[StoredVersion, list[HistoryLine]]]:
        """What a reference may mean, at most one version for each namespace, each with its history, newest first.

        A name alone means the active version; with a version or a pinned id history is readable too.
        """

        async def read(connection: Connection) -> list[tuple[StoredVersion, list[HistoryLine]]]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select distinct on (namespace) {_COLUMNS} from workflow_version
                where {_READABLE}
                  and case when $4 <> '' then version_id = $4 else name = $1 end
                  and ($2 = '' or namespace = $2) and ($3 = '' or version = $3)
                  and (status = 'Active' or $3 <> '' or $4 <> '')
                order by namespace, status, changed_at desc
                """,
                reference.name,
                reference.namespace,
                reference.version,
                reference.version_id,
            )
            found = [StoredVersion(**row) for row in rows]
            return [(version, await _history(connection, version)) for version in found]

        return await self._database.read(read)

    async def served(self, *, namespaces: frozenset[str] | None) -> list[StoredVersion]:
        """All active workflows that the caller may see, in the order of name and namespace."""

        async def read(connection: Connection) -> list[StoredVersion]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"select {_COLUMNS} from workflow_version where status = 'Active' order by name, namespace"
            )
            return [StoredVersion(**row) for row in rows]

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


async def _history(connection: Connection, version: StoredVersion) -> list[HistoryLine]:
    rows = await connection.fetch(
        f"""
        select version, version_id, status from workflow_version
        where {_READABLE} and namespace = $1 and name = $2 order by created_at desc, version desc
        """,
        version.namespace,
        version.name,
    )
    return [HistoryLine(**row) for row in rows]
