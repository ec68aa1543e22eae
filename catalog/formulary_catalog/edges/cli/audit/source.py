"""The audit trail that a `trace` command works on: that of the database, as its owner, or that of a server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from formulary_catalog.edges.cli.options import data_dir_option, database_option, settings_of
from formulary_catalog.edges.cli.sources import database_settings, opened_database
from formulary_catalog.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from formulary_catalog.domain.audit.chain import StoredEvent
    from formulary_catalog.domain.audit.verification import Replay
    from formulary_catalog.settings import Settings
    from formulary_catalog.store.audit.reader import TraceReader

_T = TypeVar("_T")
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailSource:
    """Where the trail is."""

    settings: "Settings"
    url: str = ""
    """Of the server to ask instead; `trace list`, `show` and `export` can."""

    def ask(self, question: Callable[["TraceReader"], Awaitable[_T]], *, to_verify: bool = False) -> _T:
        """The answer to a question to the whole trail; `to_verify`, the operator's role may ask it too.

        Raises:
            FormularyError: the question's own, or Unavailable and StartupError if the database cannot be used.
        """

        async def asked() -> _T:
            async with self._reader(to_verify=to_verify) as reader:
                return await question(reader)

        return asyncio.run(asked())

    @asynccontextmanager
    async def dsn(self) -> AsyncIterator[str]:
        """The database as its owner; an embedded one that nobody runs is run meanwhile."""
        async with opened_database(self.settings) as dsn:
            yield dsn

    @asynccontextmanager
    async def _reader(self, *, to_verify: bool) -> "AsyncIterator[TraceReader]":
        from formulary_catalog.store.audit.reader import TraceReader

        async with self.dsn() as dsn, TraceReader.open(dsn, to_verify=to_verify) as reader:
            yield reader


def trail_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--database-url` and `--data-dir`, handed on as `trail`."""

    @wraps(command)
    def with_trail(*, database_url: str | None, data_dir: Path | None, **others: Any) -> None:
        command(trail=TrailSource(settings=database_settings(database_url=database_url, data_dir=data_dir)), **others)

    return database_option(data_dir_option(with_trail))


def readable_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same and `--url`: a server is asked, unless a database is named by an option."""

    @wraps(command)
    def with_trail(*, url: str | None, database_url: str | None, data_dir: Path | None, **others: Any) -> None:
        settings = settings_of(database_url=database_url, data_dir=data_dir)
        served = url if url and not (database_url or data_dir) else ""
        command(trail=TrailSource(settings=settings, url=served or ""), **others)

    named = click.option(
        "--url", envvar="FORMULARY_URL", help="Server to ask, with FORMULARY_TOKEN; no database. [FORMULARY_URL]"
    )(with_trail)
    return database_option(data_dir_option(named))


async def read_trace(
    reader: "TraceReader", trace_id: str, *, settings: "Settings"
) -> tuple[list["StoredEvent"], "Replay"]:
    """The events of a trace and whether they are as they were written.

    Raises:
        NotFound: there are none.
    """
    from formulary_catalog.store.audit.keys import public_keys

    require_storable(trace_id)
    events = await reader.events(trace_id)
    replay = await reader.verify(trace_id, keys=public_keys(settings))
    if not events:
        raise not_found(trace_id, replay=replay)
    return events, replay


def require_storable(trace_id: str) -> None:
    """Check that an id is one that a trace could have.

    Raises:
        InvalidInput: it holds what no text of the database does.
    """
    try:
        trace_id.encode()
    except UnicodeEncodeError:
        storable = False
    else:
        storable = "\0" not in trace_id
    if not storable:
        raise InvalidInput(
            "the trace id holds bytes that are no text; `formulary trace list` shows the ids", field="trace_id"
        )


def not_found(trace_id: str, *, replay: "Replay | None" = None) -> NotFound:
    """Why nothing is known of a trace."""
    shown = trace_id if len(trace_id) <= _MAX_SHOWN else f"{trace_id[:_MAX_SHOWN]}…"
    gone = [finding.message for finding in replay.findings if finding.trace_id] if replay is not None else []
    if gone:
        return NotFound(f"trace {shown!r} is gone: {gone[0]}", reference=trace_id)
    if replay is not None and replay.trace_count:
        return NotFound(
            f"trace {shown!r} has expired: its events were dropped, as a checkpoint says", reference=trace_id
        )
    return NotFound(f"trace {shown!r} is not known; `formulary trace list` shows those that are", reference=trace_id)
