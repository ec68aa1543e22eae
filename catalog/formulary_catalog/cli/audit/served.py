"""The audit trail behind a running server, as far as the owner of FORMULARY_TOKEN may read it; without a database."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

from formulary_catalog.cli.http_client import Remote, connected
from formulary_catalog.cli.options import settings_of
from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem
from formulary_catalog.domain.audit.narration import Passage, Story
from formulary_catalog.domain.audit.wording import Description, Line, Tone
from formulary_catalog.domain.reading import TraceAnswer, TracePage, TraceSummary

_SECONDS = 20.0
_PAGE = 200
_T = TypeVar("_T")


def served_traces(url: str, *, since: str, limit: int) -> list[TraceSummary]:
    """The traces that changed last, since a time if one is given.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """

    async def read(server: Remote) -> list[TraceSummary]:
        found: list[TraceSummary] = []
        cursor = ""
        while len(found) < limit:
            asked = {"limit": min(limit - len(found), _PAGE), "since": since, "cursor": cursor}
            given = {name: value for name, value in asked.items() if value}
            page = await server.answer(TracePage, "GET", "/traces", params=given)
            found += page.traces
            if not (cursor := page.next_cursor):
                break
        return found

    return _asked(url, read)


def served_trace(url: str, trace_id: str) -> TraceAnswer:
    """One trace.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """
    path = f"/traces/{quote(trace_id, safe='')}"
    return _asked(url, lambda server: server.answer(TraceAnswer, "GET", path))


def story_of(answer: TraceAnswer) -> Story:
    """The story as the server answered it."""
    story = answer.story
    return Story(
        trace_id=answer.trace_id,
        outcomes=tuple(Description(title=each.title, tone=Tone(each.tone)) for each in story.outcomes),
        began=datetime.fromisoformat(story.began),
        took=story.took,
        analysis=story.analysis,
        passages=tuple(
            Passage(
                seq=each.seq,
                at=datetime.fromisoformat(each.at),
                elapsed=each.elapsed,
                caller=each.caller,
                description=Description(
                    title=each.title,
                    tone=Tone(each.tone),
                    lines=tuple(Line(label=line.label, text=line.text, tone=Tone(line.tone)) for line in each.lines),
                ),
            )
            for each in story.passages
        ),
    )


def findings_of(answer: TraceAnswer) -> list[IntegrityFinding]:
    """What the server found that is not as it was recorded."""
    return [
        IntegrityFinding(
            problem=Problem(each.problem),
            message=each.message,
            trace_id=each.trace_id,
            seq=each.first,
            last=each.last,
        )
        for each in answer.verification.findings
    ]


def _asked(url: str, question: Callable[[Remote], Awaitable[_T]]) -> _T:
    async def asked() -> _T:
        async with connected(url, token=settings_of().token, seconds=_SECONDS) as server:
            return await question(server)

    return asyncio.run(asked())
