"""Watches over the audit trail: checkpoints while it grows, and a verification of all of it every few hours.

Checkpoints are published in a ConfigMap, which the owner of the database alone cannot change.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import structlog

from formulary_catalog.domain.audit.chain import IntegrityFinding
from formulary_catalog.domain.audit.checkpoint import Seen
from formulary_catalog.domain.audit.verification import Replay
from formulary_catalog.errors import FormularyError, NotFound, Unavailable
from formulary_catalog.store.audit.checkpoints import CheckpointStore, keep_checkpointing
from formulary_catalog.store.audit.keys import public_keys, signing_key
from formulary_catalog.store.audit.publishing import KEPT, CheckpointPlace, parse_lines, place_of, publish, spell_lines
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database
from formulary_operator.api.names import CONFIG_MAPS, Json
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.events import EventRecorder
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings

_MAX_LOGGED = 20
_SOON_SECONDS = 300.0
"""Until the first verification, and after one that did not come to an end."""
_log = structlog.get_logger(__name__)
_KEY = "checkpoints"


class Auditing:
    """Writes checkpoints, publishes them outside the database, and verifies the whole trail every few hours.

    They are published in `config_map` and where the settings name a place; Events are about the former.

    Raises:
        StartupError: a key that the settings name cannot be read.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        database: Database,
        metrics: OperatorMetrics,
        config_map: "ConfigMapPlace | None" = None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._checkpoints = CheckpointStore(database)
        self._signing = signing_key(settings)
        self._keys = public_keys(settings)
        self._config_map = config_map
        places: dict[str, CheckpointPlace | None] = {
            "config_map": config_map,
            "named": place_of(settings.audit_published),
        }
        self._places = {name: place for name, place in places.items() if place is not None}
        self._verified: tuple[IntegrityFinding, ...] = ()
        self._disagreeing: tuple[IntegrityFinding, ...] = ()
        self._warned: tuple[IntegrityFinding, ...] = ()

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be done all the time."""
        works = [self._keep_checkpointing()]
        if self._places:
            works.append(self._keep_publishing())
        if self._settings.verify_seconds:
            works.append(self._keep_verifying())
        return works

    async def _keep_checkpointing(self) -> None:
        self._metrics.trail_covered(await _answered(self._checkpoints.covered_until()))
        await keep_checkpointing(
            self._checkpoints,
            every_seconds=self._settings.checkpoint_seconds,
            key=self._signing,
            covered=self._metrics.trail_covered,
        )

    async def _keep_publishing(self) -> None:
        """Publish what is new, and compare what was published with what is there."""
        for name, place in self._places.items():
            published = await self._read(name, place)
            self._metrics.trail_published(name, await _answered(self._checkpoints.published_until(published)))
        while True:
            found: list[IntegrityFinding] = []
            for name, place in self._places.items():
                try:
                    disagreeing_here = await publish(self._checkpoints, place)
                except FormularyError as error:
                    _log.warning("trace_not_published", place=name, reason=str(error))
                    continue
                if not disagreeing_here:
                    self._metrics.trail_published(name)
                found += disagreeing_here
            if (disagreeing := tuple(found)) != self._disagreeing:
                self._disagreeing = disagreeing
                await self._report(disagreeing)
            await asyncio.sleep(self._settings.checkpoint_seconds)

    async def _keep_verifying(self) -> None:
        self._metrics.trail_watched()
        pause = min(_SOON_SECONDS, self._settings.verify_seconds)  # replicas may come and go faster than it is due
        while True:
            await asyncio.sleep(pause)
            try:
                seen = [*self._checkpoints.written, *await self._published()]
                async with TraceReader.open(self._settings.database_url, to_verify=True) as reader:
                    replay = await reader.examine(keys=self._keys, seen=seen)
                pause = self._settings.verify_seconds
            except FormularyError as error:
                # The alert on the age of the last verification fires if this goes on.
                _log.warning("trail_not_verified", reason=str(error))
                pause = min(_SOON_SECONDS, self._settings.verify_seconds)
            else:
                await self._take(replay)

    async def _published(self) -> list[Seen]:
        """What was published in all places."""
        return [seen for name, place in self._places.items() for seen in await self._read(name, place)]

    async def _read(self, name: str, place: CheckpointPlace) -> tuple[Seen, ...]:
        """What was published in a place; one that cannot be read is logged, and holds nothing."""
        try:
            return await place.read()
        except FormularyError as error:
            _log.warning("trace_published_unread", place=name, reason=str(error))
            return ()

    async def _take(self, replay: Replay) -> None:
        self._metrics.trail_verified()
        self._verified = replay.findings
        if replay.passed:
            complete = replay.proven.at if replay.proven is not None else None
            _log.info("trail_verified", events=replay.event_count, traces=replay.trace_count, complete_until=complete)
        await self._report(replay.findings)

    async def _report(self, findings: Sequence[IntegrityFinding]) -> None:
        """Metric and log; an Event where the findings are others than the last time."""
        self._metrics.trail_findings(len(self._verified) + len(self._disagreeing))
        for finding in findings[:_MAX_LOGGED]:
            _log.error(
                "trail_broken",
                trace=finding.trace_id,
                seq=finding.seq,
                problem=finding.problem,
                reason=finding.message,
            )
        if findings and self._config_map is not None and tuple(findings) != self._warned:
            self._warned = tuple(findings)
            first = findings[0]
            where = f"trace {first.trace_id}" if first.trace_id else first.place or "the database"
            message = f"the audit trail is not as it was written: {where}: {first.message}"
            if len(findings) > 1:
                message += f"; and {len(findings) - 1} more, see `formulary trace verify`"
            await self._config_map.warn(message)


async def _answered(until: Awaitable[datetime | None]) -> datetime | None:
    """What the database says; without an answer there is only the start to count from."""
    try:
        return await until
    except Unavailable:
        return None


class ConfigMapPlace:
    """A ConfigMap that is there already: to change one by name takes less rights than to make any."""

    def __init__(self, client: KubeClient, *, events: EventRecorder, namespace: str, name: str) -> None:
        self._client = client
        self._events = events
        self._path = CONFIG_MAPS.path(namespace=namespace, name=name)
        self._name = f"{namespace}/{name}"
        self._read: Json | None = None

    async def read(self) -> tuple[Seen, ...]:
        """What it holds, the newest last.

        Raises:
            NotFound: it is not there.
            InvalidInput: it holds something else.
        """
        self._read = await self._client.get(self._path)
        if self._read is None:
            raise NotFound(
                f"there is no ConfigMap {self._name} to publish checkpoints in; upgrade the release, or create an "
                "empty one",
                reference=self._name,
            )
        return parse_lines((self._read.get("data") or {}).get(_KEY, ""), place=f"ConfigMap {self._name}")

    async def write(self, published: Sequence[Seen], new: Sequence[Seen]) -> None:
        """Add the newest to it, unless it has changed since it was read."""
        version = self._read["metadata"]["resourceVersion"] if self._read is not None else ""
        patch = {"metadata": {"resourceVersion": version}, "data": {_KEY: spell_lines([*published, *new][-KEPT:])}}
        await self._client.merge(self._path, patch)

    async def warn(self, message: str) -> None:
        """Write an Event about it, as far as it is there."""
        if self._read is not None:
            regarding = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, **self._read}
            await self._events.record(regarding, type="Warning", reason="TrailBroken", message=message)
