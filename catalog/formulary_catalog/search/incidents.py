"""From the id that a call carries to the constraints of its incident; in doubt the call fails (DESIGN section 6).

`search/visibility` calls it for every call. This is where custom labels enter a search: they come from the stored
AIAnalysis and from nowhere else, so that a model can neither see nor change them.
"""

import asyncio
import re

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.incidents import RequestContext, same_incident
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import storable
from formulary_catalog.domain.waiting_room import WaitingRoom
from formulary_catalog.errors import ContextError, NotAllowed
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.incidents import ContextReader

_POLL_SECONDS = 0.1
_ANALYSIS = re.compile(r"[^/]+/[^/]+")
_MAX_SHOWN = 60
_WAITING_AT_ONCE = 6
"""Calls that may wait for an unknown incident, of the 8 that run at once: made-up ids must not hold up the others."""
_WAITING_EACH = 4
"""Of one caller."""


class ContextResolver:
    """Finds the one incident that a call belongs to."""

    def __init__(self, *, reader: ContextReader, policy: ContextPolicy, wait_seconds: float, metrics: Metrics) -> None:
        self._reader = reader
        self._policy = policy
        self._wait_seconds = wait_seconds
        self._waiting = WaitingRoom(places=_WAITING_AT_ONCE, places_each=_WAITING_EACH)
        self._metrics = metrics

    async def resolve(
        self, reference: ContextReference, *, caller: Caller, browsing: bool = False
    ) -> RequestContext | None:
        """The context of a call; None where none was named and none is required. `browsing` never requires one.

        A context that was written a moment ago is waited for. A caller who names a namespace in which it may not use
        contexts is refused before anything is looked up, so that it does not learn what exists there.

        Raises:
            ContextError: a required context was not named, a named one is unknown, or two sources disagree.
            NotAllowed: the caller may not use a context that it names.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        try:
            context = await self._resolve(reference, caller=caller, browsing=browsing)
        except (ContextError, NotAllowed):
            self._metrics.count_context_lookup("refused")
            raise
        self._metrics.count_context_lookup("none" if context is None else "found")
        return context

    async def _resolve(self, reference: ContextReference, *, caller: Caller, browsing: bool) -> RequestContext | None:
        if not reference:
            if self._policy is ContextPolicy.REQUIRED and not browsing:
                raise ContextError(
                    "this server answers only for an incident and the call names none; send the header "
                    "X-Remediation-Id or X-AIAnalysis, or start stdio with --remediation-id (the configuration of the "
                    "client does that, not a tool argument); retrying unchanged will fail again"
                )
            return None
        ids = frozenset(filter(None, (reference.remediation_id, reference.meta_remediation_id)))
        if len(ids) > 1:
            raise ContextError(
                "the sources of this call (headers, _meta or remediation_id) name different remediation ids; send one"
            )
        if reference.analysis and not _ANALYSIS.fullmatch(reference.analysis):
            raise ContextError(
                f"X-AIAnalysis {_shown(reference.analysis)} is not of the form namespace/name; send that"
            )
        if reference.analysis:
            await caller.require(USE_CONTEXTS, namespace=reference.analysis.partition("/")[0])
        # What cannot be stored names nothing; asking for it would look like a failure of the database.
        askable = all(map(storable, (*ids, reference.analysis)))
        found = await self._find(ids=ids, analysis=reference.analysis, caller=caller) if askable else []
        if not reference.analysis:
            for namespace in sorted({context.namespace for context in found}):
                await caller.require(USE_CONTEXTS, namespace=namespace)
        return _agreed(found, ids=ids, analysis=reference.analysis)

    async def _find(self, *, ids: frozenset[str], analysis: str, caller: Caller) -> list[RequestContext]:
        """The contexts that are named; waits for unknown ones where there is a place to wait."""
        found = await self._reader.find(remediation_ids=ids, analysis=analysis)
        if not _unknown(found, ids=ids, analysis=analysis):
            return found
        with self._waiting.place(caller.name) as may_wait:
            return await self._wait_for(ids=ids, analysis=analysis) if may_wait else found

    async def _wait_for(self, *, ids: frozenset[str], analysis: str) -> list[RequestContext]:
        """The contexts once every named source is known, or what is known when the time is up."""
        deadline = asyncio.get_running_loop().time() + self._wait_seconds
        while True:
            found = await self._reader.find(remediation_ids=ids, analysis=analysis)
            complete = not _unknown(found, ids=ids, analysis=analysis)
            remaining = deadline - asyncio.get_running_loop().time()
            if complete or remaining <= 0:
                return found
            await asyncio.sleep(min(_POLL_SECONDS, remaining))


def _unknown(found: list[RequestContext], *, ids: frozenset[str], analysis: str) -> str:
    """The first source that resolves to nothing; empty when all do."""
    for remediation_id in ids:
        if all(context.remediation_id != remediation_id for context in found):
            return f"remediation id {_shown(remediation_id)}"
    if analysis and all(_name(context) != analysis for context in found):
        return f"AIAnalysis {_shown(analysis)}"
    return ""


def _agreed(found: list[RequestContext], *, ids: frozenset[str], analysis: str) -> RequestContext:
    if unknown := _unknown(found, ids=ids, analysis=analysis):
        raise ContextError(
            f"{unknown} is not known here, so its constraints cannot be applied and nothing is returned; check the id, "
            "or retry once if the incident is only seconds old"
        )
    named = [
        context
        for context in found
        if (not ids or context.remediation_id in ids) and (not analysis or _name(context) == analysis)
    ]
    if not named:
        raise ContextError("the remediation id and the AIAnalysis named by this call belong to different incidents")
    first = named[0]
    if any(not same_incident(first, other) for other in named[1:]):
        raise ContextError(
            f"remediation id {_shown(first.remediation_id)} belongs to {len(named)} AIAnalysis objects with different "
            "targets, constraints or namespaces; name one with the header X-AIAnalysis: namespace/name"
        )
    return first


def _name(context: RequestContext) -> str:
    return f"{context.namespace}/{context.name}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")
