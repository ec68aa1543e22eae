"""Answers of browsing as people read them."""

from collections.abc import Mapping

from formulary_catalog.domain.answers.browsing import (
    ImpactAnswer,
    NamesAnswer,
    RefusedList,
    RelatedAnswer,
    StatisticsAnswer,
    VersionDifference,
)
from formulary_catalog.domain.stored import success_text
from formulary_catalog.runtime.terminal import Page, counted

_OMITTED = "  …"


def show_refused(answer: RefusedList, page: Page) -> None:
    """Each object with what is wrong with it and what to do."""
    if not answer.refused:
        page.line("No refused object is known." if answer.notes else "No refused objects that you can see.")
    for position, each in enumerate(answer.refused):
        if position:
            page.line()
        page.line(f"{each.namespace}/{each.name} {each.version}".rstrip(), style="bold cyan")
        page.pair("reason", each.reason, style="red")
        page.pair("message", each.message)
        page.pair("since", each.since)
        page.pair("next", each.next_step, style="bold")
    if (shown := len(answer.refused)) < answer.total:
        page.pair("shown", f"{shown} of {counted(answer.total, 'object')}; without --limit all are listed")
    page.notes(answer.notes)


def show_related(answer: RelatedAnswer, page: Page) -> None:
    """One line a neighbour."""
    if not answer.related:
        page.line(f"Nothing is connected with {answer.entity}.")
        return
    rows = [(each.relation, each.direction, each.type, each.name, str(each.depth)) for each in answer.related]
    page.table(("RELATION", "DIRECTION", "TYPE", "NAME", "STEPS"), rows)
    page.notes(answer.notes)


def show_names(answer: NamesAnswer, page: Page) -> None:
    """One line a workflow, with how it matches."""
    if answer.workflows:
        rows = [(each.workflow_id, each.version, each.matched, each.title) for each in answer.workflows]
        page.table(("NAME", "VERSION", "MATCHES BY", "TITLE"), rows)
    page.notes(answer.notes)


def show_impact(answer: ImpactAnswer, page: Page) -> None:
    """One line for each that depends on the workflow; what is empty is said too, since that is the question."""
    page.line(f"{answer.workflow_id}@{answer.version}", style="bold cyan")
    leading = [
        ("workflow", each.name, f"{each.relation}, {counted(each.depth, 'step')} away") for each in answer.incoming
    ]
    if (more := answer.incoming_total - len(leading)) > 0:
        leading.append(("workflow", f"{more} more", f"`formulary related {answer.workflow_id} --depth 3` shows them"))
    known = f"of {counted(answer.runs_counted, 'run')} with a known outcome"
    if answer.success_rate is not None:
        known = success_text(answer.success_rate, answer.success_interval, runs=answer.runs_counted)
    runs = answer.runs
    rows = [
        *(leading or [("workflow", "none", "nothing leads to it")]),
        *(
            [("signal", each, "only it answers") for each in answer.only_answer_to]
            or [("signal", "none", "only it answers")]
        ),
        *(
            [("contract", each.contract, f"{each.effect} by rule {each.rule}") for each in answer.contracts]
            or [("contract", "none", "none names it")]
        ),
        ("runs", str(runs.pending), "pending"),
        ("runs", str(runs.awaiting_approval), "awaiting approval"),
        ("runs", str(runs.running), "running"),
        ("searches", str(answer.first_in_searches), "in 30 days returned it first"),
        ("choices", str(answer.selected), "in 30 days"),
        ("success", "unknown" if answer.success_rate is None else f"{answer.success_rate:.0%}", known),
    ]
    page.table(("WHAT", "WHICH", "HOW"), rows)
    page.notes(answer.notes)


def show_statistics(answer: StatisticsAnswer, page: Page) -> None:
    """The numbers, the largest first."""
    page.pair("workflows", ", ".join(f"{number} {status}" for status, number in answer.by_status.items()))
    page.pair("namespaces", _counts(answer.by_namespace))
    page.pair("actions", _counts(answer.by_action))
    page.pair("risk", _counts(answer.by_risk))
    page.pair("no workflow for", ", ".join(answer.signals_without_workflow), style="yellow")
    page.pair("one answers", ", ".join(answer.signals_with_one_workflow))
    page.pair("model", answer.model or "none")
    page.pair("last indexed", answer.last_indexed)
    searches = answer.searches
    page.pair("searches", _counts(searches.by_mode) or "none in 7 days")
    if searches.weak_share is not None:
        page.pair("weak", f"{searches.weak_share:.0%} of searches; {searches.unanswered} without any hit")
    for each in searches.unanswered_queries:
        page.pair("unanswered", f"{each.times} times: {each.query}")
    page.notes(answer.notes)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def show_difference(difference: VersionDifference, page: Page) -> None:
    """What is gone after `-`, what is new after `+`, and some lines around it."""
    page.line(f"{difference.workflow_id}  {difference.older} → {difference.newer}", style="bold cyan")
    if not difference.rows:
        page.line("No differences.")
    added: list[str] = []
    for row in difference.rows:
        if row.kind not in ("changed", "added"):
            _show_added(added, page=page)
        if row.kind == "same":
            page.line(f"  {row.older}")
        elif row.kind == "left out":
            page.line(_OMITTED, style="dim")
        if row.kind in ("changed", "removed"):
            page.line(f"- {row.older}", style="red")
        if row.kind in ("changed", "added"):
            added.append(row.newer)
    _show_added(added, page=page)
    page.notes(difference.notes)


def _show_added(lines: list[str], *, page: Page) -> None:
    for line in lines:
        page.line(f"+ {line}", style="green")
    lines.clear()
