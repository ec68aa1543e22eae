"""Which signals and alerts the catalog has a remedy for, and which queries found too little, for every edge.

REST, the console and the command line call it. Each alert is searched for as an agent would, by the ranking of
`kernel/search/pipeline`, among the workflows that the caller sees; nobody needs an incident. One event records a call,
and no search is recorded: what is compared here must not count as asked.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from cachetools import TTLCache

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, SearchMode
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoverageTotals, CoveredSignal, WeakQuery
from formulary_catalog.domain.coverage.kinds import bare_kinds
from formulary_catalog.domain.coverage.states import Remedy, in_order, judged, totals_of
from formulary_catalog.domain.coverage.turns import Listed, Turn, place_of_name, turn_of
from formulary_catalog.domain.cursor import TwoLists, cursor, lists_of
from formulary_catalog.domain.search.request import MAX_QUERY_LENGTH, ContextReference, search_request
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, NO, RESTARTS, fold
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.kernel.search.page import Hit
from formulary_catalog.kernel.search.planning import plan_search
from formulary_catalog.store.alert_rules import AlertRuleReader
from formulary_catalog.store.workflows.demand import Asking, DeclaredSignal, Demand, DemandReader
from formulary_catalog.store.workflows.upkeep import UpkeepReader

DAYS = 30
"""Searches of so many days count."""
SHOWN_QUERIES = 50
MAX_SIGNALS = 500
"""So many declared signals are listed; a catalog of 10,000 workflows may declare more."""
_SEARCHES_AT_ONCE = 2
"""More would hold up the searches of agents, and each other: the database has a deadline for each."""
_REMEMBERED, _QUERIES_SECONDS = 16, 60.0
"""Counting the searches of 30 days takes long where there are many; a minute later they are hardly others."""
_FOUND, _FOUND_SECONDS = 8192, 3600.0
"""The hits of so many alerts are remembered, for as long: the same alerts are compared again and again."""
_MOMENT = 0.2
"""Seconds that a page may take to compare a few alerts more."""
_NO_INCIDENT = ContextReference()
_QUESTION = {"list": "coverage"}
"""What cursors belong to."""
_NONE = Demand()


class _Found(NamedTuple):
    """What a search found for an alert, the best first."""

    mode: SearchMode
    remedies: tuple[Remedy, ...] = ()


class _Catalog(NamedTuple):
    """The workflows that are searched: those of these namespaces, None for all, and what changes with any of them."""

    namespaces: frozenset[str] | None
    fingerprint: str


class Coverage:
    """Answers callers; every failure is a `FormularyError`, every call leaves an event in the trail.

    A call compares signals for half of `alert_seconds`, and alerts of the cluster until these are over: it stays within
    its deadline, however many there are.
    """

    def __init__(self, parts: CatalogParts, *, strict_keys: frozenset[str], alert_seconds: float = 3.0) -> None:
        self._demand = DemandReader(parts.database)
        self._rules = AlertRuleReader(parts.database)
        self._workflows = UpkeepReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self._trail, self._visibility, self._searcher = parts.trail, parts.visibility, parts.searcher
        self._strict_keys = strict_keys
        self._alert_seconds = alert_seconds
        self._queries: TTLCache[Asking, list[WeakQuery]] = TTLCache(maxsize=_REMEMBERED, ttl=_QUERIES_SECONDS)
        self._found: TTLCache[tuple[_Catalog, str, str], _Found] = TTLCache(_FOUND, _FOUND_SECONDS)
        """By what was searched, the name of the alert, and the query."""

    async def of_catalog(self, *, limit: int, after: str = "", caller: Caller) -> CoverageAnswer:
        """The canonical signals and those that workflows declare, the alerts of the cluster, and the weak queries.

        At most `limit` signals and as many alerts; `after` is the cursor of the page before. Where the time does not
        suffice for those of a page, the page is shorter. It has one at least, so that a caller gets to the end. Pages
        list each once that is there all the time, whatever is asked meanwhile.

        Raises:
            InvalidInput: the cursor is that of another question.
            NotAllowed: the caller may see none of the namespaces that it could.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record("read.coverage", caller=caller, reference=_NO_INCIDENT, arguments={}) as record:
            listed = lists_of(after, question=_QUESTION)
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            declared = await self._demand.declared(None, namespaces=scope.namespaces, at_most=MAX_SIGNALS)
            names = CANONICAL_BY_FOLD | {signal: each.name for signal, each in declared.items()}
            asking = await self._asking(caller)
            catalog = await self._catalog(scope.namespaces)
            rules = await self._rules.alerts(namespaces=await self._readable.with_rules(caller))
            demand = await self._demand_for([*names.values(), *(alert.name for alert in rules)], asking)
            turn_of_signals, known = _in_turn(
                [Alert(name=name) for name in names.values()], demand, listed=Listed(*listed[2:])
            )
            now = time.monotonic()
            signals, mode = await self._covered(
                known, declared=declared, demand=demand, catalog=catalog, until=now + self._alert_seconds / 2
            )
            turn_of_alerts, rules = _in_turn(rules, demand, listed=Listed(*listed[:2]))
            until = now + self._alert_seconds
            compared, mode_of_alerts = await self._compared(rules, demand=demand, catalog=catalog, until=until)
            shown_signals = min(limit, len(turn_of_signals.places), len(signals))
            shown_alerts = min(limit, len(turn_of_alerts.places), len(compared))
            place = TwoLists(*turn_of_alerts.after(shown_alerts), *turn_of_signals.after(shown_signals))
            is_last = (shown_alerts, shown_signals) == (len(turn_of_alerts.places), len(turn_of_signals.places))
            alerts = in_order(compared[:shown_alerts])
            queries = await self._weak_queries(asking) if not after else []
            left = [await self._left(scope.namespaces)] if not after else []
            more = f"the first {MAX_SIGNALS} declared signals are listed; give alerts to compare others"
            record.result = {"signals": len(signals), "alerts": len(alerts), "queries": len(queries)}
            return CoverageAnswer(
                signals=in_order(signals[:shown_signals]),
                totals=totals_of(signals),
                signals_waiting=len(known) - len(signals),
                alerts=alerts,
                alert_totals=totals_of(compared) if rules else None,
                alerts_waiting=len(rules) - len(compared),
                queries=queries,
                next_cursor="" if is_last else cursor(place, question=_QUESTION),
                days=DAYS,
                search_mode=mode or mode_of_alerts,
                notes=[*_on_rights(asking), *left, *([more] if len(declared) == MAX_SIGNALS else [])],
            )

    async def _left(self, namespaces: frozenset[str] | None) -> str:
        left, served = await self._demand.left_without(RESTARTS, namespaces=namespaces)
        return f"a namespace that says {RESTARTS}={NO} has {left} of {served} workflows left"

    async def of_alerts(self, alerts: Sequence[Alert], *, caller: Caller) -> CoverageAnswer:
        """The remedies for these alerts, at most `alerts.AT_ONCE`.

        Raises:
            NotAllowed, Unavailable: as `of_catalog`.
        """
        arguments = {"alerts": [alert.name for alert in alerts]}
        async with self._trail.record(
            "read.coverage", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            asking = await self._asking(caller)
            demand = await self._demand_for([alert.name for alert in alerts], asking)
            signals, mode = await self._compared(alerts, demand=demand, catalog=await self._catalog(scope.namespaces))
            totals = totals_of(signals)
            record.result = totals.as_json()
            return CoverageAnswer(
                signals=in_order(signals),
                totals=totals,
                queries=[],
                days=DAYS,
                search_mode=mode,
                notes=_on_rights(asking),
            )

    async def states_of_rules(self) -> dict[str, int]:
        """How many alerts of the cluster are in each state, over the whole catalog; empty if there are none.

        For a metric: no caller learns more from it, and nothing is recorded.

        Raises:
            Unavailable: the database does not answer.
        """
        rules = await self._rules.alerts(namespaces=None)
        if not rules:
            return {}
        alerts, _ = await self._compared(rules, demand={}, catalog=await self._catalog(None))
        return totals_of(alerts).model_dump(exclude={"demand_covered"})

    async def of_rules(self, *, caller: Caller) -> tuple[CoverageTotals | None, int]:
        """The alerts of the cluster by state, None if the caller sees none, and how many are not compared yet.

        For a page that waits for no search: what was compared before counts, and what can be in a moment.

        Raises:
            NotAllowed, Unavailable: as `of_catalog`.
        """
        async with self._trail.record("read.coverage", caller=caller, reference=_NO_INCIDENT, arguments={}) as record:
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            rules = await self._rules.alerts(namespaces=await self._readable.with_rules(caller))
            if not rules:
                return None, 0
            until = time.monotonic() + _MOMENT
            alerts, _ = await self._compared(
                rules, demand={}, catalog=await self._catalog(scope.namespaces), until=until
            )
            totals = totals_of(alerts)
            record.result = totals.as_json()
            return totals, len(rules) - len(alerts)

    async def _asking(self, caller: Caller) -> Asking:
        """Whose searches the caller may count: its own, and those for incidents that it may read."""
        return Asking(namespaces=await self._readable.of(caller, USE_CONTEXTS), caller=caller.name)

    async def _catalog(self, namespaces: frozenset[str] | None) -> _Catalog:
        _, fingerprint = await self._workflows.fingerprint(namespaces=namespaces)
        return _Catalog(namespaces, fingerprint)

    async def _weak_queries(self, asking: Asking) -> list[WeakQuery]:
        queries = self._queries.get(asking)
        if queries is None:
            found = await self._demand.weak_queries(asking, since=_since(), sure=WEAK_CONFIDENCE, at_most=SHOWN_QUERIES)
            queries = self._queries[asking] = [_shown(query) for query in found]
        return queries

    async def _demand_for(self, names: Iterable[str], asking: Asking) -> dict[str, Demand]:
        return await self._demand.of_signals({name.lower() for name in names}, asking, since=_since())

    async def _compared(
        self, alerts: Sequence[Alert], *, demand: Mapping[str, Demand], catalog: _Catalog, until: float = math.inf
    ) -> tuple[list[CoveredSignal], str]:
        """As `_covered`, with what workflows declare of these alerts."""
        names = {fold(alert.name) for alert in alerts}
        declared = await self._demand.declared(names, namespaces=catalog.namespaces, at_most=len(names))
        return await self._covered(alerts, declared=declared, demand=demand, catalog=catalog, until=until)

    async def _covered(
        self,
        alerts: Sequence[Alert],
        *,
        declared: Mapping[str, DeclaredSignal],
        demand: Mapping[str, Demand],
        catalog: _Catalog,
        until: float = math.inf,
    ) -> tuple[list[CoveredSignal], str]:
        """The alerts with their remedies, and how the catalog ranked.

        In the order in which they are given. What is not found by `until`, a moment of the monotonic clock, is left
        out.
        """
        signals: list[CoveredSignal] = []
        mode = ""
        for start in range(0, len(alerts), _SEARCHES_AT_ONCE):
            if signals and time.monotonic() > until:
                break
            some = alerts[start : start + _SEARCHES_AT_ONCE]
            for alert, found in zip(
                some, await asyncio.gather(*map(partial(self._search, catalog=catalog), some)), strict=True
            ):
                declaring = declared.get(fold(alert.name))
                asked_for = demand.get(alert.name.lower(), _NONE)
                signals.append(_covered_signal(alert, found.remedies, declared=declaring, demand=asked_for))
                mode = mode or found.mode
        return signals, mode

    async def _search(self, alert: Alert, *, catalog: _Catalog) -> _Found:
        """What fits an alert; remembered where vectors ranked, since workflows without one change no fingerprint."""
        query = alert.query[:MAX_QUERY_LENGTH]
        key = catalog, alert.name, query
        known = self._found.get(key)
        if known is not None:
            return known
        request = search_request(query=query)
        plan = plan_search(request, context=None, strict_keys=self._strict_keys)
        ranked, hits = await self._searcher.ranking(request, plan=plan, namespaces=catalog.namespaces)
        found = _Found(ranked.mode, tuple(_remedies(alert, hits)))
        if ranked.mode is SearchMode.HYBRID:
            self._found[key] = found
        return found


def _in_turn(alerts: Iterable[Alert], demand: Mapping[str, Demand], *, listed: Listed) -> tuple[Turn, list[Alert]]:
    """Whose turn it is, and all alerts: these first, then those of the pages before."""
    by_place = {place_of_name(alert.name): alert for alert in alerts}
    wanted = {
        place: 0 if alert.ignored else sum(demand.get(alert.name.lower(), _NONE)) for place, alert in by_place.items()
    }
    turn = turn_of(wanted, listed=listed)
    return turn, [by_place[place] for place in dict.fromkeys([*turn.places, *by_place])]


def _remedies(alert: Alert, hits: Sequence[Hit]) -> Iterator[Remedy]:
    """The hits that may decide the state of an alert: the first, the likely ones, and those that declare it."""
    for number, hit in enumerate(hits):
        labels = hit.parsed.workflow.spec.labels
        declares = fold(alert.name) in map(fold, labels.signal_type)
        if not number or declares or hit.scored.confidence >= WEAK_CONFIDENCE:
            yield Remedy(hit.stored.workflow_id, hit.scored.confidence, bare_kinds(labels.component), declares)


def _covered_signal(
    alert: Alert, found: Sequence[Remedy], *, declared: DeclaredSignal | None, demand: Demand
) -> CoveredSignal:
    declared_by = declared.workflows if declared is not None else 0
    state, remedy, reason = judged(alert, found, declared_by=declared_by)
    of = remedy or (found[0] if found and state == "none" else None)
    return CoveredSignal(
        name=visible(alert.name),
        severity=visible(alert.severity),
        state=state,
        reason=visible(reason),
        workflow_id=remedy.workflow_id if remedy is not None else "",
        confidence=of.confidence if of is not None else None,
        declared_by=declared_by,
        asked=demand.asked,
        fired=demand.fired,
        ignored=visible(alert.ignored),
        sources=list(alert.sources),
    )


def _shown(query: WeakQuery) -> WeakQuery:
    return query.model_copy(update={"query": visible(query.query)})


def _on_rights(asking: Asking) -> list[str]:
    if asking.namespaces is None:
        return []
    return ["only your own searches are counted, and those for incidents that you may read"]


def _since() -> datetime:
    return datetime.now(UTC) - timedelta(days=DAYS)
