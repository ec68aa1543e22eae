"""A trace's story as people read it on a terminal."""

from collections.abc import Sequence
from datetime import date, datetime

from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem
from formulary_catalog.domain.audit.wording import Tone, spell_duration
from formulary_catalog.domain.console_address import incident_link
from formulary_catalog.domain.reading import StoryPassage, TraceAnswer, TraceFinding
from formulary_catalog.runtime.terminal import Page, counted

_STYLES: dict[str, str] = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.WAITING: "yellow", Tone.BAD: "red"}
_ELAPSED_WIDTH = 14


def show_story(answer: TraceAnswer, *, page: Page, console_url: str = "") -> None:
    """The outcome first, then what verification says, then every event in order."""
    story, findings = answer.story, [_finding(each) for each in answer.verification.findings]
    began = datetime.fromisoformat(story.began)
    page.line(f"Trace {answer.trace_id}", style="bold cyan")
    for outcome in story.outcomes:
        page.pair("outcome", outcome.title, style=_STYLES[outcome.tone])
    page.pair("began", f"{spell_time(began)} UTC")
    page.pair("took", spell_duration(story.took))
    page.pair("incident", story.analysis)
    if findings:
        page.pair("chain", "BROKEN: the trace is not as it was recorded", style="bold red")
        for finding in findings:
            page.pair("", spell_finding(finding), style="red")
    else:
        page.pair("chain", f"{counted(len(story.passages), 'event')}, unbroken", style="green")
    page.pair("console", incident_link(console_url, answer.trace_id))
    day = began.date()
    for passage in story.passages:
        at = datetime.fromisoformat(passage.at)
        page.line()
        day = _show_day(at.date(), after=day, page=page)
        here = [each for each in findings if each.seq <= passage.seq <= max(each.seq, each.last) and each.trace_id]
        _show_passage(passage, at=at, findings=here, page=page)


def spell_finding(finding: IntegrityFinding) -> str:
    """`events 3 to 5, missing: …`."""
    return f"{', '.join(part for part in (finding.place, finding.problem) if part)}: {finding.message}"


def spell_time(at: datetime) -> str:
    """Date and time to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


def _finding(found: TraceFinding) -> IntegrityFinding:
    return IntegrityFinding(
        problem=Problem(found.problem), message=found.message, trace_id=found.trace_id, seq=found.first, last=found.last
    )


def _show_day(day: date, *, after: date, page: Page) -> date:
    """A line where a new day has begun."""
    if day != after:
        page.line(day.isoformat(), style="bold")
    return day


def _show_passage(passage: StoryPassage, *, at: datetime, findings: Sequence[IntegrityFinding], page: Page) -> None:
    elapsed = f"+{spell_duration(passage.elapsed)}".ljust(_ELAPSED_WIDTH)
    page.line(f"{at:%H:%M:%S}  {elapsed}{passage.title}", style=f"bold {_STYLES[passage.tone]}".strip())
    for finding in findings:
        page.pair("NOT AS RECORDED", finding.message, indent=4, style="bold red")
    page.pair("by", passage.caller, indent=4)
    above = ""
    for line in passage.lines:
        page.pair(line.label if line.label != above else "", line.text, indent=4, style=_STYLES[line.tone])
        above = line.label
