"""From what a call names to the constraints of its incident or target; in doubt the call fails (DESIGN section 6).

`kernel/visibility` calls it for every call. This is where custom labels enter a search: they come from the stored
AIAnalysis or from the labels of the target, and from nowhere else, so that a model can neither see nor change them. An
alert names a target, and demands what that demands.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.alerts.context import context_of_alert, given_by
from formulary_catalog.domain.alerts.reading import is_alert_id
from formulary_catalog.domain.incidents import RequestContext, same_incident
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.targets.reference import TargetReference, target_reference
from formulary_catalog.domain.text import storable
from formulary_catalog.domain.waiting_room import WaitingRoom
from formulary_catalog.errors import ContextError, NotAllowed, Overloaded
from formulary_catalog.kernel.readable import may_in_all
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.log import Throttle
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.incidents import ContextReader

_POLL_SECONDS = 0.1
_ANALYSIS = re.compile(r"[^/]+/[^/]+")
_MAX_SHOWN = 60
_CALLS = 6
"""Calls that may wait, of the 8 that run at once: made-up ids must not hold up the others."""
_CALLS_EACH = 5
"""Of one caller, for any incidents."""
_RETRY_SECONDS = 1.0
_NAMES_NOTHING = "this server answers only for an incident and the call names none; "
_NAME_AN_INCIDENT = (
    "send the header X-Remediation-Id or X-AIAnalysis, add ?incident=ID to the address of /mcp, or start stdio or the "
    "command with --remediation-id (the configuration of the client does that, not an argument of this call)"
)
_NAME_A_TARGET = (
    "name what is broken with target_namespace, target_kind and target_name, such as shop, Deployment and checkout "
    "(a command: --target), and give what follows a search its search_id; or have the client send the header "
    "X-Remediation-Id or X-AIAnalysis"
)
_log = structlog.get_logger(__name__)


class ContextResolver:
    """Finds the one incident, or the one target, that a call belongs to."""

    def __init__(
        self,
        *,
        reader: ContextReader,
        alerts: AlertReader,
        targets: TargetContexts,
        policy: ContextPolicy,
        wait_seconds: float,
        metrics: Metrics,
    ) -> None:
        self._targets = targets
        self._policy = policy
        self._arrivals = _Arrivals(reader=reader, alerts=alerts, wait_seconds=wait_seconds)
        self._metrics = metrics

    async def resolve(self, reference: ContextReference, *, caller: Caller) -> RequestContext | None:
        """The context of a call; None where none was named and none is required.

        A context that was written a moment ago is waited for. One that the caller may not use is answered as an unknown
        one, as late as that. A caller who names a namespace in which it may not use contexts is refused before anything
        is looked up. So nobody learns what exists elsewhere.

        Raises:
            ContextError: a required context was not named, a named one is unknown to the caller, two sources
                disagree, or the labels of the target are not what they must be.
            NotAllowed: the caller may not use contexts in the namespace that it names, or may not get the target.
            Unavailable: the database or the target does not answer, the caller's rights cannot be checked, or the
                incident is not known yet and too many calls wait already.
        """
        try:
            context = None
            if (named := await self._named(reference, caller=caller)) is not None:
                # What cannot be stored names nothing; asking for it would look like a failure of the database.
                askable = all(map(storable, (*named.ids, named.analysis)))
                found = await self._arrivals.find(named, caller=caller) if askable else []
                context = _agreed(found, named=named)
                if reference.target is not None:
                    _require_about(context, reference.target)
                if context.alert:
                    context = await self.of_alert(context, caller=caller)
            elif reference.target is not None:
                context = await self._targets.context_of(reference.target, caller=caller)
        except (ContextError, NotAllowed):
            self._metrics.count_context_lookup("refused")
            raise
        self._metrics.count_context_lookup("none" if context is None else "found")
        return context

    async def of_alert(self, alert: RequestContext, *, caller: Caller) -> RequestContext:
        """The context of an alert that the caller may use: that of its target. Raises as `resolve`."""
        target = target_reference(namespace=alert.target_namespace, kind=alert.target_kind, name=alert.target_name)
        assert target is not None, "an alert without a target is not stored"
        demanded = await self._targets.context_of(target, caller=caller, known=given_by(alert))
        return context_of_alert(alert, target=demanded)

    async def _named(self, reference: ContextReference, *, caller: Caller) -> "_Named | None":
        """The incident that the call names, None for none. Raises as `resolve` does."""
        if not reference:
            if self._policy is ContextPolicy.REQUIRED and not reference.optional:
                may_name_target = reference.takes_target and self._targets.are_read
                raise ContextError(_NAMES_NOTHING + (_NAME_A_TARGET if may_name_target else _NAME_AN_INCIDENT))
            return None
        if not reference.names_incident:
            return None
        named = _Named(ids=_ids(reference), analysis=reference.analysis)
        if named.analysis:
            await caller.require(USE_CONTEXTS, namespace=named.namespace)
        return named


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What a call names of its incident."""

    ids: frozenset[str]
    analysis: str

    def unknown(self, found: list[RequestContext]) -> tuple[str, str] | None:
        """Kind and name of the first source that resolves to nothing; None when all do."""
        for remediation_id in self.ids:
            if all(context.remediation_id != remediation_id for context in found):
                return "remediation id", remediation_id
        if self.analysis and all(f"{context.namespace}/{context.name}" != self.analysis for context in found):
            return "AIAnalysis", self.analysis
        return None

    @property
    def namespace(self) -> str:
        """That of the AIAnalysis; empty without one."""
        return self.analysis.partition("/")[0]


@dataclass(slots=True)
class _Awaited:
    """An incident that so many calls wait for, and what was found when it was last looked for."""

    calls: int = 0
    found: list[RequestContext] = field(default_factory=list)
    looked_at: float = float("-inf")
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


class _Arrivals:
    """Waits for incidents that were written a moment ago, each call for so many seconds at most.

    Calls that wait for the same one share their looks into the database. Made-up ids take neither its connections nor
    the slots that other callers need.
    """

    def __init__(self, *, reader: ContextReader, alerts: AlertReader, wait_seconds: float) -> None:
        self._reader = reader
        self._alerts = alerts
        self._wait_seconds = wait_seconds
        self._room = WaitingRoom(places=_CALLS, places_each=_CALLS_EACH)
        self._awaited: dict[_Named, _Awaited] = {}
        self._throttle = Throttle()

    async def find(self, named: _Named, *, caller: Caller) -> list[RequestContext]:
        """The contexts that the caller may use once every named source is among them, or those when the time is up.

        Raises:
            Overloaded: too many calls wait already.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._wait_seconds
        decided: dict[tuple[str, ...], bool] = {}
        found = await self._look(named)
        usable = await self._usable(found, named=named, caller=caller, decided=decided)
        if named.unknown(usable) is None:
            return usable
        with self._room.place(caller.name) as has_place, self._awaiting(named) as awaited:
            if not has_place:
                raise Overloaded(
                    "the incident of this call is not known yet, and too many calls wait for incidents already; "
                    f"retry in {_RETRY_SECONDS:g} s",
                    retry_after=_RETRY_SECONDS,
                )
            while True:
                async with awaited.looking:
                    if clock() - awaited.looked_at >= _POLL_SECONDS:
                        awaited.looked_at = clock()  # also of a look that fails: the others wait for the next one
                        awaited.found = await self._look(named)
                usable = await self._usable(awaited.found, named=named, caller=caller, decided=decided)
                remaining = deadline - clock()
                if named.unknown(usable) is None or remaining <= 0:
                    return usable
                await asyncio.sleep(min(_POLL_SECONDS, remaining))

    async def _look(self, named: _Named) -> list[RequestContext]:
        """The AIAnalysis objects and the alerts that are named."""
        found = await self._reader.find(remediation_ids=named.ids, analysis=named.analysis)
        ids = frozenset(filter(is_alert_id, named.ids))
        return [*found, *(await self._alerts.find(ids))] if ids else found

    async def _usable(
        self, found: list[RequestContext], *, named: _Named, caller: Caller, decided: dict[tuple[str, ...], bool]
    ) -> list[RequestContext]:
        """Those that the caller may use. Of an id that several namespaces have, all or none: one may be a copy.

        `decided` keeps what a call has found out about namespaces. Only the log says that there is an incident which is
        not to be used: an administrator has to find the right that is missing.
        """
        if named.analysis:  # the right in its namespace is checked already
            return [context for context in found if context.namespace == named.namespace]
        namespaces = tuple(sorted({context.namespace for context in found}))
        if namespaces not in decided:
            # An unknown id costs a check as well: a check that fails or takes time must not show which ids exist.
            decided[namespaces] = await may_in_all(caller, USE_CONTEXTS, namespaces)
            refused = namespaces if not decided[namespaces] else ()
            if refused and (count := self._throttle.admit((caller.name, refused))):
                _log.warning("incident_refused", caller=caller.name, namespaces=refused, count=count)
        return found if decided[namespaces] else []

    @contextmanager
    def _awaiting(self, named: _Named) -> Iterator[_Awaited]:
        """The incident, as one more call waits for it until the end of the block."""
        awaited = self._awaited.setdefault(named, _Awaited())
        awaited.calls += 1
        try:
            yield awaited
        finally:
            awaited.calls -= 1
            if not awaited.calls:
                del self._awaited[named]


def _ids(reference: ContextReference) -> frozenset[str]:
    """The remediation ids of a call: at most one. Raises `ContextError` for two, and for a malformed AIAnalysis."""
    ids = frozenset(reference.ids)
    if len(ids) > 1:
        raise ContextError(
            "the sources of this call (headers, _meta, the address or remediation_id) name different remediation ids; "
            "send one"
        )
    if reference.analysis and not _ANALYSIS.fullmatch(reference.analysis):
        raise ContextError(f"X-AIAnalysis {_shown(reference.analysis)} is not of the form namespace/name; send that")
    return ids


def _agreed(found: list[RequestContext], *, named: _Named) -> RequestContext:
    if (unknown := named.unknown(found)) is not None:
        kind, name = unknown
        where = f" in namespace {named.namespace}" if named.namespace else ""
        raise ContextError(
            f"{kind} {_shown(name)} is not known here{where}, so its constraints cannot be applied and nothing is "
            f"returned; check the id, and that you may {USE_CONTEXTS} in the namespace of the incident; retry once if "
            "the incident is only seconds old"
        )
    meant = [
        context
        for context in found
        if (not named.ids or context.remediation_id in named.ids)
        and (not named.analysis or f"{context.namespace}/{context.name}" == named.analysis)
    ]
    if not meant:
        raise ContextError("the remediation id and the AIAnalysis named by this call belong to different incidents")
    first = meant[0]
    if any(not same_incident(first, other) for other in meant[1:]):
        raise ContextError(
            f"remediation id {_shown(first.remediation_id)} belongs to {len(meant)} incidents with different targets, "
            "constraints or namespaces; name one with the header X-AIAnalysis: namespace/name, or name the target"
        )
    return first


def _require_about(context: RequestContext, target: TargetReference) -> None:
    """Refuse a call whose incident is about something else than the target that it names."""
    named = (context.target_namespace, context.target_kind.casefold(), context.target_name)
    namespace = target.namespace or (target.name if target.kind == "Namespace" else "")
    if named not in {(each, target.kind.casefold(), target.name) for each in (target.namespace, namespace)}:
        raise ContextError(
            f"the incident of this call is not about {target}, so nothing is returned; leave target_namespace, "
            "target_kind and target_name out, the constraints of the incident apply"
        )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")
