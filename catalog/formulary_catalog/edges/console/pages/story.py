"""The events of a trace as the page of an incident shows them: in words, their lines by label, and where each leads.

The words are those of `formulary trace show`; the page adds links, which it finds in what was recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from formulary_catalog.domain.audit.chain import TRIAL
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import spell_duration
from formulary_catalog.domain.console_address import CONSOLE_PATH, workflow_address
from formulary_catalog.domain.reading import StoryLine, StoryPassage, TraceAnswer

_MOST_LINKS = 5
"""As many as candidates of a search are named in its passage."""


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
