"""A search as the trail recorded it, with the incident that was sealed beside it: to be explained, or done again.

`service` and `ranking` beside it call it. A search that the caller may not read is answered as one that does not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.audit.chain import StoredEvent
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.runs.run import trace_id as chain_of
from formulary_catalog.domain.search.explanation.answers import RecordedAnswer, RecordedCandidate
from formulary_catalog.domain.search.request import SearchRequest, search_request
from formulary_catalog.domain.workflows.labels import DIMENSIONS, wire_name
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.kernel.readable import may_in_all
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.listing import TraceLister
from formulary_catalog.store.audit.sealed import SealedReader
from formulary_catalog.store.database.connection import Database

_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSearch:
    """What was asked, by whom and for which incident; `candidates` are those of its event, in order.

    `event` is all that was recorded.
    """

    trace_id: str
    search_id: UUID
    caller: str
    request: SearchRequest
    incident: RequestContext | None = field(repr=False)
    own_embedding: bool
    candidates: tuple[Recorded, ...] = field(repr=False)
    at: datetime
    event: Recorded = field(repr=False)


class RecordedSearches:
    """Reads them under the rights of the caller: those on the incidents of the trace, or a search of its own."""

    def __init__(self, database: Database, *, traces: TraceStore) -> None:
        self._lister = TraceLister(database)
        self._sealed = SealedReader(database)
        self._traces = traces

    async def find(self, search_id: str, *, caller: Caller) -> RecordedSearch:
        """The search of this id.

        Raises:
            NotFound: there is none that the caller may read.
            InvalidInput: it cannot be done again: it was refused, or what was sealed with it was changed.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        known = _uuid(search_id)
        trace_id = (await self._lister.trace_of_search(known) or _of_trial(known)) if known is not None else ""
        namespaces = await self._lister.namespaces(trace_id)
        # An unknown search costs a check as well: a check that fails or takes time must not show which ones exist.
        readable = await may_in_all(caller, USE_CONTEXTS, namespaces)
        event = await self._traces.search(trace_id, search_id=known) if known is not None else None
        if known is None or event is None or not (readable or _is_own(event, caller=caller)):
            raise NotFound(
                f"no search {search_id[:_MAX_SHOWN]!r} that you may read is recorded; give the id of a search "
                f"of your own, or for an incident in whose namespace you may {USE_CONTEXTS}",
                reference=search_id,
            )
        return await self._read(event, trace_id=trace_id, search_id=known, namespaces=namespaces)

    async def _read(
        self, event: StoredEvent, *, trace_id: str, search_id: UUID, namespaces: list[str]
    ) -> RecordedSearch:
        payload = Recorded(event.payload)
        arguments = payload.inner("arguments").as_dict()
        return RecordedSearch(
            trace_id=trace_id,
            search_id=search_id,
            caller=payload.text("caller"),
            request=_request(arguments),
            incident=await self._incident(payload.text("sealed"), trace_id=trace_id, namespaces=namespaces),
            own_embedding=arguments.get("own_embedding") is True,
            candidates=tuple(payload.inner("result").each("candidates")),
            at=event.at,
            event=payload,
        )

    async def _incident(self, digest: str, *, trace_id: str, namespaces: list[str]) -> RequestContext | None:
        if not digest:
            return None
        copies = await self._sealed.copies(trace_id, namespaces=namespaces)
        incident = next((copy.incident for copy in copies if copy.digest == digest), None)
        if incident is None:
            raise InvalidInput(
                "the constraints that were sealed with this search are gone or were changed, so that it cannot be "
                "replayed; give its query and its incident instead",
                field="search_id",
            )
        return incident


def _of_trial(search_id: UUID) -> str:
    """The trace of its own that a try has, if it is one."""
    return chain_of(search_id=search_id, fallback="")


def recorded_answer(found: RecordedSearch, *, reveal: bool) -> RecordedAnswer:
    """The search in the form in which it is shown. `reveal`: whether custom labels of the incident may be said."""
    request, applied = found.request, found.event.inner("constraints")
    incident = found.incident
    return RecordedAnswer(
        search_id=str(found.search_id),
        trace_id=found.trace_id,
        at=moment(found.at),
        caller=found.caller,
        query=request.query,
        labels={wire_name(name): list(values) for name, values in request.labels.items()},
        exclude_keywords=list(request.exclude_keywords),
        detected_labels=dict(request.detected_labels),
        incident=found.event.text("analysis"),
        remediation_id=found.event.text("remediation_id"),
        demanded=dict(applied.inner("incident").pairs())
        | dict(incident.detected_labels if incident is not None else {}),
        custom_labels={key: list(values) for key, values in incident.custom_labels.items()}
        if incident is not None and reveal
        else {},
        inferred=dict(applied.inner("inferred").pairs()),
        search_mode=found.event.text("mode"),
        total_results=int(found.event.inner("result").number("total") or 0),
        candidates=[_candidate(each, rank=rank) for rank, each in enumerate(found.candidates, start=1)],
        notes=applied.texts("notes"),
    )


def _candidate(candidate: Recorded, *, rank: int) -> RecordedCandidate:
    return RecordedCandidate(
        rank=rank,
        score=candidate.number("score"),
        confidence=candidate.number("confidence"),
        returned=candidate.flag("returned"),
        workflow=candidate.text("workflow"),
        version_id=candidate.text("version_id"),
        cosine=candidate.number("cosine"),
        match_reasons=candidate.texts("match_reasons"),
    )


def _is_own(event: StoredEvent, *, caller: Caller) -> bool:
    """Whether it is a search of the caller's without an incident; one with an incident takes the right to incidents."""
    payload = Recorded(event.payload)
    return payload.text("caller") == caller.name and not payload.text("sealed") and not payload.text("analysis")


def _request(arguments: Mapping[str, Any]) -> SearchRequest:
    """The request that the arguments of an event came from. Its page is as it was, whatever the answer could carry."""
    labels = {name.replace("-", "_"): values for name, values in arguments.get("labels", {}).items()}
    return search_request(
        query=arguments.get("query", ""),
        labels={name: values for name, values in labels.items() if name in DIMENSIONS},
        exclude_keywords=arguments.get("exclude_keywords", ()),
        action_type=arguments.get("action_type", ""),
        namespace=arguments.get("namespace", ""),
        keywords=arguments.get("keywords", ()),
        min_confidence=arguments.get("min_confidence", 0.0),
        top_k=arguments.get("top_k"),
        detected_labels=arguments.get("detected_labels"),
    )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
