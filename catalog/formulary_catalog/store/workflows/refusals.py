"""Objects of the cluster that the operator does not take into the catalog, each with the reason that its status gives.

The operator notes them, and the resync compares; `services/workflows/refused` lists them under row-level security. The
row of an object goes in the transaction that stores it or ends serving it (`store/workflows/writer`), without a round
trip.
"""

from collections.abc import Collection
from dataclasses import astuple

import asyncpg

from formulary_catalog.domain.cursor import Place
from formulary_catalog.domain.stored import RefusedWorkflow
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter, tenant_of
from formulary_catalog.store.workflows.listing import ListingQuestion

INVALID = "Invalid"
"""The status of a listing that stands for them."""
_COLUMNS = "namespace, name, version, reason, message, since"


class RefusalWriter:
    """Keeps what is refused. Operations raise `Unavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, refused: RefusedWorkflow) -> None:
        """Make this what is known of an object."""

        async def write(connection: Connection) -> None:
            await connection.execute(
                f"""
                insert into refused_workflow as known (tenant_id, {_COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7)
                on conflict (namespace, name) do update
                set version = excluded.version, reason = excluded.reason, message = excluded.message,
                    since = excluded.since
                where known is distinct from excluded
                """,
                await tenant_of(connection, namespace=refused.namespace),
                *astuple(refused),
            )

        await self._database.write(write)

    async def keep_only(self, namespaces: Collection[str]) -> None:
        """Forget what was refused in other namespaces, which are watched no more. What is served stays so."""
        await self._database.execute("delete from refused_workflow where namespace <> all ($1)", list(namespaces))

    async def noted(self) -> list[RefusedWorkflow]:
        """All that is known, by namespace and name."""
        rows = await self._database.fetch(f"select {_COLUMNS} from refused_workflow order by namespace, name")
        return [RefusedWorkflow(**row) for row in rows]


class RefusalReader:
    """Reads pages and counts under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, question: ListingQuestion, *, namespaces: frozenset[str] | None, limit: int, after: Place | None = None
    ) -> tuple[list[RefusedWorkflow], int]:
        """A page of what follows a place, by name and namespace; and how many there are in all.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        where = " and ".join(refused_where(question, arguments))
        follows = "true"
        if after is not None:
            place = f"{arguments.add(after.name, 'text')}, {arguments.add(after.namespace, 'text')}"
            follows = f"(name, namespace) > ({place})"
        most = arguments.add(limit, "integer")

        async def read(connection: Connection) -> list[asyncpg.Record]:
            await enter(connection, namespaces=namespaces)
            return list(
                await connection.fetch(
                    f"""
                    with listed as materialized (select {_COLUMNS} from refused_workflow where {where}),
                    page as (select * from listed where {follows} order by name, namespace limit {most})
                    select (select count(*) from listed) as total, page.*
                    from (select) as always left join page on true order by name, namespace
                    """,
                    *arguments.values,
                )
            )

        rows = await self._database.read(read)
        found = [
            RefusedWorkflow(**{name: value for name, value in row.items() if name != "total"})
            for row in rows
            if row["name"] is not None
        ]
        return found, rows[0]["total"]

    async def namespaces(
        self, question: ListingQuestion, *, namespaces: frozenset[str] | None, limit: int
    ) -> list[tuple[str, int]]:
        """How many there are in each namespace, the most first, whatever namespace is asked for.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        where = " and ".join(refused_where(question, arguments, in_namespace=False))
        most = arguments.add(limit, "integer")

        async def read(connection: Connection) -> list[tuple[str, int]]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"select namespace, count(*) from refused_workflow where {where} group by namespace "
                f"order by count(*) desc, namespace limit {most}",
                *arguments.values,
            )
            return [(row["namespace"], row["count"]) for row in rows]

        return await self._database.read(read)


def refused_where(question: ListingQuestion, arguments: StatementArguments, *, in_namespace: bool = True) -> list[str]:
    """The conditions on rows: each word is in the name, the reason or the message.

    Nothing else is known of what is refused: who asks for a signal, a risk or an action gets none.
    """
    if question.signal_type or question.risk_level or question.action_type:
        return ["false"]
    found = ["true"]
    if in_namespace and question.namespace:
        found.append(f"namespace = {arguments.add(question.namespace, 'text')}")
    words = [arguments.add(word, "text") for word in question.words]
    return [*found, *(f"strpos(lower(name || ' ' || reason || ' ' || message), {word}) > 0" for word in words)]
