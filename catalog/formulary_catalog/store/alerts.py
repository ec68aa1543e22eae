"""Alerts as incidents: stored when a source sends them, found by the id that a call names, listed for people.

`services/incidents` writes them as the server, under row-level security that knows one source at a time. What
an alert demands is not stored: `kernel/incidents` asks the owners of its target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from formulary_catalog.domain.alerts.episodes import Change, Episode, began_at, change_of, ended_at
from formulary_catalog.domain.alerts.reading import Alert
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.errors import Overloaded
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.incidents import enter_incidents

MOST_KEPT = 10_000
"""Incidents of one source: those that ended longest ago are forgotten first."""
_RETRY_SECONDS = 60.0
_EPISODES = 20
"""Of one alert that people are shown, the newest."""
_PLACE = "source_namespace || '/' || source_name || '/' || fingerprint"
# As in `store/incidents`: the lateral query hangs on the session's being set.
_FIND = """
select found.* from (select set_config('formulary.remediation_ids', $1, true) as ids) as named, lateral (
    select * from alert where remediation_id = any ($2::text[]) and named.ids is not null offset 0
) as found order by found.source_namespace, found.source_name
"""
_UPSERT = """
insert into alert as known (
    source_namespace, source_name, fingerprint, remediation_id, namespace, target, signal_name, severity, context,
    labels, annotations, firing, starts_at, episode)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
on conflict (source_namespace, source_name, fingerprint) do update
set namespace = excluded.namespace, target = excluded.target, signal_name = excluded.signal_name,
    severity = excluded.severity, context = excluded.context, labels = excluded.labels,
    annotations = excluded.annotations, firing = excluded.firing, starts_at = excluded.starts_at,
    episode = excluded.episode, messages = known.messages + 1, seen_at = now(),
    changed_at = case when (known.firing, known.episode) = (excluded.firing, excluded.episode) then known.changed_at
                      else now() end
"""
_BEGIN = """
insert into alert_episode (source_namespace, source_name, fingerprint, number, began_at) values ($1, $2, $3, $4, $5)
"""
_END = """
update alert_episode set ended_at = $5
where (source_namespace, source_name, fingerprint, number) = ($1, $2, $3, $4) and ended_at is null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlert:
    """An alert as it is stored. `context` is what a call learns of it before its target is read."""

    context: RequestContext = field(repr=False)
    fingerprint: str
    firing: bool
    changed_at: datetime
    seen_at: datetime
    messages: int
    annotations: Mapping[str, str] = field(repr=False)
    episodes: tuple[tuple[datetime, datetime | None], ...] = ()
    """When each of the newest began and ended, None while it fires; the newest first."""

    @property
    def place(self) -> str:
        """What tells it apart in a list."""
        return f"{self.context.alert}/{self.fingerprint}"


class AlertWriter:
    """Stores what sources send, as the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def receive(
        self, *, namespace: str, name: str, alerts: Sequence[Alert], problem: str, at: datetime
    ) -> list[Change]:
        """Store the alerts of one body, all or none, and why others became nothing. Says what became of each.

        Raises:
            Overloaded: the source has too many incidents that have not ended.
            Unavailable: the database does not answer; nothing is stored.
        """

        async def write(connection: Connection) -> list[Change]:
            await connection.execute("select set_config('formulary.incident_source', $1, true)", f"{namespace}/{name}")
            # Messages of one source one after the other: each has to see what the one before it changed.
            await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 42))", f"{namespace}/{name}")
            known = await _known(connection, namespace=namespace, name=name, alerts=alerts)
            is_new = any(each.firing and each.fingerprint not in known for each in alerts)
            changes = await _store(connection, (namespace, name), alerts, known=known, at=at)
            if is_new:  # afterwards, so that what this body ends makes room
                await _make_room(connection, namespace=namespace, name=name)
            await connection.execute(
                """
                update incident_source set received_at = $3, problem = case when $4 = '' then problem else $4 end,
                    problem_at = case when $4 = '' then problem_at else $3 end
                where namespace = $1 and name = $2
                """,
                namespace,
                name,
                at,
                problem,
            )
            return changes

        return await self._database.write(write)


class AlertReader:
    """Reads alerts under row-level security: those that are named, or those of readable namespaces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, remediation_ids: frozenset[str]) -> list[RequestContext]:
        """What is known of the alerts with these ids; their constraints are not.

        Raises:
            Unavailable: the database does not answer.
        """
        ids = sorted(remediation_ids)
        return [_context(row) for row in await self._database.fetch(_FIND, "\x1f".join(ids), ids)]

    async def page(
        self,
        *,
        namespaces: frozenset[str] | None,
        namespace: str = "",
        only_open: bool = False,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[StoredAlert]:
        """Those of readable namespaces, None for all, and after the row `before`; what changed last comes first.

        `only_open`: those that fire.

        Raises:
            Unavailable: the database does not answer.
        """
        at, place = before or (None, "")
        return await self._read(
            f"""
            where $1 in ('', namespace) and ($2::timestamptz is null or (changed_at, {_PLACE}) < ($2, $3))
              and (firing or not $5)
            order by changed_at desc, {_PLACE} desc limit $4
            """,
            namespace,
            at,
            place,
            limit,
            only_open,
            namespaces=namespaces,
        )

    async def firing(self, *, namespaces: frozenset[str] | None) -> int:
        """How many of readable namespaces fire.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> int:
            await enter_incidents(connection, namespaces=namespaces)
            count: int = await connection.fetchval("select count(*) from alert where firing")
            return count

        return await self._database.read(read)

    async def known(self, remediation_id: str, *, namespaces: frozenset[str] | None) -> list[StoredAlert]:
        """The alerts with this id in readable namespaces, with their episodes.

        Raises:
            Unavailable: the database does not answer.
        """
        return await self._read(
            f"where remediation_id = $1 order by {_PLACE}", remediation_id, namespaces=namespaces, episodes=True
        )

    async def _read(
        self, condition: str, *arguments: Any, namespaces: frozenset[str] | None, episodes: bool = False
    ) -> list[StoredAlert]:
        async def read(connection: Connection) -> list[StoredAlert]:
            await enter_incidents(connection, namespaces=namespaces)
            rows = await connection.fetch("select * from alert " + condition, *arguments)
            return [_stored(row, await _episodes(connection, row) if episodes else ()) for row in rows]

        return await self._database.read(read)


async def _known(connection: Connection, *, namespace: str, name: str, alerts: Sequence[Alert]) -> dict[str, Episode]:
    rows = await connection.fetch(
        """
        select fingerprint, episode, firing, starts_at from alert
        where source_namespace = $1 and source_name = $2 and fingerprint = any ($3::text[])
        """,
        namespace,
        name,
        [each.fingerprint for each in alerts],
    )
    return {
        row["fingerprint"]: Episode(number=row["episode"], firing=row["firing"], starts_at=row["starts_at"])
        for row in rows
    }


async def _make_room(connection: Connection, *, namespace: str, name: str) -> None:
    count = "select count(*) from alert where source_namespace = $1 and source_name = $2"
    excess = await connection.fetchval(count, namespace, name) - MOST_KEPT
    if excess <= 0:
        return
    await connection.execute(
        """
        delete from alert where (source_namespace, source_name, fingerprint) in (
            select source_namespace, source_name, fingerprint from alert
            where source_namespace = $1 and source_name = $2 and not firing order by changed_at limit $3)
        """,
        namespace,
        name,
        excess,
    )
    if await connection.fetchval(count, namespace, name) > MOST_KEPT:
        raise Overloaded(
            f"incident source {namespace}/{name} has {MOST_KEPT} incidents that have not ended, so nothing of this "
            "body was stored; resolve alerts, or send fewer to this source",
            retry_after=_RETRY_SECONDS,
        )


async def _store(
    connection: Connection,
    source: tuple[str, str],
    alerts: Sequence[Alert],
    *,
    known: dict[str, Episode],
    at: datetime,
) -> list[Change]:
    changes: list[Change] = []
    stored: list[tuple[Any, ...]] = []
    begun: list[tuple[Any, ...]] = []
    ended: list[tuple[Any, ...]] = []
    for alert in alerts:
        before = known.get(alert.fingerprint)
        change = change_of(before, firing=alert.firing, starts_at=alert.starts_at)
        changes.append(change)
        if change is Change.IGNORED:
            continue
        key = (*source, alert.fingerprint)
        number = (before.number if before else 0) + (change is Change.BEGUN)
        # Not in the future, or every later message were one of an earlier episode.
        starts_at = min(alert.starts_at or at, at) if before is None or change is Change.BEGUN else before.starts_at
        known[alert.fingerprint] = Episode(number=number, firing=alert.firing, starts_at=starts_at)
        stored.append((*key, *_columns(alert, source=source), starts_at, number))
        if change is Change.BEGUN:
            begun.append((*key, number, began_at(before, starts_at=starts_at, at=at)))
        elif change is Change.ENDED and before is not None:
            ended.append((*key, number, ended_at(before, ends_at=alert.ends_at, at=at)))
    await connection.executemany(_UPSERT, stored)
    await connection.executemany(_BEGIN, begun)
    await connection.executemany(_END, ended)
    return changes


def _columns(alert: Alert, *, source: tuple[str, str]) -> tuple[Any, ...]:
    target = alert.target
    return (
        alert.id,
        alert.namespace or source[0],
        {"namespace": target.namespace, "kind": target.kind, "name": target.name},
        alert.signal_name,
        alert.severity,
        dict(alert.context),
        dict(alert.labels),
        dict(alert.annotations),
        alert.firing,
    )


async def _episodes(connection: Connection, row: asyncpg.Record) -> tuple[tuple[datetime, datetime | None], ...]:
    found = await connection.fetch(
        """
        select began_at, ended_at from alert_episode
        where (source_namespace, source_name, fingerprint) = ($1, $2, $3) order by number desc limit $4
        """,
        row["source_namespace"],
        row["source_name"],
        row["fingerprint"],
        _EPISODES,
    )
    return tuple((each["began_at"], each["ended_at"]) for each in found)


def _stored(row: asyncpg.Record, episodes: tuple[tuple[datetime, datetime | None], ...]) -> StoredAlert:
    return StoredAlert(
        context=_context(row),
        fingerprint=row["fingerprint"],
        firing=row["firing"],
        changed_at=row["changed_at"],
        seen_at=row["seen_at"],
        messages=row["messages"],
        annotations=row["annotations"],
        episodes=episodes,
    )


def _context(row: asyncpg.Record) -> RequestContext:
    target: Mapping[str, str] = row["target"]
    return RequestContext(
        **row["context"],
        namespace=row["namespace"],
        name="",
        remediation_id=row["remediation_id"],
        signal_name=row["signal_name"],
        severity=row["severity"],
        target_namespace=target["name"] if target["kind"] == "Namespace" else target["namespace"],
        target_kind=target["kind"],
        target_name=target["name"],
        alert=f"{row['source_namespace']}/{row['source_name']}",
    )
