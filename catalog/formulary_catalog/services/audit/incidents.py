"""Incidents as people read them: what is known of each, what it demands of a workflow, and what would be offered.

An incident is readable by who may use the incidents of its namespace; another one is answered as if it did not exist.
Its custom labels take a right of their own, which agents do not have. The offer is a search of the reader for the
incident, so that it holds nothing that the reader could not find, and nobody has to type a query.

What the owners of a target demand is read under the same rights, with which label of which object says so: it takes
`get` on the target, as for agents.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, NamedTuple

from formulary_catalog.domain.access import READ_CONSTRAINTS, USE_CONTEXTS, Caller
from formulary_catalog.domain.alerts.reading import is_alert_id
from formulary_catalog.domain.cursor import TimedRow, cursor, moment_of
from formulary_catalog.domain.incidents import same_incident
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.reading import (
    AlertAnswer,
    DemandAnswer,
    EpisodeAnswer,
    IncidentAnswer,
    IncidentPage,
    IncidentSummary,
    TargetAnswer,
)
from formulary_catalog.domain.runs.run import trace_id
from formulary_catalog.domain.search.request import MAX_QUERY_LENGTH, ContextReference, search_request
from formulary_catalog.domain.targets.context import Demand
from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.domain.text import storable
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS, wire_name
from formulary_catalog.errors import FormularyError, NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.alerts import AlertReader, StoredAlert
from formulary_catalog.store.audit.listing import TraceLister
from formulary_catalog.store.incidents import IncidentReader, StoredIncident

_MAX_SHOWN = 60
_NO_INCIDENT = ContextReference()
_Known = StoredIncident | StoredAlert
_TEXTS = ("summary", "description", "message", "title")
"""Annotations that say what is wrong; links and dashboards do not."""


class OpenIncidents(NamedTuple):
    """Alerts that fire, and AIAnalysis objects that are there. `may_read`: whether that says anything."""

    firing: int
    analyses: int
    may_read: bool


class IncidentReading:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts, *, catalog: CatalogService, strict_keys: frozenset[str]) -> None:
        self._trail = parts.trail
        self._catalog = catalog
        self._contexts = parts.contexts
        self._reader = IncidentReader(parts.database)
        self._alerts = AlertReader(parts.database)
        self._traces = TraceLister(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self._strict_keys = strict_keys

    async def page(
        self, *, namespace: str = "", only_open: bool = False, limit: int, after: str = "", caller: Caller
    ) -> IncidentPage:
        """The incidents, those that changed last first; `after` is the cursor of the page before.

        `only_open`: alerts that fire, and AIAnalysis objects that are there.

        Raises:
            InvalidInput: the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        arguments = {**({"namespace": namespace} if namespace else {}), **({"open": True} if only_open else {})}
        question = {"incidents": namespace or "*", **({"open": "true"} if only_open else {})}
        async with self._trail.record(
            "read.incidents", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            before = moment_of(after, question=question)
            namespaces, notes, _ = await self._readable.listed(caller, USE_CONTEXTS, namespace=namespace)
            narrowed: dict[str, Any] = {
                "namespaces": namespaces,
                "namespace": namespace,
                "only_open": only_open,
                "before": before,
                "limit": limit + 1,
            }
            found: list[_Known] = [*await self._reader.page(**narrowed), *await self._alerts.page(**narrowed)]
            found.sort(key=lambda each: (each.changed_at, _name(each)), reverse=True)
            shown = found[:limit]
            record.result = {"total": len(shown)}
            last = shown[-1] if len(found) > limit else None
            runs = await self._runs(shown, namespaces=namespaces)
            return IncidentPage(
                incidents=[IncidentSummary(**_summary(each), run=runs.get(_trace(each), "")) for each in shown],
                next_cursor=cursor(_place(last), question=question) if last is not None else "",
                notes=notes,
            )

    async def open(self, caller: Caller) -> OpenIncidents:
        """How many there are now, as far as the caller may read them.

        Raises:
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "read.incidents", caller=caller, reference=_NO_INCIDENT, arguments={"open": True}
        ) as record:
            namespaces, _, nowhere = await self._readable.listed(caller, USE_CONTEXTS)
            found = OpenIncidents(
                firing=await self._alerts.firing(namespaces=namespaces),
                analyses=await self._reader.open(namespaces=namespaces),
                may_read=not nowhere,
            )
            record.result = {"total": found.firing + found.analyses}
            return found

    async def incident(self, incident: str, *, caller: Caller) -> IncidentAnswer:
        """One incident, by its remediation id or as namespace/name of its AIAnalysis, with what would be offered.

        Raises:
            NotFound: there is none that the caller may read.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "read.incident", caller=caller, reference=_NO_INCIDENT, arguments={"incident": incident}
        ) as record:
            namespaces = await self._readable.of(caller, USE_CONTEXTS)
            askable = storable(incident)
            analyses = await self._reader.find(incident, namespaces=namespaces) if askable else []
            is_alert = askable and is_alert_id(incident)
            alerts = await self._alerts.known(incident, namespaces=namespaces) if is_alert else []
            found: list[_Known] = [*analyses, *alerts]
            if not found:
                raise NotFound(
                    f"no incident {incident[:_MAX_SHOWN]!r} that you may read is known; give the remediation id or "
                    f"namespace/name of an AIAnalysis or the id of an alert in whose namespace you may {USE_CONTEXTS}",
                    reference=incident,
                )
            record.result = {"total": len(found)}
            reveal = await caller.access.allows(READ_CONSTRAINTS, namespace=found[0].context.namespace)
            answer = await self._answer(found, reveal=reveal, caller=caller)
            runs = await self._runs(found[:1], namespaces=namespaces)
            answer = answer.model_copy(update={"run": runs.get(answer.trace_id, "")})
        return await self._with_offer(answer, caller=caller)

    async def _runs(self, incidents: Sequence[_Known], *, namespaces: frozenset[str] | None) -> dict[str, str]:
        """What became of the newest run of each incident, by its trace, of runs in these namespaces."""
        return await self._traces.states([_trace(each) for each in incidents], namespaces=namespaces)

    async def _answer(self, found: list[_Known], *, reveal: bool, caller: Caller) -> IncidentAnswer:
        """`reveal`: whether custom labels may be said."""
        stored, first, notes = found[0], found[0].context, list[str]()
        if isinstance(stored, StoredAlert):
            try:
                first = await self._contexts.of_alert(first, caller=caller)
            except FormularyError as error:
                notes.append(f"what its target demands is not known: {error}")
        others = ", ".join(_name(other) for other in found[1:])
        notes += [f"the same remediation id is on: {others}"] if others else []
        if not all(same_incident(stored.context, other.context) for other in found[1:]):
            notes.append("they differ in target or constraints, so that calls for this remediation id fail")
        if not reveal:
            notes.append(f"custom labels are not shown: you may not {READ_CONSTRAINTS} in namespace {first.namespace}")
        strict = first.strict_keys | self._strict_keys | (STANDARD_KEYS & first.custom_labels.keys())
        return IncidentAnswer(
            **_summary(replace(stored, context=replace(first, name=stored.context.name))),
            custom_labels={key: list(values) for key, values in first.custom_labels.items()} if reveal else {},
            strict_keys=sorted(strict) if reveal else [],
            detected_labels=dict(first.detected_labels),
            trace_id=_trace(stored),
            alert=_alert(stored) if isinstance(stored, StoredAlert) else None,
            notes=notes,
        )

    async def _with_offer(self, answer: IncidentAnswer, *, caller: Caller) -> IncidentAnswer:
        """The answer with what the caller would be offered for the incident, or with a note that says why not."""
        query = _query(answer)
        if not query:
            return answer
        reference = ContextReference(remediation_id=answer.remediation_id)
        if answer.name:
            reference = ContextReference(analysis=answer.incident)
        try:
            asked = search_request(query=query, context=reference)
            offer = await self._catalog.search(asked, caller=caller, browsing=True)
        except FormularyError as error:
            return answer.model_copy(update={"notes": [*answer.notes, f"nothing can be offered: {error}"]})
        return answer.model_copy(update={"query": query, "offer": offer})


def _query(answer: IncidentAnswer) -> str:
    """What is searched for: the name and severity of the alert, and what its annotations say."""
    annotations = answer.alert.annotations if answer.alert is not None else {}
    texts = [annotations[name] for name in _TEXTS if annotations.get(name)]
    named = [answer.signal_name, answer.severity] if answer.signal_name else []
    return " ".join([*filter(None, named), *texts]).strip()[:MAX_QUERY_LENGTH]


def _alert(alert: StoredAlert) -> AlertAnswer:
    return AlertAnswer(
        source=alert.context.alert,
        messages=alert.messages,
        seen=moment(alert.seen_at),
        annotations=dict(alert.annotations),
        episodes=[
            EpisodeAnswer(began=moment(began), ended=moment(ended) if ended is not None else "")
            for began, ended in alert.episodes
        ],
    )


def _summary(incident: _Known) -> dict[str, str | bool]:
    context = incident.context
    is_alert = isinstance(incident, StoredAlert)
    state = ("firing" if incident.firing else "resolved") if isinstance(incident, StoredAlert) else ""
    return {
        "incident": context.remediation_id if is_alert else _name(incident),
        "remediation_id": context.remediation_id,
        "namespace": context.namespace,
        "name": context.name,
        "signal_name": context.signal_name,
        "severity": context.severity,
        "environment": context.environment,
        "priority": context.priority,
        "cluster": context.cluster,
        "target": context.target,
        "changed": moment(incident.changed_at),
        "gone": False if isinstance(incident, StoredAlert) else incident.gone,
        "state": state,
    }


def _trace(incident: _Known) -> str:
    return trace_id(remediation_id=incident.context.remediation_id, fallback="")


def _place(incident: _Known) -> TimedRow:
    return TimedRow(incident.changed_at.astimezone(UTC).isoformat(), _name(incident))


def _name(incident: _Known) -> str:
    """What tells an incident apart in a list."""
    if isinstance(incident, StoredAlert):
        return incident.place
    return f"{incident.context.namespace}/{incident.context.name}"


class TargetReading:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts, *, strict_keys: frozenset[str]) -> None:
        self._trail = parts.trail
        self._targets = parts.targets
        self._strict_keys = strict_keys

    async def read(self, target: TargetReference, *, caller: Caller) -> TargetAnswer:
        """What the owners of a target demand.

        Raises:
            ContextError: targets are not read here, it does not exist, or its namespace lacks a label.
            NotAllowed: the caller may not get the target.
            Unavailable: it cannot be read now, or the caller's rights cannot be checked.
        """
        arguments = {"target": str(target)}
        async with self._trail.record(
            "read.target", caller=caller, reference=ContextReference(), arguments=arguments
        ) as record:
            context = await self._targets.context_of(target, caller=caller)
            demands = await self._targets.demands_on(target, caller=caller)
            strict = context.strict_keys | self._strict_keys | STANDARD_KEYS
            namespace = context.target_namespace or None
            reveal = await caller.access.allows(READ_CONSTRAINTS, namespace=namespace)
            hidden = not reveal and any(demand.custom for demand in demands)
            notes = [context.note] if context.note else []
            if hidden:
                notes.append(f"custom labels are not shown: you may not {READ_CONSTRAINTS} there")
            record.result = {"total": len(demands)}
            return TargetAnswer(
                target=str(target),
                demands=[_answer(each, strict=strict) for each in demands if reveal or not each.custom],
                detected_labels=dict(context.detected_labels),
                notes=notes,
            )


def _answer(demand: Demand, *, strict: frozenset[str]) -> DemandAnswer:
    return DemandAnswer(
        name=demand.name if demand.custom else wire_name(demand.name),
        value=demand.value,
        custom=demand.custom,
        strict=demand.custom and demand.name in strict,
        object=str(demand.source),
        label=demand.label,
    )
