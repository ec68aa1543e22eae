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
    "halted": "red",
}


def show_run(answer: InvocationAnswer, *, page: Page) -> None:
    """Where the run stands, what came of it and what to do next; a manifest so that it can be copied."""
    page.line(answer.invocation_id, style="bold cyan")
    page.pair("state", f"{answer.state} ({answer.reason})", style=_STYLES.get(answer.state, ""))
    page.pair("why", answer.message)
    page.pair("workflow", f"{answer.workflow_id}@{answer.version}")
    page.pair("namespace", answer.namespace)
    page.pair("requester", answer.requester)
    _show_content(answer, page=page)
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


def _show_content(answer: InvocationAnswer, *, page: Page) -> None:
    """What somebody who may approve it has to judge."""
    content = answer.content
    if not content:
        return
    page.pair("version id", answer.version_id)
    page.pair("digest", content.get("digest", ""))
    page.pair("images", ", ".join(content.get("images", ())))
    page.pair("account", content.get("serviceAccount", ""))
    page.pair("secrets", ", ".join(content.get("secrets", ())))
    page.pair("config maps", ", ".join(content.get("configMaps", ())))
    for name, value in content.get("parameters", {}).items():
        page.pair("parameter", f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    for step in content.get("steps", ()):
        page.pair("step", f"{step['name']}: {step['command']}")
    page.pair("problem", content.get("problem", ""))


def show_progress(answer: InvocationAnswer) -> None:
    """One line on standard error for a run that is waited for."""
    Page(sys.stderr).line(f"{answer.invocation_id} is {answer.state}", style="dim")
