"""Who created which object of the cluster, as the API server reported it to the admission webhook."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.store.database.connection import Connection, Database


class AdmissionRecords:
    """Kept by the uid of the object: nobody knows it before the API server asks, and it is never used again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(
        self,
        *,
        resource: str,
        namespace: str,
        name: str,
        uid: str,
        username: str,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        """Note who creates an object; `identity` is `userInfo` of the API server.

        The first record of a uid stands: a later one would not be about its creation.

        Raises:
            Unavailable: it was not noted.
        """
        await self._database.execute(
            """
            insert into admission_record (uid, resource, namespace, name, username, identity)
            values ($1, $2, $3, $4, $5, $6)
            on conflict (uid) do nothing
            """,
            uid,
            resource,
            namespace,
            name,
            username,
            dict(identity or {}),
        )

    async def username(self, uid: str) -> str:
        """Who created the object with this uid; empty if no webhook saw it.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> str:
            found = await connection.fetchval("select username from admission_record where uid = $1", uid)
            return str(found or "")

        return await self._database.read(read)

    async def identity(self, uid: str) -> Mapping[str, Any]:
        """`userInfo` of who created the object; empty if no webhook saw it, or one of an older release.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> Mapping[str, Any]:
            return await connection.fetchval("select identity from admission_record where uid = $1", uid) or {}

        return await self._database.read(read)

    async def record_author(self, *, namespace: str, version_id: str, identity: Mapping[str, Any]) -> None:
        """Note who wrote a version of a workflow. The last to write it stands: it is there by that write.

        Raises:
            Unavailable: it was not noted.
        """
        await self._database.execute(
            """
            insert into workflow_author (namespace, version_id, identity) values ($1, $2, $3)
            on conflict (namespace, version_id) do update set identity = excluded.identity, at = clock_timestamp()
            """,
            namespace,
            version_id,
            dict(identity),
        )

    async def author(self, *, namespace: str, version_id: str) -> Mapping[str, Any]:
        """`userInfo` of who wrote a version of a workflow last; empty if no webhook saw it.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> Mapping[str, Any]:
            found = await connection.fetchval(
                "select identity from workflow_author where namespace = $1 and version_id = $2", namespace, version_id
            )
            return found or {}

        return await self._database.read(read)
