"""What `halt` and `resume` share: the database that they write to, and who writes."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from formulary_catalog.domain.governance.halting import Halt
    from formulary_catalog.settings import Settings
    from formulary_catalog.store.halting import HaltWriter

_T = TypeVar("_T")
_SECONDS = 60.0


def namespace_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--namespace`, empty for everywhere."""
    return click.option("--namespace", default="", metavar="NAME", help=text)


def at_work(settings: "Settings", operation: "Callable[[HaltWriter], Awaitable[_T]]") -> _T:
    """The result of an operation on the halts of a database; an embedded one that nobody runs is run meanwhile.

    Raises:
        StartupError, Unavailable: the database cannot be used.
    """

    async def done() -> _T:
        from formulary_catalog.cli.databases import existing_database
        from formulary_catalog.store.database import Database, Role
        from formulary_catalog.store.halting import HaltWriter
        from formulary_catalog.store.migrate import require_current_schema

        async with existing_database(settings) as dsn:
            await require_current_schema(dsn)
            async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=_SECONDS) as database:
                return await operation(HaltWriter(database))

    return asyncio.run(done())


def who() -> str:
    """Who works at this terminal."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def as_json_of(halt: "Halt") -> dict[str, Any]:
    """A halt for programs."""
    return {
        "namespace": halt.namespace,
        "contract": halt.contract,
        "reason": halt.reason,
        "by": halt.by,
        "at": halt.at.isoformat(),
        "trace_id": halt.trace_id,
    }
