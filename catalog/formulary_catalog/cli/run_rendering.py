"""A run as people read it."""

import json
import sys

from formulary_catalog.cli.terminal import Page
from formulary_catalog.domain.answers import InvocationAnswer

_STYLES = {
    "completed": "green",
    "awaiting_approval": "yellow",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "red",
}


def show_run(answer: InvocationAnswer, *, page: Page) -> None:
    """Where the run stands, what came of it and what to do next; a manifest so that it can be copied."""
    page.line(answer.invocation_id, style="bold cyan")
    page.pair("state", f"{answer.state} ({answer.reason})", style=_STYLES.get(answer.state, ""))
    page.pair("why", answer.message)
    page.pair("workflow", f"{answer.workflow_id}@{answer.version}")
    page.pair("namespace", answer.namespace)
    page.pair("dry run", "yes" if answer.dry_run else "")
    page.pair("started", answer.started_at)
    page.pair("took", f"{answer.duration_seconds:g} s" if answer.duration_seconds is not None else "")
    for name, value in answer.output.items():
        page.pair("output", f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    for note in answer.notes:
        page.pair("note", note)
    page.pair("trace", answer.trace_id)
    if answer.manifest:
        import yaml

        page.line()
        page.verbatim(yaml.safe_dump(answer.manifest, sort_keys=False, allow_unicode=True), indent=0)


def show_progress(answer: InvocationAnswer) -> None:
    """One line on standard error for a run that is waited for."""
    Page(sys.stderr).line(f"{answer.invocation_id} is {answer.state}", style="dim")
