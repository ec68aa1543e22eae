"""How a reader sees the namespaces of its caller: row-level security uses what is set here, and hides all rows from a
connection that has set nothing."""

from typing import Any

from formulary_catalog.store.database.connection import Connection


class Arguments:
    """Numbers the parameters of a statement."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"


async def enter(connection: Connection, *, namespaces: frozenset[str] | None) -> None:
    """Make the transaction see these namespaces only, None for all."""
    await connection.fetchval("select formulary.enter($1, '', '')", _visible(namespaces))


def entered_table(arguments: Arguments, *, namespaces: frozenset[str] | None) -> str:
    """A common table `entered` that makes its statement, or the transaction around it, see these namespaces only.

    What reads a tenant's rows has to depend on its column `word_in_use` laterally, behind an OFFSET that keeps the
    planner from turning the two around; if it did, nothing would be visible.
    """
    visible = arguments.add(_visible(namespaces), "text[]")
    return f"entered as materialized (select formulary.enter({visible}, '', '') as word_in_use)"


def _visible(namespaces: frozenset[str] | None) -> list[str] | None:
    return None if namespaces is None else sorted(namespaces)
