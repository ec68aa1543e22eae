"""Runs that ended long ago and records of who created what: deleted when their time is over (DESIGN section 13).

The operator calls it after each comparison with the cluster. What a run came to stays in the outcome of its workflow,
and what happened in the audit trail, which has a retention of its own.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.submission import ACTIVE

_PAGE = 1000
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


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

    async def ended(
        self, objects: Sequence[ObjectOfRun], *, before_seconds: float, rehearsals_before_seconds: float
    ) -> dict[str, bool]:
        """Whether the run of each object ended at least that long ago, by uid; without those that have no run.

        Dry runs have a limit of their own.
        """
        known: dict[str, bool] = {}
        for start in range(0, len(objects), _PAGE):
            page = objects[start : start + _PAGE]
            rows = await self._database.fetch(
                f"""
                select object_uid, coalesce(not ({ACTIVE}) and finished_at < clock_timestamp() - make_interval(
                    secs => case when dry_run then least($4::float8, $5::float8) else $4::float8 end), false) as ended
                from invocation
                join unnest($1::text[], $2::text[], $3::text[]) as object (namespace, object_name, object_uid)
                    using (namespace, object_name, object_uid)
                """,
                [each.namespace for each in page],
                [each.name for each in page],
                [each.uid for each in page],
                before_seconds,
                rehearsals_before_seconds,
            )
            known |= {row["object_uid"]: row["ended"] for row in rows}
        return known

    async def delete_runs(self, *, before_seconds: float, existing: AbstractSet[str]) -> AsyncIterator[int]:
        """Delete the runs that ended that long ago and have no object; how many, batch by batch.

        `existing` are the uids of objects, compared here: they may be more than a statement bears. A run whose object
        exists stays: the object would be taken for a new request if its status were lost.
        """
        after, last = _FIRST, ""
        while rows := await self._database.fetch(
            f"""
            select id, object_uid, finished_at from invocation
            where not ({ACTIVE})
              and (verify_at is null or outcome <> '' or verify_at < clock_timestamp() - interval '1 day')
              and finished_at < clock_timestamp() - make_interval(secs => $1)
              and ($2::text[] is null or namespace = any ($2)) and (finished_at, id) > ($3, $4)
            order by finished_at, id limit {_PAGE}
            """,
            before_seconds,
            self._namespaces,
            after,
            last,
        ):
            after, last = rows[-1]["finished_at"], rows[-1]["id"]
            if over := [row["id"] for row in rows if row["object_uid"] not in existing]:
                yield await self._delete(
                    """
                    with approvals as (delete from invocation_approval where invocation_id = any ($1::text[]))
                    delete from invocation where id = any ($1::text[])
                    """,
                    over,
                )

    async def delete_admissions(self, *, before_seconds: float, existing: AbstractSet[str]) -> AsyncIterator[int]:
        """Delete the records of who created an object that is gone, if they are that old; how many, batch by batch.

        A record of a contract has the uid of its object and the generation, with a stroke between.
        """
        last = ""
        while rows := await self._database.fetch(
            f"""
            select uid from admission_record
            where at < clock_timestamp() - make_interval(secs => $1)
              and ($2::text[] is null or namespace = any ($2)) and uid > $3
            order by uid limit {_PAGE}
            """,
            before_seconds,
            self._namespaces,
            last,
        ):
            last = rows[-1]["uid"]
            if over := [row["uid"] for row in rows if row["uid"].partition("/")[0] not in existing]:
                yield await self._delete("delete from admission_record where uid = any ($1::text[])", over)

    async def _delete(self, statement: str, keys: list[str]) -> int:
        tag = await self._database.write(lambda connection: connection.execute(statement, keys))
        return int(tag.rpartition(" ")[2])
