"""`formulary trace list` and `show`: which traces there are, and the story of one.

A server and a database answer alike: the same filters, the same table, the same JSON as REST. The owner of a database
also sees what people read, and what tampering left of a trace.
"""

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.audit.source import TrailSource, readable_options
from formulary_catalog.edges.cli.options import json_option

if TYPE_CHECKING:
    from formulary_catalog.domain.reading import TracePage
    from formulary_catalog.operations.arguments.reading import TracesArguments


_WIDE = 100
"""Columns of a terminal from which on all of a trace is listed."""
_OF_A_TIME = slice(len("2026-"), len("2026-11-28 22:39"))


@click.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", help="Maximum number of results; 50 by default."
)
@click.option(
    "--since", default="", metavar="TIME", help="Only those with an event since: 24h, 7d, or 2026-11-22T10:00Z."
)
@click.option("--namespace", default="", metavar="NAME", help="Only those of this namespace.")
@click.option("--remediation-id", default="", metavar="ID", help="Only the trace of this incident.")
@click.option(
    "--outcome", default="", metavar="STATE", help="Only those whose newest run is in this state; none: without a run."
)
@click.option(
    "--of", default="", metavar="all|incidents", help="incidents: leave out what has neither an incident nor a run."
)
@readable_options
@json_option
def list_command(
    *,
    limit: int,
    since: str,
    namespace: str,
    remediation_id: str,
    outcome: str,
    of: str,
    trail: TrailSource,
    as_json: bool,
) -> None:
    """List traces, the last changed first.

    \b
    Examples:
      formulary trace list
      formulary trace list --since 7d --limit 500 --json
      formulary trace list --namespace shop --outcome failed --of incidents
      formulary trace list --url https://formulary.example   # what your token may read
    """
    from formulary_catalog.operations.arguments.reading import TracesArguments

    filters = {"since": since, "namespace": namespace, "remediation_id": remediation_id, "outcome": outcome, "of": of}
    asked = TracesArguments.read(filters)
    found = _served(trail.url, asked, limit=limit) if trail.url else _owned(trail, asked, limit=limit)
    if as_json:
        traces = [trace.as_json() for trace in found.traces]
        click.echo(json.dumps({"traces": traces, "notes": found.notes}, ensure_ascii=False))
    else:
        _show_list(found, asked=asked, limit=limit, served=bool(trail.url))
    if not found.traces:
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
    from formulary_catalog.edges.cli.audit.rendering import show_story
    from formulary_catalog.edges.cli.audit.served import served_trace
    from formulary_catalog.runtime.terminal import Page

    if trail.url:
        answer = served_trace(trail.url, trace_id)
    else:
        from formulary_catalog.edges.cli.audit.listed import owned_trace

        answer = owned_trace(trail, trace_id)
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_story(answer, page=Page(), console_url=trail.settings.console_url)
    if not answer.verification.passed:
        raise SystemExit(1)


def _served(url: str, asked: "TracesArguments", *, limit: int) -> "TracePage":
    from formulary_catalog.edges.cli.audit.served import served_traces

    return served_traces(url, asked, limit=limit)


def _owned(trail: TrailSource, asked: "TracesArguments", *, limit: int) -> "TracePage":
    from formulary_catalog.edges.cli.audit.listed import owned_traces

    return owned_traces(trail, asked, limit=limit)


def _nothing(asked: "TracesArguments", *, served: bool) -> str:
    """Why the list is empty: nobody should read a misspelt incident as one without a run."""
    filters = asked.model_dump(exclude_defaults=True)
    may_read = " that you may read" if served else ""
    if set(filters) == {"remediation_id"}:
        return f"Nothing{may_read} is known of incident {asked.remediation_id!r}; check the id."
    if not filters:
        return f"No trace{may_read} is recorded."
    return f"No trace{may_read} is of this kind; leave out filters to see more."


def _show_list(found: "TracePage", *, asked: "TracesArguments", limit: int, served: bool) -> None:
    from formulary_catalog.edges.cli.audit.rendering import spell_time
    from formulary_catalog.runtime.terminal import Page

    page, traces = Page(), found.traces
    if not traces:
        page.line(_nothing(asked, served=served))
        page.notes(found.notes)
        return
    is_narrow = page.is_terminal and page.width < _WIDE
    header = ("SIGNAL", "TARGET", "OUTCOME", "CHANGED (UTC)", "CALLER", "HELD", "EVENTS", "TRACE")
    rows = [
        (
            trace.signal_name or trace.query or trace.last_event,
            "unknown incident" if trace.is_unknown else trace.target or trace.analysis,
            trace.state or trace.outcome,
            spell_time(datetime.fromisoformat(trace.changed))[_OF_A_TIME if is_narrow else slice(None)],
            trace.caller,
            "yes" if trace.held else "",
            str(trace.events),
            trace.trace_id,
        )
        for trace in traces
    ]
    is_held = any(trace.held for trace in traces)
    shown = [number for number, name in enumerate(header) if name != "HELD" or is_held]
    if is_narrow:
        shown = [number for number in shown if header[number] not in ("CALLER", "EVENTS")]
    narrowed = [tuple(row[number] for number in shown) for row in (header, *rows)]
    page.table(narrowed[0], narrowed[1:], whole=("OUTCOME", "CHANGED (UTC)", "TRACE"))
    if len(traces) == limit:
        page.line(f"the last {limit}; --limit shows more", style="dim")
    page.notes(found.notes)


COMMANDS = (list_command, show_command)
