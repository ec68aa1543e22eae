"""Answers of the catalog as people read them."""

import json
from collections.abc import Sequence
from typing import Any

from formulary_catalog.domain.answers.browsing import SectionAnswer
from formulary_catalog.domain.answers.catalog import (
    SearchAnswer,
    SearchMode,
    WorkflowDetails,
    WorkflowHit,
    WorkflowList,
    WorkflowSummary,
)
from formulary_catalog.domain.stored import success_text
from formulary_catalog.domain.text import shortened
from formulary_catalog.edges.cli.options import settings_of
from formulary_catalog.edges.cli.run_pages import RISK_STYLES
from formulary_catalog.edges.cli.wording import notes_as_typed
from formulary_catalog.runtime.terminal import Page, counted

_BAR = 10
_GAP = "  "
_LONGEST_QUERY = 120
"""Characters of it that are shown: of what was pasted, a reader needs the beginning."""


def show_search(answer: SearchAnswer, page: Page, *, query: str) -> None:
    """The results in their order, each with why it is there and what to do next."""
    query = shortened(query, limit=_LONGEST_QUERY)
    if not answer.workflows:
        page.paragraph(f"No workflow is allowed and fits {query!r}.", style="bold")
    else:
        shown, total = len(answer.workflows), answer.total_results
        part = f"{shown} of " if shown < total else ""
        page.paragraph(f"{part}{counted(total, 'workflow')} for {query!r}, the best first", style="bold")
    if answer.search_mode != SearchMode.HYBRID:
        page.pair("mode", answer.search_mode, style="yellow")
    for note in notes_as_typed(answer.notes):
        page.pair("note", note)
    for rank, hit in enumerate(answer.workflows, start=1):
        page.line()
        _show_hit(hit, rank=rank, name=_named(hit, among=answer.workflows), page=page)


def show_details(details: WorkflowDetails, page: Page) -> None:
    """Everything needed to judge and run a workflow; commands are printed so that they can be copied."""
    page.line(f"{details.namespace}/{details.workflow_id}@{details.version}", style="bold cyan")
    page.paragraph(details.title, style="bold")
    page.line()
    page.paragraph(details.description)
    page.line()
    page.pair("use when", details.when_to_use)
    page.pair("not when", details.when_not_to_use)
    page.pair("check before", details.preconditions)
    page.pair("needs", "; ".join(details.prerequisites))
    page.pair("signals", ", ".join(details.signal_types))
    for label, values in details.labels.items():
        page.pair(label, ", ".join(values))
    page.pair("risk", details.risk_level, style=RISK_STYLES.get(details.risk_level, ""))
    page.pair("takes", details.estimated_duration)
    page.pair("success", _success(details))
    page.pair("action", details.action_type)
    page.pair("related", ", ".join(f"{link['name']} ({link['relation']})" for link in details.related))
    page.pair("status", f"{details.status}, {details.version_id}")
    others = [f"{line.version} ({line.status})" for line in details.versions if line.version_id != details.version_id]
    page.pair("versions", ", ".join(others))
    page.notes(details.notes)
    _show_parameters(details.parameters, page=page)
    _show_steps("Steps", details.steps, page=page)
    _show_steps("Rollback", details.rollback_steps, page=page)


def show_section(section: SectionAnswer, page: Page) -> None:
    """The text, or the items one below the other."""
    page.line(section.uri, style="bold cyan")
    page.paragraph(section.text)
    for item in section.items:
        for name, value in item.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if name == "command":
                page.verbatim(text, indent=2, style="green")
            else:
                page.pair(name, text)
    page.notes(section.notes)


def show_list(listing: WorkflowList, page: Page) -> None:
    """One line a workflow; cut to the width of a terminal, whole where a program reads it."""
    if not listing.workflows:
        page.line("No workflow matches. `formulary list` shows all that you may see.")
        page.notes(notes_as_typed(listing.notes))
        return
    header = ("NAME", "TITLE", "SIGNALS", "RISK", "VERSION")
    rows = [
        (
            _named(workflow, among=listing.workflows),
            workflow.title,
            ",".join(workflow.signal_types) or "any",
            workflow.risk_level,
            workflow.version,
        )
        for workflow in listing.workflows
    ]
    page.table(header, rows, whole=("NAME", "RISK", "VERSION"))
    shown = len(listing.workflows)
    if shown < listing.total:
        page.pair("shown", f"{shown} of {counted(listing.total, 'workflow')}; without --limit all are listed")
    page.notes(notes_as_typed(listing.notes))


def _show_hit(hit: WorkflowHit, *, rank: int, name: str, page: Page) -> None:
    page.line(f"{rank:>2}  {name}@{hit.version}", style="bold cyan")
    page.paragraph(hit.title, indent=4)
    bar = _GAP + ("█" * round(hit.confidence * _BAR)).ljust(_BAR, "░") if page.is_terminal else ""
    page.pair("confidence", f"{hit.confidence:.2f}{bar}", indent=4)
    page.pair("risk", hit.risk_level, indent=4, style=RISK_STYLES.get(hit.risk_level, ""))
    page.pair("takes", hit.estimated_duration, indent=4)
    page.pair("success", _success(hit), indent=4)
    page.pair("why", "; ".join(hit.match_reasons), indent=4)
    page.pair("caution", hit.caution, indent=4, style="yellow")
    page.pair("next", f"formulary show {name}", indent=4, style="bold")


def _success(workflow: WorkflowHit | WorkflowDetails) -> str:
    """What earlier runs came to; nothing where too few have a known outcome."""
    if workflow.success_rate is None:
        return ""
    seconds = workflow.median_duration_seconds
    helped = success_text(workflow.success_rate, workflow.success_interval, runs=workflow.runs_counted)
    return f"helped in {helped}" + (f", usually {seconds:g} s" if seconds is not None else "")


def _show_parameters(parameters: list[dict[str, Any]], *, page: Page) -> None:
    if not parameters:
        return
    page.line()
    page.line("Parameters", style="bold")
    for parameter in parameters:
        necessity = "required" if parameter["required"] else "optional"
        page.line(f"  {parameter['name']}  ({parameter['type']}, {necessity})")
        page.paragraph(parameter["description"], indent=4, style="dim")


def _show_steps(title: str, steps: list[dict[str, str]], *, page: Page) -> None:
    if not steps:
        return
    page.line()
    page.line(title, style="bold")
    for number, step in enumerate(steps, start=1):
        page.line(f"  {number}. {step['name']}")
        if step.get("description"):
            page.paragraph(step["description"], indent=5, style="dim")
        if step.get("command"):
            page.verbatim(step["command"], indent=5, style="green")


def _named(workflow: WorkflowHit | WorkflowSummary, *, among: Sequence[WorkflowHit | WorkflowSummary]) -> str:
    """What a person should call it: with its namespace, where that is not the shared one or others have the name."""
    name, namespace = workflow.workflow_id, workflow.namespace
    is_shared = namespace in ("", settings_of().catalog_namespace)
    is_plain = is_shared and sum(each.workflow_id == name for each in among) == 1
    return name if is_plain or "/" in name else f"{namespace}/{name}"
