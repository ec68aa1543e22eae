"""Answers about coverage as people read them."""

from collections.abc import Sequence

from formulary_catalog.domain.console_address import coverage_link
from formulary_catalog.domain.coverage.answers import (
    CoverageAnswer,
    CoverageTotals,
    CoveredSignal,
    DuplicatesAnswer,
    StaleAnswer,
)
from formulary_catalog.domain.coverage.states import in_words
from formulary_catalog.runtime.terminal import Page, counted

_COLUMNS = ("STATE", "ALERT", "SEVERITY", "REMEDY", "DECLARED BY", "CONFIDENCE", "DEMAND")
_REASON = "WHY NOT COVERED"
_SHOWN_SOURCES = 2


def show_coverage(answer: CoverageAnswer, page: Page, *, console_url: str = "") -> None:
    """One line a signal, what is not covered first, and the totals; so too for alerts of the cluster; weak queries."""
    page.table((*_COLUMNS, _REASON), [(*_row(each), each.reason) for each in answer.signals])
    page.line()
    _show_totals(answer.totals, days=answer.days, page=page)
    if answer.alert_totals is not None:
        page.line()
        rows = [(*_row(each), _sources(each.sources), each.reason) for each in answer.alerts]
        page.table((*_COLUMNS, "DEFINED BY", _REASON), rows)
        page.line()
        _show_totals(answer.alert_totals, days=answer.days, page=page, of="alerts of the cluster: ")
    if answer.signals_waiting:
        page.pair("not compared", f"{counted(answer.signals_waiting, 'signal')}; ask again", style="yellow")
    if answer.alerts_waiting:
        waiting = f"{counted(answer.alerts_waiting, 'alert')} of the cluster; ask again"
        page.pair("not compared", waiting, style="yellow")
    for query in answer.queries:
        best = "nothing" if query.best_confidence is None else f"at best {query.best_confidence:.2f}"
        page.pair("weak query", f"{counted(query.times, 'time')}, {best}: {query.query}", style="yellow")
    page.pair("console", coverage_link(console_url))
    page.notes(answer.notes)


def _row(each: CoveredSignal) -> tuple[str, ...]:
    return (
        f"ignored: {each.ignored}" if each.ignored else in_words(each.state),
        each.name,
        each.severity,
        each.workflow_id,
        str(each.declared_by or ""),
        "" if each.confidence is None else f"{each.confidence:.2f}",
        str(each.demand or ""),
    )


def _sources(sources: Sequence[str]) -> str:
    """The first two, and how many more."""
    more = len(sources) - _SHOWN_SOURCES
    return ", ".join(sources[:_SHOWN_SOURCES]) + (f" and {more} more" if more > 0 else "")


def _show_totals(totals: CoverageTotals, *, days: int, page: Page, of: str = "") -> None:
    declared = f", {totals.declared_only} declared only" if totals.declared_only else ""
    ignored = f", {totals.ignored} ignored" if totals.ignored else ""
    page.pair("total", f"{of}{totals.covered} covered{declared}, {totals.weak} weak, {totals.none} none{ignored}")
    if totals.demand_covered is not None:
        page.pair("by demand", f"{totals.demand_covered:.0%} of searches and incidents in {days} days")


def show_stale(answer: StaleAnswer, page: Page) -> None:
    """One line a workflow, with what says that it is of no use."""
    if answer.workflows:
        rows = [(each.reason, each.workflow_id, each.version, each.detail) for each in answer.workflows]
        page.table(("REASON", "WORKFLOW", "VERSION", "DETAIL"), rows)
    else:
        page.line(f"No stale workflows among {answer.compared}.")
    if answer.total > len(answer.workflows):
        page.pair("more", f"{answer.total - len(answer.workflows)}; raise --limit")
    page.notes(answer.notes)


def show_duplicates(answer: DuplicatesAnswer, page: Page) -> None:
    """One line a pair."""
    if answer.pairs:
        rows = [
            (
                f"{each.cosine:.3f}",
                each.workflow_id,
                each.other_id,
                "same" if each.same_action else "other",
                each.never_first,
            )
            for each in answer.pairs
        ]
        page.table(("COSINE", "WORKFLOW", "AND", "ACTION", "NEVER FIRST"), rows)
    else:
        page.line(f"No duplicates among {answer.compared}.")
    if answer.total > len(answer.pairs):
        page.pair("more", f"{answer.total - len(answer.pairs)}; raise --limit")
    page.notes(answer.notes)
