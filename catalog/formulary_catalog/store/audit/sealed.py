"""Sealed copies of constraints: the key of their digests, and the copies of one trace for who may read them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from formulary_catalog.domain.audit.sealing import KeyedDigest, unseal
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.store.audit.one_trace import name_trace
from formulary_catalog.store.database.connection import Connection, Database

KEY = "select key from formulary.digest_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCopy:
    """What the incident of a trace demanded. Events that were under it hold the `digest` as `sealed`.

    `incident` is None where the content does not match the digest: somebody changed it.
    """

    digest: str
    at: datetime
    incident: RequestContext | None = field(repr=False)


class SealedReader:
    """Reads sealed copies. Row-level security hides all but those of the trace and the namespaces that are named."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def namespaces(self, trace_id: str) -> list[str]:
        """The namespaces of the incidents of which a trace has sealed copies; none where it has no copies.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[str]:
            await name_trace(connection, trace_id)
            rows = await connection.fetch("select formulary.sealed_namespaces($1) as namespace", trace_id)
            return [row["namespace"] for row in rows]

        return await self._database.read(read)

    async def copies(self, trace_id: str, *, namespaces: Collection[str]) -> list[SealedCopy]:
        """The copies of a trace that are of incidents of these namespaces, oldest first.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[SealedCopy]:
            await name_trace(connection, trace_id)
            await connection.execute(
                "select set_config('formulary.incident_namespaces', $1::text[]::text, true)", sorted(namespaces)
            )
            digest = KeyedDigest(await connection.fetchval(KEY))
            rows = await connection.fetch(
                "select digest, content, at from sealed_constraints where trace_id = $1 order by at, digest", trace_id
            )
            return [
                SealedCopy(
                    digest=row["digest"],
                    at=row["at"],
                    incident=unseal(row["content"]) if digest.of(row["content"]) == row["digest"] else None,
                )
                for row in rows
            ]

        return await self._database.read(read)
