"""How a reader sees the namespaces of its caller.

Statements of `store` over workflows and documents begin with `enter` or `entered_table`; writers take the number of a
tenant from `tenant_of`. Row-level security uses what is set here, and hides all rows from a connection that has set
nothing: a forgotten call shows nothing instead of too much.
"""

from typing import Any

from formulary_catalog.store.database.connection import Connection


class StatementArguments:
    """Numbers the parameters of a statement."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"


async def enter(connection: Connection, *, namespaces: frozenset[str] | None) -> None:
    """Make the transaction see these namespaces only, None for all."""
    await connection.fetchval("select formulary.enter($1, '', '')", _visible(namespaces))


def entered_table(arguments: StatementArguments, *, namespaces: frozenset[str] | None) -> str:
    """A common table `entered` that makes its statement, or the transaction around it, see these namespaces only.

    What reads a tenant's rows has to depend on its column `word_in_use` laterally, behind an OFFSET that keeps the
    planner from turning the two around; if it did, nothing would be visible.
    """
    visible = arguments.add(_visible(namespaces), "text[]")
    return f"entered as materialized (select formulary.enter({visible}, '', '') as word_in_use)"


def _visible(namespaces: frozenset[str] | None) -> list[str] | None:
    return None if namespaces is None else sorted(namespaces)


async def tenant_of(connection: Connection, *, namespace: str) -> int:
    """The id of the tenant that a namespace is; a new one if it is none yet."""
    known = "select id from tenant where namespace = $1"
    if (tenant_id := await connection.fetchval(known, namespace)) is None:
        # Asked first: an insert that finds a conflict still uses up a number of the sequence.
        await connection.execute("insert into tenant (namespace) values ($1) on conflict do nothing", namespace)
        tenant_id = await connection.fetchval(known, namespace)
    return int(tenant_id)
