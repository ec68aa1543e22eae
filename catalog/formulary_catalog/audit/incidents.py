"""Incidents as people read them: what is known of each, and what it demands of a workflow.

An incident is readable by who may use the incidents of its namespace; another one is answered as if it did not exist.
Its custom labels take a right of their own, which agents do not have.
"""

from datetime import UTC

from formulary_catalog.domain.access import READ_CONSTRAINTS, USE_CONTEXTS, Caller
from formulary_catalog.domain.cursor import TimedRow, cursor, moment_of
from formulary_catalog.domain.incidents import RequestContext, same_incident
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.reading import IncidentAnswer, IncidentPage, IncidentSummary
from formulary_catalog.domain.runs.run import trace_id
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import NotFound
from formulary_catalog.search.parts import CatalogParts
from formulary_catalog.search.readable import ReadableNamespaces
from formulary_catalog.store.incidents import IncidentReader, StoredIncident

_MAX_SHOWN = 60
_NO_INCIDENT = ContextReference()


class IncidentReading:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts, *, strict_keys: frozenset[str]) -> None:
        self._trail = parts.trail
        self._reader = IncidentReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self._strict_keys = strict_keys

    async def page(self, *, namespace: str = "", limit: int, after: str = "", caller: Caller) -> IncidentPage:
        """The incidents, those that changed last first; `after` is the cursor of the page before.

        Raises:
            InvalidInput: the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        question = {"incidents": namespace or "*"}
        arguments = {"namespace": namespace} if namespace else {}
        async with self._trail.record(
            "read.incidents", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            before = moment_of(after, question=question)
            namespaces, notes = await self._readable.listed(caller, USE_CONTEXTS, namespace=namespace)
            found = await self._reader.page(namespaces=namespaces, namespace=namespace, before=before, limit=limit + 1)
            shown = found[:limit]
            record.result = {"total": len(shown)}
            last = shown[-1] if len(found) > limit else None
            return IncidentPage(
                incidents=[IncidentSummary(**_summary(each)) for each in shown],
                next_cursor=cursor(_place(last), question=question) if last is not None else "",
                notes=notes,
            )

    async def incident(self, incident: str, *, caller: Caller) -> IncidentAnswer:
        """One incident, by its remediation id or as namespace/name of its AIAnalysis.

        Raises:
            NotFound: there is none that the caller may read.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "read.incident", caller=caller, reference=_NO_INCIDENT, arguments={"incident": incident}
        ) as record:
            namespaces = await self._readable.of(caller, USE_CONTEXTS)
            found = await self._reader.find(incident, namespaces=namespaces) if storable(incident) else []
            if not found:
                raise NotFound(
                    f"no incident {incident[:_MAX_SHOWN]!r} that you may read is known; give the remediation id or "
                    f"namespace/name of an AIAnalysis in whose namespace you may {USE_CONTEXTS}",
                    reference=incident,
                )
            record.result = {"total": len(found)}
            reveal = await caller.access.allows(READ_CONSTRAINTS, namespace=found[0].context.namespace)
            return self._answer(found, reveal=reveal)

    def _answer(self, found: list[StoredIncident], *, reveal: bool) -> IncidentAnswer:
        """`reveal`: whether custom labels may be said."""
        first = found[0].context
        differ = not all(same_incident(first, other.context) for other in found[1:])
        others = ", ".join(_name(other.context) for other in found[1:])
        notes = [f"the same remediation id is on: {others}"] if others else []
        if differ:
            notes.append("they differ in target or constraints, so that calls for this remediation id fail")
        if not reveal:
            notes.append(f"custom labels are not shown: you may not {READ_CONSTRAINTS} in namespace {first.namespace}")
        return IncidentAnswer(
            **_summary(found[0]),
            custom_labels={key: list(values) for key, values in first.custom_labels.items()} if reveal else {},
            strict_keys=sorted(first.strict_keys | self._strict_keys) if reveal else [],
            detected_labels=dict(first.detected_labels),
            trace_id=trace_id(remediation_id=first.remediation_id, fallback=""),
            notes=notes,
        )


def _summary(incident: StoredIncident) -> dict[str, str | bool]:
    context = incident.context
    return {
        "incident": _name(context),
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
        "gone": incident.gone,
    }


def _place(incident: StoredIncident) -> TimedRow:
    return TimedRow(incident.changed_at.astimezone(UTC).isoformat(), _name(incident.context))


def _name(context: RequestContext) -> str:
    return f"{context.namespace}/{context.name}"
