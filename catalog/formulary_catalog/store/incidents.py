"""Constraints of incidents: written from AIAnalysis objects, read by the id that a call names (DESIGN section 6).

The operator writes, `kernel/incidents` reads. Row-level security hides every incident that a call does not name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.store.database.connection import Connection, Database

_UNIT_SEPARATOR = "\x1f"
# Row-level security reads what is named from the session. The lateral query hangs on its being set, and OFFSET keeps
# the planner from turning the two around; if it did, nothing would be visible.
_FIND = """
select context, target from (
    select set_config('formulary.remediation_ids', $1, true) as ids, set_config('formulary.analysis', $2, true) as name
) as named, lateral (
    select namespace, name, context, target from request_context
    where (remediation_id = any ($3::text[]) and named.ids is not null)
       or (namespace = $4 and name = $5 and named.name is not null)
    offset 0
) as found
order by found.namespace, found.name
"""


class ContextWriter:
    """Keeps the stored contexts in step with the AIAnalysis objects of one source, such as files or a cluster."""

    def __init__(self, database: Database, *, source: str = "file") -> None:
        self._database = database
        self._source = source

    async def save(self, context: RequestContext) -> None:
        """Store or replace one context."""
        await self._database.execute(
            """
            insert into request_context (namespace, name, remediation_id, context, target, source)
            values ($1, $2, $3, $4, $5, $6)
            on conflict (namespace, name) do update
            set remediation_id = excluded.remediation_id, context = excluded.context, target = excluded.target,
                source = excluded.source, gone_at = null, changed_at = now()
            where (request_context.remediation_id, request_context.context, request_context.target,
                   request_context.source)
                  <> (excluded.remediation_id, excluded.context, excluded.target, excluded.source)
               or request_context.gone_at is not null
            """,
            context.namespace,
            context.name,
            context.remediation_id,
            _to_json(context),
            _target(context),
            self._source,
        )

    async def remove(self, *, namespace: str, name: str) -> None:
        """Forget one context of this source; calls that name it fail closed from then on."""
        await self._database.execute(
            "delete from request_context where namespace = $1 and name = $2 and source = $3",
            namespace,
            name,
            self._source,
        )

    async def mark_gone(self, *, namespace: str, name: str) -> None:
        """Note that the object is deleted: late calls are still answered under its constraints, until `purge`."""
        await self._database.execute(
            """
            update request_context set gone_at = now()
            where namespace = $1 and name = $2 and source = $3 and gone_at is null
            """,
            namespace,
            name,
            self._source,
        )

    async def purge(self, *, gone_for_seconds: float) -> None:
        """Forget the contexts of this source whose objects have been gone for that long."""
        await self._database.execute(
            "delete from request_context where source = $1 and gone_at < now() - make_interval(secs => $2)",
            self._source,
            gone_for_seconds,
        )

    async def stored(self) -> dict[tuple[str, str], RequestContext]:
        """The contexts of this source whose objects exist as far as is known, by (namespace, name)."""

        async def read(connection: Connection) -> dict[tuple[str, str], RequestContext]:
            rows = await connection.fetch(
                "select namespace, name, context, target from request_context where source = $1 and gone_at is null",
                self._source,
            )
            return {(row["namespace"], row["name"]): _stored(row) for row in rows}

        return await self._database.read(read)


class ContextReader:
    """Finds the contexts that a call names. Row-level security hides every context that it does not name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, *, remediation_ids: frozenset[str], analysis: str) -> list[RequestContext]:
        """The contexts with one of these remediation ids, or with this `namespace/name`, in name order."""
        ids = sorted(remediation_ids)
        rows = await self._database.fetch(_FIND, _UNIT_SEPARATOR.join(ids), analysis, ids, *_parts(analysis))
        return [_stored(row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIncident:
    """An incident in a list: what it demands, when that changed last, and whether its object is deleted."""

    context: RequestContext = field(repr=False)
    changed_at: datetime
    gone: bool


class IncidentReader:
    """Lists incidents for people: those of the namespaces that the caller may read, None for all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        *,
        namespaces: frozenset[str] | None,
        namespace: str = "",
        only_open: bool = False,
        before: tuple[datetime, str] | None = None,
        limit: int,
    ) -> list[StoredIncident]:
        """Those of one namespace, and after the row `before`, where given; what changed last comes first.

        `only_open`: those whose object is there.

        Raises:
            Unavailable: the database does not answer.
        """
        at, name = before or (None, "")
        return await self._read(
            """
            where $1 in ('', namespace)
              and ($2::timestamptz is null or (changed_at, namespace || '/' || name) < ($2, $3))
              and (gone_at is null or not $5)
            order by changed_at desc, namespace || '/' || name desc limit $4
            """,
            namespace,
            at,
            name,
            limit,
            only_open,
            namespaces=namespaces,
        )

    async def open(self, *, namespaces: frozenset[str] | None) -> int:
        """How many of readable namespaces have an object that is there.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> int:
            await enter_incidents(connection, namespaces=namespaces)
            count: int = await connection.fetchval("select count(*) from request_context where gone_at is null")
            return count

        return await self._database.read(read)

    async def find(self, incident: str, *, namespaces: frozenset[str] | None) -> list[StoredIncident]:
        """Those with this remediation id, or with this `namespace/name`, in name order.

        Raises:
            Unavailable: the database does not answer.
        """
        condition = "where remediation_id = $1 or (namespace = $2 and name = $3) order by namespace, name"
        return await self._read(condition, incident, *_parts(incident), namespaces=namespaces)

    async def named(self, names: Iterable[str], *, namespaces: frozenset[str] | None) -> dict[str, RequestContext]:
        """Those of these `namespace/name`, by them.

        Raises:
            Unavailable: the database does not answer.
        """
        parts = [_parts(name) for name in sorted(set(names)) if "/" in name]
        if not parts:
            return {}
        condition = "where (namespace, name) in (select * from unnest($1::text[], $2::text[]))"
        found = await self._read(condition, *map(list, zip(*parts, strict=True)), namespaces=namespaces)
        return {f"{each.context.namespace}/{each.context.name}": each.context for each in found}

    async def _read(self, condition: str, *arguments: Any, namespaces: frozenset[str] | None) -> list[StoredIncident]:
        async def read(connection: Connection) -> list[StoredIncident]:
            await enter_incidents(connection, namespaces=namespaces)
            rows = await connection.fetch(
                "select context, target, changed_at, gone_at is not null as gone from request_context " + condition,
                *arguments,
            )
            return [
                StoredIncident(context=_stored(row), changed_at=row["changed_at"], gone=row["gone"]) for row in rows
            ]

        return await self._database.read(read)


async def enter_incidents(connection: Connection, *, namespaces: frozenset[str] | None) -> None:
    """Let a transaction read the incidents of these namespaces, None for all."""
    readable = "*" if namespaces is None else ",".join(sorted(namespaces))
    await connection.execute("select set_config('formulary.incidents_read', $1, true)", readable)


async def context_of(connection: Connection, *, namespace: str, name: str) -> RequestContext | None:
    """The context of one AIAnalysis, for the writer's role; None if it is not known."""
    row = await connection.fetchrow(
        "select context, target from request_context where namespace = $1 and name = $2", namespace, name
    )
    return _stored(row) if row is not None else None


def _to_json(context: RequestContext) -> dict[str, Any]:
    return {
        "namespace": context.namespace,
        "name": context.name,
        "remediation_id": context.remediation_id,
        "environment": context.environment,
        "priority": context.priority,
        "cluster": context.cluster,
        "severity": context.severity,
        "signal_name": context.signal_name,
        "target_namespace": context.target_namespace,
        "custom_labels": {key: list(values) for key, values in context.custom_labels.items()},
        "strict_keys": sorted(context.strict_keys),
        "detected_labels": dict(context.detected_labels),
    }


def _target(context: RequestContext) -> dict[str, str]:
    """The target apart from the rest: earlier releases fail on members of `context` that they do not know."""
    return {
        "target_api_version": context.target_api_version,
        "target_kind": context.target_kind,
        "target_name": context.target_name,
    }


def _stored(row: asyncpg.Record) -> RequestContext:
    context: Mapping[str, Any] = row["context"]
    return RequestContext(
        **{
            **context,
            **row["target"],
            "custom_labels": {key: tuple(values) for key, values in context["custom_labels"].items()},
            "strict_keys": frozenset(context["strict_keys"]),
        }
    )


def _parts(analysis: str) -> tuple[str, str]:
    namespace, _, name = analysis.partition("/")
    return namespace, name
