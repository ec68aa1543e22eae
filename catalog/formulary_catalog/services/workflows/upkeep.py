"""Workflows that may be of no use, and pairs that say the same, for every edge.

REST, the console and the command line call it. What the caller does not see is neither listed nor compared, and only
the searches that it may know of count. Each call reads the whole catalog in a few statements.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from cachetools import LRUCache, TTLCache

from formulary_catalog.domain.access import READ_INVOCATIONS, USE_CONTEXTS, Caller
from formulary_catalog.domain.coverage.answers import DuplicatePair, DuplicatesAnswer, StaleAnswer, StaleWorkflow
from formulary_catalog.domain.coverage.duplicates import MAX_PAIRS, THRESHOLD, Compared, near_pairs, overlap, replaces
from formulary_catalog.domain.coverage.stale import DAYS, REASONS, Served, Use, stale_because
from formulary_catalog.domain.cursor import NumberedRow, cursor, number_of
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.store.runs.reviewing import ReviewReader
from formulary_catalog.store.workflows.demand import Asking, DemandReader
from formulary_catalog.store.workflows.upkeep import CatalogVectors, UpkeepReader

MAX_COMPARED = 20_000
"""More workflows are not compared with each other: that would take the process seconds."""
_REMEMBERED = 4
_USES_SECONDS = 60.0
"""Counting the searches of 90 days takes long where there are many; a minute later they are hardly others."""
_NO_INCIDENT = ContextReference()
_STALE, _DUPLICATES = {"list": "stale"}, {"list": "duplicates"}
"""What cursors of the two lists belong to."""
_IMAGES = "an image is gone once a run could not pull it; registries are not asked"

NearPairs = list[tuple[str, str, float]]
"""Two version ids and their cosine."""


class Upkeep:
    """Answers callers; every failure is a `FormularyError`, every call leaves an event in the trail.

    All methods raise `NotAllowed` and `Unavailable` as `Visibility.of`.
    """

    def __init__(self, parts: CatalogParts) -> None:
        self._reader = UpkeepReader(parts.database)
        self._review = ReviewReader(parts.database)
        self._demand = DemandReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self._trail, self._visibility = parts.trail, parts.visibility
        self._near: LRUCache[str, NearPairs] = LRUCache(maxsize=_REMEMBERED)
        """Pairs near in meaning, by the fingerprint of what was compared."""
        self._finding: dict[str, asyncio.Task[NearPairs]] = {}
        self._comparing = asyncio.Semaphore(1)
        self._uses: TTLCache[Asking, dict[str, Use]] = TTLCache(maxsize=_REMEMBERED, ttl=_USES_SECONDS)

    async def stale(self, *, limit: int, after: str = "", caller: Caller) -> StaleAnswer:
        """The workflows that may be of no use, those without an image and those that fail first.

        `after` is the cursor of the page before.

        Raises:
            InvalidInput: the cursor is that of another question.
        """
        async with self._trail.record("read.stale", caller=caller, reference=_NO_INCIDENT, arguments={}) as record:
            begin = number_of(after, question=_STALE)
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            now = datetime.now(UTC)
            uses = await self._uses_for(caller)
            unpulled = await self._review.unpulled(
                caller=caller.name,
                namespaces=await self._readable.of(caller, READ_INVOCATIONS),
                since=now - timedelta(days=DAYS),
            )
            served = await self._reader.served(uses, unpulled=unpulled, namespaces=scope.namespaces)
            found = [(each, because) for each in served if (because := stale_because(each, now=now)) is not None]
            found.sort(
                key=lambda pair: (REASONS.index(pair[1][0]), -pair[0].use.first, pair[0].name, pair[0].namespace)
            )
            record.result = {"total": len(found)}
            return StaleAnswer(
                workflows=[
                    _stale(each, reason=reason, detail=detail)
                    for each, (reason, detail) in found[begin : begin + limit]
                ],
                total=len(found),
                next_cursor=_next(begin + limit, of=found, question=_STALE),
                compared=len(served),
                days=DAYS,
                notes=[_IMAGES],
            )

    async def duplicates(self, *, limit: int, after: str = "", caller: Caller) -> DuplicatesAnswer:
        """The pairs that say nearly the same and may be allowed for the same incident, the nearest first.

        `after` is the cursor of the page before.

        Raises:
            InvalidInput: the caller sees more than `MAX_COMPARED` workflows, or the cursor is that of another question.
        """
        async with self._trail.record("read.duplicates", caller=caller, reference=_NO_INCIDENT, arguments={}) as record:
            begin = number_of(after, question=_DUPLICATES)
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            number, fingerprint = await self._reader.fingerprint(namespaces=scope.namespaces)
            if number > MAX_COMPARED:
                raise InvalidInput(
                    f"{number} workflows are too many to be compared with each other; at most {MAX_COMPARED} are, so "
                    "ask as somebody who sees fewer namespaces",
                    field="caller",
                )
            near = self._near.get(fingerprint)
            if near is None:
                near = await self._found_once(fingerprint, namespaces=scope.namespaces)
            ids = {each for one, other, _ in near for each in (one, other)}
            compared = await self._reader.compared(ids, namespaces=scope.namespaces)
            led = {version_id for version_id, use in (await self._uses_for(caller)).items() if use.first}
            pairs = [
                _pair(compared[one], compared[other], cosine=cosine, led=led)
                for one, other, cosine in near
                if one in compared and other in compared and overlap(compared[one].labels, compared[other].labels)
            ]
            record.result = {"total": len(pairs)}
            return DuplicatesAnswer(
                pairs=pairs[begin : begin + limit],
                total=len(pairs),
                next_cursor=_next(begin + limit, of=pairs, question=_DUPLICATES),
                compared=number,
                threshold=THRESHOLD,
                days=DAYS,
                notes=[f"the {MAX_PAIRS} nearest pairs were looked at"] if len(near) == MAX_PAIRS else [],
            )

    async def _found_once(self, fingerprint: str, *, namespaces: frozenset[str] | None) -> NearPairs:
        """Once for all who wait; it goes on where one of them gives up, so that the next call has the result."""
        task = self._finding.get(fingerprint)
        if task is None:
            task = self._finding[fingerprint] = asyncio.create_task(self._find(fingerprint, namespaces=namespaces))
            task.add_done_callback(lambda _: self._finding.pop(fingerprint, None))
        return await asyncio.shield(task)

    async def _find(self, fingerprint: str, *, namespaces: frozenset[str] | None) -> NearPairs:
        async with self._comparing:
            vectors = await self._reader.vectors(namespaces=namespaces)
            near = self._near[fingerprint] = await asyncio.to_thread(_nearest, vectors)
        return near

    async def _uses_for(self, caller: Caller) -> dict[str, Use]:
        """The use of versions in the searches and choices that the caller may know of."""
        asking = Asking(namespaces=await self._readable.of(caller, USE_CONTEXTS), caller=caller.name)
        uses = self._uses.get(asking)
        if uses is None:
            since = datetime.now(UTC) - timedelta(days=DAYS)
            uses = self._uses[asking] = await self._demand.uses(asking, since=since)
        return uses


def _next(end: int, *, of: Sequence[object], question: Mapping[str, str]) -> str:
    """The cursor of what follows the first `end` of a list; empty where nothing does."""
    return cursor(NumberedRow(str(end)), question=question) if end < len(of) else ""


def _nearest(vectors: CatalogVectors) -> NearPairs:
    ids = vectors.version_ids
    return [(ids[one], ids[other], cosine) for one, other, cosine in near_pairs(vectors.vectors)]


def _stale(served: Served, *, reason: str, detail: str) -> StaleWorkflow:
    return StaleWorkflow(
        workflow_id=served.workflow_id,
        namespace=served.namespace,
        version=served.version,
        reason=reason,
        detail=detail,
        served_since=moment(served.since),
        found=served.use.found,
        first=served.use.first,
        chosen=served.use.chosen,
        succeeded=served.outcome.succeeded,
        failed=served.outcome.failed,
        helped=served.outcome.helped,
        runs_counted=served.outcome.verified,
    )


def _pair(one: Compared, other: Compared, *, cosine: float, led: set[str]) -> DuplicatePair:
    replaced = [
        each
        for each, rival in ((other, one), (one, other))
        if each.version_id not in led and replaces(rival.labels, each.labels)
    ]
    # Where each could take the place of the other, the one that was first is to be kept; else neither is named.
    never_first = replaced[0] if len(replaced) == 1 else None
    return DuplicatePair(
        workflow_id=f"{one.namespace}/{one.name}",
        other_id=f"{other.namespace}/{other.name}",
        cosine=round(cosine, 4),
        same_action=one.action == other.action,
        never_first=f"{never_first.namespace}/{never_first.name}" if never_first is not None else "",
    )
