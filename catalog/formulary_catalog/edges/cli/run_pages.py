"""Runs as people read them on a terminal: one that was asked for, and those that wait for a person."""

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.audit.wording import spell_duration
from formulary_catalog.domain.console_address import waiting_link
from formulary_catalog.domain.yaml_text import manifest_text
from formulary_catalog.errors import NotFound
from formulary_catalog.runtime.terminal import Page, counted

if TYPE_CHECKING:  # commands that show no run would wait for what it imports
    from formulary_catalog.domain.reading import WaitingRun, WaitingRunList

RISK_STYLES = {"low": "green", "medium": "yellow", "high": "red"}
"""Colours of risk levels; pages of workflows use them as well."""
_STYLES = {
    "completed": "green",
    "awaiting_approval": "yellow",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "red",
    "halted": "red",
}

_OUTCOME_STYLES = {"Helped": "green", "NotHelped": "red", "Relapsed": "red"}


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
    page.pair("outcome", answer.outcome, style=_OUTCOME_STYLES.get(answer.outcome, ""))
    page.pair("seen", answer.feedback)
    for name, value in answer.output.items():
        page.pair("output", f"{name}: {_shown(value)}")
    for note in answer.notes:
        page.pair("note", note)
    page.pair("trace", answer.trace_id)
    if answer.manifest:
        page.line()
        page.line("What a real run would create:", style="bold")
        page.verbatim(manifest_text(answer.manifest), indent=0)


def show_manifest(answer: InvocationAnswer, *, page: Page) -> None:
    """The manifest of a dry run and nothing else.

    Raises:
        NotFound: the run has none.
    """
    if not answer.manifest:
        raise NotFound(
            f"run {answer.invocation_id} is {answer.state} and has no manifest; a dry run that is allowed has one",
            reference=answer.invocation_id,
        )
    page.verbatim(manifest_text(answer.manifest), indent=0)


def show_waiting(answer: "WaitingRunList", *, now: datetime, page: Page, console_url: str = "") -> None:
    """Each run that waits, with what a person has to judge; `now` says how long it still waits."""
    if not answer.approvals:
        page.line("No run waits that you may read.")
        page.notes(answer.notes)
        return
    shown, total = len(answer.approvals), answer.total
    page.line(
        f"{f'{shown} of ' if shown < total else ''}{counted(total, 'run')} waiting, the oldest first", style="bold"
    )
    for run in answer.approvals:
        page.line()
        page.line(run.title or run.workflow_id, style="bold cyan")
        if run.choice is not None:
            page.pair("alert", " ".join(filter(None, (run.choice.signal_name, run.choice.severity))))
        page.pair("target", f"{run.target or run.namespace} (runs in {run.namespace})")
        page.pair("proposed", run.purpose)
        page.pair("workflow", f"{run.workflow_id}@{run.version}")
        if run.choice is not None:
            page.pair("because", run.choice.reasoning)
            page.pair("", f"so says {run.choice.chosen_by}" if run.choice.reasoning else "")
        page.pair("risk", run.risk, style=RISK_STYLES.get(run.risk, ""))
        for risk in run.risks:
            page.pair("", risk)
        page.pair("why", run.reason, style="yellow")
        for reason in (*run.why, *run.rules):
            page.pair("", reason)
        page.pair("run", run.invocation_id)
        page.pair("requester", run.requester)
        left = (datetime.fromisoformat(run.waits_until) - now).total_seconds()
        page.pair("time left", spell_duration(left))
        _show_content(run, page=page)
        page.pair("trace", run.trace_id)
        page.pair("console", waiting_link(console_url, run.invocation_id))
        page.pair("note", "" if run.may_approve else f"you may not create invocationapprovals in {run.namespace}")
    for note in answer.notes:
        page.line()
        page.pair("note", note)


def _show_content(answer: "InvocationAnswer | WaitingRun", *, page: Page) -> None:
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
        page.pair("parameter", f"{name}: {_shown(value)}")
    for step in content.get("steps", ()):
        page.pair("step", f"{step['name']}: {step['command']}")
    page.pair("problem", content.get("problem", ""))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def show_progress(answer: InvocationAnswer) -> None:
    """One line on standard error for a run that is waited for."""
    Page(sys.stderr).line(f"{answer.invocation_id} is {answer.state}", style="dim")
