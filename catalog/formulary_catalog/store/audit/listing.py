"""The trail as people read it: pages of traces, and the namespaces that a trace belongs to.

`services/audit/traces` calls it with the namespaces that its caller may read.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from formulary_catalog.domain.runs.run import true_state
from formulary_catalog.store.audit.one_trace import name_trace, names_later, naming_body
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.owner import OwnerConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """A trace in a list. `namespaces` are those whose right it takes to read it; `first_body` is its first event.

    `phase` is that of its newest run, real ones first; empty without a run. `naming_body` is the event that names the
    incident where the first one, which came before the incident was known, does not.
    """

    trace_id: str
    changed_at: datetime
    events: int
    held: bool
    namespaces: tuple[str, ...]
    phase: str
    first_body: str = field(repr=False)
    first_kind: str
    last_kind: str
    naming_body: str = field(default="", repr=False)
    state: str = ""
    """What became of that run (`domain.runs.run.true_state`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Which traces are wanted: those that changed `since`, and after the row `before` in the order of the list.

    `phases` are of their newest run, None for any, an empty one for none. Empty texts do not filter. `of_incidents`
    leaves out what belongs to no incident and has no run, unless `trace_id` names it.
    """

    since: datetime
    namespace: str = ""
    trace_id: str = ""
    phases: Collection[str] | None = None
    of_incidents: bool = False
    before: tuple[datetime, str] | None = None


async def states_of(connection: Connection | OwnerConnection, trace_ids: Sequence[str]) -> dict[str, str]:
    """What became of the newest run of each trace, real ones first, of runs that the session may read."""
    if not trace_ids:
        return {}
    rows = await connection.fetch(
        """
        select distinct on (trace_id) trace_id, phase, dry_run or degraded as dry, started_at is not null as started,
               outcome
        from formulary.invocation where trace_id = any ($1)
        order by trace_id, dry_run or degraded, created_at desc
        """,
        list(trace_ids),
    )
    return {
        row["trace_id"]: true_state(row["phase"], dry=row["dry"], started=row["started"], outcome=row["outcome"])
        for row in rows
    }


class TraceLister:
    """Reads what belongs to the caller's namespaces, None for all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, wanted: TraceFilter, *, namespaces: frozenset[str] | None, limit: int) -> list[TraceRow]:
        """The traces, those that changed last first.

        Raises:
            Unavailable: the database does not answer.
        """
        before, before_trace = wanted.before or (None, "")
        rows = await self._database.fetch(
            "select * from formulary.traces_in($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            None if namespaces is None else sorted(namespaces),
            wanted.namespace,
            wanted.trace_id,
            None if wanted.phases is None else sorted(wanted.phases),
            wanted.since,
            before,
            before_trace,
            limit,
            wanted.of_incidents,
        )
        listed = [
            TraceRow(
                trace_id=row["trace_id"],
                changed_at=row["changed_at"],
                events=row["events"],
                held=row["held"],
                namespaces=tuple(row["belongs_to"]),
                phase=row["phase"],
                first_body=row["first_body"],
                first_kind=row["first_kind"],
                last_kind=row["last_kind"],
            )
            for row in rows
        ]
        later = await self._named_later(listed)
        states = await self._database.read(partial(self._states, listed=listed))
        return [
            replace(row, naming_body=later.get(row.trace_id, ""), state=states.get(row.trace_id, "")) for row in listed
        ]

    async def namespaces(self, trace_id: str) -> list[str]:
        """Those whose right it takes to read a trace; none where it belongs to no namespace, or does not exist.

        Raises:
            Unavailable: the database does not answer.
        """
        (row,) = await self._database.fetch("select formulary.namespaces_of_trace($1) as namespaces", trace_id)
        return list(row["namespaces"])

    async def trace_of_search(self, search_id: UUID) -> str:
        """The trace that holds a search; empty where no search has this id.

        Raises:
            Unavailable: the database does not answer.
        """
        (row,) = await self._database.fetch("select formulary.trace_of_search($1) as trace_id", search_id)
        return row["trace_id"] or ""

    async def states(self, trace_ids: Sequence[str], *, namespaces: frozenset[str] | None) -> dict[str, str]:
        """As `states_of`, of runs in these namespaces, None for all.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> dict[str, str]:
            reviewed = "*" if namespaces is None else ",".join(sorted(namespaces))
            await connection.execute("select set_config('formulary.reviewed', $1, true)", reviewed)
            return await states_of(connection, trace_ids)

        return await self._database.read(read)

    async def _states(self, connection: Connection, *, listed: Sequence[TraceRow]) -> dict[str, str]:
        """Of traces that `traces_in` let the caller see with the phases of their runs."""
        await connection.execute("select set_config('formulary.reviewed', '*', true)")
        return await states_of(connection, [row.trace_id for row in listed if row.phase])

    async def _named_later(self, listed: Collection[TraceRow]) -> dict[str, str]:
        """The events that name the incidents of those that `traces_in` let the caller see without."""
        nameless = [
            row.trace_id
            for row in listed
            if names_later(row.trace_id, first_body=row.first_body, namespaces=row.namespaces)
        ]
        if not nameless:
            return {}

        async def read(connection: Connection) -> dict[str, str]:
            found = {}
            for trace_id in nameless:
                await name_trace(connection, trace_id)
                found[trace_id] = await naming_body(connection, trace_id)
            return found

        return await self._database.read(read)
