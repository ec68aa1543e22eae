"""Runs that ended long ago and records of who created what: deleted when their time is over (DESIGN section 13).

The operator calls it after each comparison with the cluster. What a run came to stays in the outcome of its workflow,
and what happened in the audit trail, which has a retention of its own.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.submission import ACTIVE

_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOfRun:
    """A WorkflowInvocation that exists."""

    namespace: str
    name: str
    uid: str


class ExpiryWriter:
    """Deletes as the writer's role. `namespaces` are those that are watched, empty for all: of others nobody here knows
    which objects exist.

    All methods raise `Unavailable` if the database does not answer.
    """

    def __init__(self, database: Database, *, namespaces: Collection[str] = ()) -> None:
        self._database = database
        self._namespaces = sorted(namespaces) or None

    async def ended(self, objects: Sequence[ObjectOfRun], *, before_seconds: float) -> list[ObjectOfRun]:
        """Those whose run ended at least that long ago. Objects without a run are not among them."""

        async def read(connection: Connection) -> set[str]:
            rows = await connection.fetch(
                f"""
                select object_uid from invocation
                join unnest($1::text[], $2::text[], $3::text[]) as object (namespace, object_name, object_uid)
                    using (namespace, object_name, object_uid)
                where not ({ACTIVE}) and finished_at < clock_timestamp() - make_interval(secs => $4)
                """,
                [each.namespace for each in objects],
                [each.name for each in objects],
                [each.uid for each in objects],
                before_seconds,
            )
            return {row["object_uid"] for row in rows}

        over = await self._database.read(read) if objects else set()
        return [each for each in objects if each.uid in over]

    async def delete_runs(self, *, before_seconds: float, existing: Collection[str]) -> int:
        """Delete the runs that ended that long ago and have no object; how many. `existing` are the uids of objects.

        A run whose object exists stays: the object would be taken for a new request if its status were lost.
        """
        return await self._in_batches(
            f"""
            with over as materialized (
                select id from invocation
                where not ({ACTIVE}) and finished_at < clock_timestamp() - make_interval(secs => $1)
                  and object_uid <> all ($2::text[]) and ($3::text[] is null or namespace = any ($3))
                order by finished_at limit {_AT_ONCE}
            ), approvals as (
                delete from invocation_approval where invocation_id in (select id from over)
            )
            delete from invocation where id in (select id from over)
            """,
            before_seconds=before_seconds,
            existing=existing,
        )

    async def delete_admissions(self, *, before_seconds: float, existing: Collection[str]) -> int:
        """Delete the records of who created an object that is gone, if they are that old; how many.

        A record of a contract has the uid of its object and the generation, with a stroke between.
        """
        return await self._in_batches(
            f"""
            delete from admission_record where uid in (
                select uid from admission_record
                where at < clock_timestamp() - make_interval(secs => $1)
                  and split_part(uid, '/', 1) <> all ($2::text[]) and ($3::text[] is null or namespace = any ($3))
                limit {_AT_ONCE}
            )
            """,
            before_seconds=before_seconds,
            existing=existing,
        )

    async def _in_batches(self, statement: str, *, before_seconds: float, existing: Collection[str]) -> int:
        """Run a deletion of at most so many rows until none is left, each time in a transaction of its own."""
        uids, deleted = list(existing), 0

        async def write(connection: Connection) -> int:
            tag = await connection.execute(statement, before_seconds, uids, self._namespaces)
            return int(tag.rpartition(" ")[2])

        while batch := await self._database.write(write):
            deleted += batch
        return deleted
