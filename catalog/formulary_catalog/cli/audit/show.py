"""`formulary trace list` and `show`: which traces there are, and the story of one."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.cli.audit.source import TrailSource, read_trace, readable_options
from formulary_catalog.cli.options import json_option
from formulary_catalog.domain.moments import moment_said

if TYPE_CHECKING:
    from formulary_catalog.domain.reading import TraceSummary as ServedSummary
    from formulary_catalog.store.audit.reader import TraceSummary


@click.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", help="At most so many; 50 by default."
)
@click.option(
    "--since", default="", metavar="TIME", help="Only those with an event since: 24h, 7d, or 2026-11-22T10:00Z."
)
@readable_options
@json_option
def list_command(*, limit: int, since: str, trail: TrailSource, as_json: bool) -> None:
    """List traces, those that changed last first.

    \b
    Examples:
      formulary trace list
      formulary trace list --since 7d --limit 500 --json
      formulary trace list --url https://formulary.example   # what your token may read
    """
    if trail.url:
        _list_served(trail.url, since=since, limit=limit, as_json=as_json)
        return
    after = moment_said(since, now=datetime.now(UTC), name="--since") if since else None
    found = trail.ask(lambda reader: reader.summaries(limit=limit, since=after))
    if as_json:
        click.echo(json.dumps({"traces": [_summary(trace) for trace in found]}, ensure_ascii=False))
    else:
        _show_list(found, limit=limit)
    if not found:
        raise SystemExit(1)


@click.command("show")
@click.argument("trace_id", metavar="TRACE|REMEDIATION_ID")
@readable_options
@json_option
def show_command(*, trace_id: str, trail: TrailSource, as_json: bool) -> None:
    """Show the story of a trace.

    From the first search to the outcome: what was found and chosen and why, what governance decided, who approved,
    how the run went. Exit code 1 if the trace is not as it was written.

    \b
    Examples:
      formulary trace show rr-2026-0042
      formulary trace show tr_5f0c9a1e77d24b0f9b1c --json
    """
    from formulary_catalog.cli.audit.rendering import show_story
    from formulary_catalog.domain.audit.export import discrepancies, event_line, replay_report
    from formulary_catalog.domain.audit.narration import narrate
    from formulary_catalog.runtime.terminal import Page

    if trail.url:
        _show_served(trail.url, trace_id, as_json=as_json, console_url=trail.settings.console_url)
        return
    events, replay = trail.ask(lambda reader: read_trace(reader, trace_id, settings=trail.settings))
    if as_json:
        shown = {
            "trace_id": trace_id,
            "replay": replay_report(replay),
            "discrepancies": discrepancies(replay),
            "events": [json.loads(event_line(event)) for event in events],
        }
        click.echo(json.dumps(shown))
    else:
        show_story(
            narrate(trace_id, events),
            findings=replay.findings,
            page=Page(),
            console_url=trail.settings.console_url,
        )
    if not replay.passed:
        raise SystemExit(1)


def _list_served(url: str, *, since: str, limit: int, as_json: bool) -> None:
    from formulary_catalog.cli.audit.served import served_traces

    traces = served_traces(url, since=since, limit=limit)
    if as_json:
        click.echo(json.dumps({"traces": [trace.as_json() for trace in traces]}, ensure_ascii=False))
    else:
        _show_served_list(traces, limit=limit)
    if not traces:
        raise SystemExit(1)


def _show_served_list(traces: "list[ServedSummary]", *, limit: int) -> None:
    from formulary_catalog.cli.audit.rendering import spell_time
    from formulary_catalog.runtime.terminal import Page

    page = Page()
    if not traces:
        page.line("No trace that you may read has an event in that time.")
        return
    header = ("TRACE", "CHANGED (UTC)", "EVENTS", "OUTCOME", "INCIDENT", "HELD", "CALLER")
    rows = [
        (
            trace.trace_id,
            spell_time(datetime.fromisoformat(trace.changed)),
            str(trace.events),
            trace.outcome,
            trace.analysis,
            "yes" if trace.held else "",
            trace.caller,
        )
        for trace in traces
    ]
    page.table(header, rows)
    if len(traces) == limit:
        page.line(f"the last {limit}; --limit shows more", style="dim")


def _show_served(url: str, trace_id: str, *, as_json: bool, console_url: str) -> None:
    from formulary_catalog.cli.audit.rendering import show_story
    from formulary_catalog.cli.audit.served import findings_of, served_trace, story_of
    from formulary_catalog.runtime.terminal import Page

    answer = served_trace(url, trace_id)
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_story(story_of(answer), findings=findings_of(answer), page=Page(), console_url=console_url)
    if not answer.verification.passed:
        raise SystemExit(1)


def _show_list(found: "list[TraceSummary]", *, limit: int) -> None:
    from formulary_catalog.cli.audit.rendering import spell_time
    from formulary_catalog.runtime.terminal import Page

    page = Page()
    if not found:
        page.line("No trace has an event in that time.")
        return
    header = ("TRACE", "BEGAN (UTC)", "LAST EVENT (UTC)", "EVENTS", "LAST", "HELD", "CALLER")
    rows = [
        (
            trace.trace_id,
            spell_time(trace.began),
            spell_time(trace.changed),
            str(trace.events),
            trace.last_kind,
            "yes" if trace.held else "",
            trace.caller,
        )
        for trace in found
    ]
    page.table(header, rows)
    if len(found) == limit:
        page.line(f"the last {limit}; --limit shows more", style="dim")


def _summary(trace: "TraceSummary") -> dict[str, Any]:
    return {
        "trace_id": trace.trace_id,
        "began": trace.began.isoformat(),
        "changed": trace.changed.isoformat(),
        "events": trace.events,
        "checkpointed": trace.checkpointed,
        "caller": trace.caller,
        "first_kind": trace.first_kind,
        "last_kind": trace.last_kind,
        "held": trace.held,
    }


COMMANDS = (list_command, show_command)
