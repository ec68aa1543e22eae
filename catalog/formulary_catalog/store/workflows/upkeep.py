"""What is read of all served workflows at once, to find stale and duplicate ones: no statement for each workflow.

`services/workflows/upkeep` calls it. Everything is read under row-level security.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.coverage.duplicates import Compared
from formulary_catalog.domain.coverage.stale import UNUSED, Served, Use
from formulary_catalog.domain.workflows.labels import DIMENSIONS, WorkflowLabels
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import enter
from formulary_catalog.store.search.filters import column_of
from formulary_catalog.store.search.page import outcome_column, outcome_of

_SENT_HEADER = 1
"""A vector is sent as its dimensions in 4 bytes, then its float4s, all big-endian."""
_SERVED_WITH_VECTOR = """
    workflow_search where leading_row and emb is not null
    and model_id = coalesce((select model_id from embedding_model where state = 'serving'), model_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogVectors:
    """The unit vectors of all visible workflows that have one, float32 of shape (n, 384), by their version ids."""

    version_ids: tuple[str, ...]
    vectors: npt.NDArray[np.float32] = field(repr=False)


class UpkeepReader:
    """Reads the whole of what is visible. All methods raise `Unavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def served(
        self, uses: Mapping[str, Use], *, unpulled: Mapping[str, datetime], namespaces: frozenset[str] | None
    ) -> list[Served]:
        """The visible workflows that are served, with the use of all their versions.

        `unpulled` is when the newest run of a version ended that could not pull its image.
        """

        async def read(connection: Connection) -> list[Served]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select version_id, namespace, name, version, status, created_at,
                       {outcome_column("version.version_id")} as outcome
                from workflow_version as version where status in ('Active', 'Superseded')
                """
            )
            used: dict[tuple[str, str], Use] = {}
            since: dict[tuple[str, str], datetime] = {}
            for row in rows:
                key = row["namespace"], row["name"]
                used[key] = used.get(key, UNUSED).with_more(uses.get(row["version_id"], UNUSED))
                since[key] = min(since.get(key, row["created_at"]), row["created_at"])
            served = [row for row in rows if row["status"] == "Active"]
            spread = Counter(row["name"] for row in served)
            return [
                Served(
                    version_id=row["version_id"],
                    namespace=row["namespace"],
                    name=row["name"],
                    version=row["version"],
                    status=row["status"],
                    ambiguous=spread[row["name"]] > 1,
                    since=since[row["namespace"], row["name"]],
                    use=used[row["namespace"], row["name"]],
                    outcome=outcome_of(row["outcome"]),
                    unpulled_at=unpulled.get(row["version_id"]),
                )
                for row in served
            ]

        return await self._database.read(read)

    async def fingerprint(self, *, namespaces: frozenset[str] | None) -> tuple[int, str]:
        """How many visible workflows have a vector, and what changes when one of them does, or the model."""

        async def read(connection: Connection) -> tuple[int, str]:
            await enter(connection, namespaces=namespaces)
            (row,) = await connection.fetch(
                f"""
                select count(*) as number,
                       md5(coalesce(string_agg(version_id || model_id, ',' order by version_id), '')) as fingerprint
                from {_SERVED_WITH_VECTOR}
                """
            )
            return row["number"], row["fingerprint"]

        return await self._database.read(read)

    async def vectors(self, *, namespaces: frozenset[str] | None) -> CatalogVectors:
        """All of them in one value: 10,000 rows of vectors would take the event loop a second to decode."""

        async def read(connection: Connection) -> CatalogVectors:
            await enter(connection, namespaces=namespaces)
            (row,) = await connection.fetch(
                f"""
                select array_agg(version_id order by version_id) as version_ids,
                       string_agg(vector_send(emb), ''::bytea order by version_id) as sent
                from {_SERVED_WITH_VECTOR}
                """
            )
            version_ids = tuple(row["version_ids"] or ())
            return CatalogVectors(version_ids=version_ids, vectors=_unit_vectors(row["sent"], number=len(version_ids)))

        return await self._database.read(read)

    async def compared(self, version_ids: Collection[str], *, namespaces: frozenset[str] | None) -> dict[str, Compared]:
        """What is compared of these workflows beside their vectors, by version id, if they are still served."""

        async def read(connection: Connection) -> dict[str, Compared]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select searched.version_id, searched.namespace, searched.name, version.action_key, custom, detected,
                       {", ".join(map(column_of, DIMENSIONS))}
                from workflow_search as searched join workflow_version as version using (version_id)
                where leading_row and searched.version_id = any ($1::text[])
                """,
                sorted(version_ids),
            )
            return {
                row["version_id"]: Compared(
                    version_id=row["version_id"],
                    namespace=row["namespace"],
                    name=row["name"],
                    action=row["action_key"],
                    labels=WorkflowLabels(
                        values={name: frozenset(found) for name in DIMENSIONS if (found := row[column_of(name)])},
                        custom={key: frozenset(values) for key, values in row["custom"].items()},
                        detected=row["detected"],
                    ),
                )
                for row in rows
            }

        return await self._database.read(read)


def _unit_vectors(sent: bytes | None, *, number: int) -> npt.NDArray[np.float32]:
    if not sent:
        return np.empty((0, 0), np.float32)
    rows = np.frombuffer(sent, ">f4").reshape(number, -1)[:, _SENT_HEADER:].astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
