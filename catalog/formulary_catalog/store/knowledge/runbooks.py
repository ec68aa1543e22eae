"""Runbooks by their source: a directory that somebody loaded, or a ConfigMap.

`loading/runbooks` and the operator write them, `formulary runbooks` lists and removes them. A source is known by its
name; the place it was read from shows that another directory comes with the same name.
"""

from collections.abc import Collection as AnyOf
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import tenant_of
from formulary_catalog.store.embedding_models import keep_serving_model
from formulary_catalog.store.knowledge.documents import save_documents

DIRECTORY, CONFIG_MAP = "directory:", "configmap:"
"""How origins begin; the name of the source follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookSource:
    """What is stored of one source. `place` and `loaded_at` are unknown where an older release loaded it."""

    origin: str
    namespace: str
    place: str
    files: int
    documents: int
    loaded_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What became of the files of a source, by name. `place_before` is where it was read from until now."""

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    place_before: str


class RunbookWriter:
    """Keeps the runbooks of each origin. Operations raise `Unavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace(
        self,
        origin: str,
        documents: Sequence[Document],
        *,
        place: str = "",
        take_over: bool = False,
        keep: AnyOf[str] = (),
        remove: bool = True,
    ) -> Replacement:
        """Make the runbooks of an origin what these documents say, all of one namespace.

        `place` is the path that they were read from, if any. `keep` are source files that could not be read: what they
        gave before stays. Without `remove` all does.

        Raises:
            InvalidInput: the origin was read from another place before, and this is not to `take_over` its name.
        """

        async def write(connection: Connection) -> Replacement:
            await keep_serving_model(connection)
            await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 22))", origin)
            held = await connection.fetchval("select place from runbook_source where origin = $1", origin) or ""
            if held not in ("", place) and not take_over:
                raise _held(origin, place=place, by=held)
            before = await _files(connection, origin)
            await connection.execute(
                """
                delete from knowledge_document
                where $4 and origin = $1 and doc_id <> all ($2) and source_file <> all ($3)
                """,
                origin,
                [each.doc_id for each in documents],
                list(keep),
                remove,
            )
            if documents:
                tenant_id = await tenant_of(connection, namespace=documents[0].namespace)
                await save_documents(connection, documents, tenant_id=tenant_id, origin=origin)
            after = await _files(connection, origin)
            await _note(connection, origin, place=place, there=bool(after))
            return _compared(before, after, place_before=held)

        return await self._database.write(write)

    async def remove(self, origin: str) -> Replacement:
        """Remove all of an origin, wherever it was read from."""
        return await self.replace(origin, [], take_over=True)

    async def origins(self, prefix: str) -> set[str]:
        """The origins of runbooks that begin with this."""

        async def read(connection: Connection) -> set[str]:
            rows = await connection.fetch(
                "select distinct origin from knowledge_document where origin <> '' and starts_with(origin, $1)", prefix
            )
            return {row["origin"] for row in rows}

        return await self._database.read(read)

    async def sources(self) -> list[RunbookSource]:
        """All sources that have documents, by origin."""

        async def read(connection: Connection) -> list[RunbookSource]:
            rows = await connection.fetch(
                """
                select origin, min(namespace) as namespace, coalesce(place, '') as place,
                       count(distinct source_file) as files, count(*) as documents, loaded_at
                from knowledge_document left join runbook_source using (origin)
                where origin <> '' group by origin, place, loaded_at order by origin
                """
            )
            return [RunbookSource(**row) for row in rows]

        return await self._database.read(read)


async def _files(connection: Connection, origin: str) -> dict[str, list[str]]:
    """The files of an origin, each with what differs once it says something else."""
    rows = await connection.fetch(
        """
        select source_file, array_agg(doc_id || ' ' || text_hash order by doc_id) as said
        from knowledge_document where origin = $1 group by source_file
        """,
        origin,
    )
    return {row["source_file"]: row["said"] for row in rows}


async def _note(connection: Connection, origin: str, *, place: str, there: bool) -> None:
    """Remember where the origin was read from, as long as there is anything of it."""
    if there:
        await connection.execute(
            """
            insert into runbook_source (origin, place, loaded_at) values ($1, $2, clock_timestamp())
            on conflict (origin) do update set place = excluded.place, loaded_at = excluded.loaded_at
            """,
            origin,
            place,
        )
    else:
        await connection.execute("delete from runbook_source where origin = $1", origin)


def _compared(before: dict[str, list[str]], after: dict[str, list[str]], *, place_before: str) -> Replacement:
    both = sorted(before.keys() & after.keys())
    return Replacement(
        added=tuple(sorted(after.keys() - before.keys())),
        replaced=tuple(file for file in both if before[file] != after[file]),
        unchanged=tuple(file for file in both if before[file] == after[file]),
        removed=tuple(sorted(before.keys() - after.keys())),
        place_before=place_before,
    )


def _held(origin: str, *, place: str, by: str) -> InvalidInput:
    name = origin.removeprefix(DIRECTORY)
    return InvalidInput(
        f"the runbooks called {name!r} are those of {by}, and {place} is another directory; nothing of it was loaded. "
        f"`formulary runbooks load {place} --name OTHER` keeps both, `--name {name}` replaces them",
        field="name",
    )
