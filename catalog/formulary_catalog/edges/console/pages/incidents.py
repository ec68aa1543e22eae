"""What happened: the incidents by their traces, the story of one, and its files.

The story is the one of `formulary trace show`, the files are those of `formulary trace export`; both are what the
visitor's own rights allow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.audit.chain import OWN_TRACE, TRIAL
from formulary_catalog.domain.audit.export import FileName, directory_name
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import spell_duration
from formulary_catalog.domain.console_address import CONSOLE_PATH, incident_address, workflow_address
from formulary_catalog.domain.reading import IncidentAnswer, StoryLine, StoryPassage, TraceAnswer
from formulary_catalog.domain.runs.run import DRY_RUN, NO_RUN, OUTCOMES, REFUSED
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.edges.console.pages.waiting import DECIDING
from formulary_catalog.edges.console.route import ConsoleRoute, answer_to
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import checked_call, services_of
from formulary_catalog.errors import NotFound
from formulary_catalog.operations.arguments.base import OneOf
from formulary_catalog.operations.arguments.reading import TraceArguments, TracesArguments
from formulary_catalog.operations.audit import TRACES

router = APIRouter(route_class=ConsoleRoute)

SINCE = {"": "any time", "1h": "the last hour", "24h": "the last day", "7d": "the last week", "30d": "the last month"}
_OUTCOMES = {each: "no run" if each == NO_RUN else each.replace("_", " ") for each in OUTCOMES}
"""What a trace may have come to, in words."""
_VERIFIED = {"helped": "helped", "not_helped": "did not help", "relapsed": "relapsed"}
_STATES = {**_OUTCOMES, "completed": "run ended", **_VERIFIED, DRY_RUN: "dry run only", REFUSED: "refused"}
"""What became of it. That a run ended well does not say that it helped."""
_TONES = {
    **dict.fromkeys(("completed", "helped"), "good"),
    **dict.fromkeys(("failed", "timed_out", "cancelled", "halted", "not_helped", "relapsed", REFUSED), "bad"),
    **dict.fromkeys((NO_RUN, DRY_RUN), "plain"),
}
SHOWN_STATES: dict[str, Any] = {"states": _STATES, "tones": _TONES}
"""What every page needs that lists incidents."""
_OF = {"incidents": "incidents and runs", "all": "all, including searches without an incident"}
_DAYS = 30
_EVENTS = 50
"""Events on one page."""
_CARDS = 10
"""Runs that wait, of one incident."""
_FILES: dict[FileName, str] = {
    "verdict.md": "text/markdown; charset=utf-8",
    "verdict.json": "application/json",
    "events.ndjson": "application/x-ndjson",
    "replay.json": "application/json",
    "diff.json": "application/json",
}
"""What can be taken away, the story for people first."""
_MOST_LINKS = 5
"""As many as candidates of a search are named in its passage."""


class IncidentsShown(TracesArguments):
    """Which are on the page: without what people asked for no incident, unless they want to see that."""

    of: Annotated[Literal["all", "incidents", "open"], OneOf()] = Field(  # type: ignore[assignment]  # the page has one more than the list of traces
        "incidents", description="all: what belongs to no incident, too. open: what is not over, asked about or not."
    )


@router.get(f"{CONSOLE_PATH}/incidents")
async def incidents(request: Request) -> Response:
    """Those whose traces changed last."""
    _, asked = await checked_call(request, "read.traces", IncidentsShown)
    if asked.of == "open":
        found = await services_of(request).incidents.page(
            namespace=asked.namespace,
            only_open=True,
            limit=asked.limit,
            after=asked.cursor,
            caller=visitor_of(request).caller,
        )
        return render(request, "incidents_open.html", title="Open incidents", found=found, **SHOWN_STATES)
    page = await answer_to(request, TRACES, arguments=asked)
    filtered = bool(asked.since or asked.namespace or asked.remediation_id or asked.outcome)
    is_first = not (filtered or asked.cursor)
    runs = services_of(request).runs
    ended = await runs.outcomes(days=_DAYS, caller=visitor_of(request).caller) if is_first else None
    return render(
        request,
        "incidents.html",
        title="Incidents",
        page=page,
        asked=asked,
        outcomes=_OUTCOMES,
        kinds=_OF,
        since=SINCE if asked.since in SINCE else {**SINCE, asked.since: asked.since},
        filtered=filtered,
        own=OWN_TRACE,
        ended=ended,
        altered=(),
        **SHOWN_STATES,
    )


@router.get(f"{CONSOLE_PATH}/incidents/{{trace_id:path}}")
async def incident(request: Request, trace_id: str) -> Response:
    """The story of one, what it demands, and whether its record is as it was written."""
    _, asked = await checked_call(request, "read.trace", TraceArguments)
    caller = visitor_of(request).caller
    try:
        trace = await services_of(request).traces.story(
            asked.trace_id, limit=min(asked.limit, _EVENTS), after=asked.cursor, caller=caller
        )
    except NotFound:
        # Nobody may have asked about it yet: a person who comes from its notification needs no agent.
        known = await services_of(request).incidents.incident(asked.trace_id, caller=caller)
        if known.trace_id not in ("", asked.trace_id):  # it was named by its object
            return RedirectResponse(incident_address(known.trace_id), status_code=303)
        return render(request, "incident_alert.html", title=asked.trace_id, demands=known)
    demands = await _demands(request, trace, caller=caller)
    waiting = await services_of(request).runs.waiting(trace_id=asked.trace_id, limit=_CARDS, caller=caller)
    return render(
        request,
        "incident.html",
        title=trace.trace_id,
        trace=trace,
        events=story_events(trace),
        took=spell_duration(trace.story.took),
        demands=demands,
        runs=waiting.approvals,
        decided="",
        is_known=demands is not None or trace.trace_id.startswith(OWN_TRACE),
        files=_FILES,
        file_href=lambda name: f"{CONSOLE_PATH}/files/{name}?{urlencode({'trace_id': trace.trace_id})}",
        **DECIDING,
    )


@router.get(f"{CONSOLE_PATH}/files/{{name}}")
async def file(request: Request, name: str) -> Response:
    """A file of the trace, as the command writes it."""
    if (known := next((each for each in _FILES if each == name), None)) is None:
        raise NotFound(f"there is no file {name[:60]!r} of a trace; take one of {', '.join(_FILES)}", reference=name)
    trace_id = request.query_params.get("trace_id", "")[:MAX_LABEL_LENGTH]
    exported = await services_of(request).traces.files(trace_id, caller=visitor_of(request).caller)
    saved = f"{directory_name(trace_id)}-{name}"
    return Response(
        exported.files[known].encode(),
        media_type=_FILES[known],
        headers={"Content-Disposition": f'attachment; filename="{saved}"'},
    )


async def _demands(request: Request, trace: TraceAnswer, *, caller: Caller) -> IncidentAnswer | None:
    """The incident, as far as it is still known and the visitor may use it: its custom labels are for nobody else."""
    named = trace.story.analysis or trace.trace_id
    if named.startswith(OWN_TRACE):
        return None
    try:
        found = await services_of(request).incidents.incident(named, caller=caller)
    except NotFound:
        return None
    # A call may have claimed another incident than the one whose trace it is in.
    return found if found.namespace in trace.namespaces else None


@dataclass(frozen=True, slots=True)
class Link:
    """Where to read more."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Lines of a passage under one label."""

    label: str
    lines: tuple[StoryLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """An event as it is shown. `damage` is what verification says of it."""

    passage: StoryPassage
    elapsed: str
    facts: tuple[Fact, ...]
    links: tuple[Link, ...]
    damage: tuple[str, ...]


def story_events(answer: TraceAnswer) -> list[StoryEvent]:
    """The events of the page, in their order."""
    recorded = {event.get("seq"): event for event in answer.events}
    return [
        StoryEvent(
            passage=passage,
            elapsed=f"+{spell_duration(passage.elapsed)}",
            facts=tuple(_facts(passage.lines)),
            links=tuple(_links(recorded.get(passage.seq, {}))),
            damage=tuple(
                finding.message
                for finding in answer.verification.findings
                if finding.trace_id and finding.first <= passage.seq <= finding.last
            ),
        )
        for passage in answer.story.passages
    ]


def _kind(event: Mapping[str, Any]) -> str:
    return Recorded(event).text("kind")


def _facts(lines: Sequence[StoryLine]) -> Iterator[Fact]:
    """Lines by their labels; one without continues the one before."""
    label = ""
    labelled = []
    for line in lines:
        label = line.label or label
        labelled.append((label, line))
    for label, group in groupby(labelled, key=lambda each: each[0]):
        yield Fact(label, tuple(line for _, line in group))


def _links(event: Mapping[str, Any]) -> Iterator[Link]:
    kind, payload = _kind(event), Recorded(event).inner("payload")
    result = payload.inner("result")
    if kind in ("search", TRIAL):
        if search_id := payload.text("search_id"):
            query = urlencode({"search_id": search_id})
            yield Link("Why these, and why not another", f"{CONSOLE_PATH}/search?{query}")
        for candidate in result.each("candidates")[:_MOST_LINKS]:
            if version_id := candidate.text("version_id"):
                yield Link(candidate.text("workflow") or version_id, workflow_address(version_id))
    elif version_id := (payload.text("version_id") or result.text("version_id")):
        yield Link("The workflow", workflow_address(version_id))
    if kind == "invocation.decided" and payload.text("phase") == "AwaitingApproval":
        yield Link("What waits now", f"{CONSOLE_PATH}/waiting")
