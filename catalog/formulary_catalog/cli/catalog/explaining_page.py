"""An explanation as people read it on a terminal."""

from formulary_catalog.domain.search.explained import Explanation
from formulary_catalog.runtime.terminal import Page


def show_explanation(answer: Explanation, *, page: Page) -> None:
    """What excludes the workflow, or its place, what speaks for it, and what would make it the first."""
    page.line(f"{answer.workflow_id}@{answer.version}", style="bold cyan")
    page.pair("query", answer.query)
    if answer.excluded_by is not None:
        page.pair("excluded by", f"{answer.excluded_by.rule}: {answer.excluded_by.reason}", style="red")
        for excluded in answer.also_excluded_by:
            page.pair("and by", f"{excluded.rule}: {excluded.reason}")
    else:
        _show_place(answer, page=page)
        _show_evidence(answer, page=page)
    if (recorded := answer.recorded) is not None:
        page.pair("recorded", f"number {recorded.rank}, {'returned' if recorded.returned else 'not returned'}")
    for note in answer.notes:
        page.pair("note", note)


def _show_place(answer: Explanation, *, page: Page) -> None:
    place = f"number {answer.rank} of {answer.total_results}" if answer.rank is not None else "allowed, not ranked"
    page.pair("place", place, style="green" if answer.returned else "yellow")
    page.pair("not returned", answer.not_returned_because, style="yellow")
    first = answer.first
    behind = f"; the first, {first.workflow_id}, has {first.score:.2f}" if first and answer.rank != 1 else ""
    page.pair("score", f"{answer.score:.2f}{behind}" if answer.score is not None else "")
    page.pair("confidence", f"{answer.confidence:.2f}" if answer.confidence is not None else "")


def _show_evidence(answer: Explanation, *, page: Page) -> None:
    page.line()
    page.line("What speaks for it, in log odds", style="bold")
    page.table(
        ("COUNTS", "OF", "PART", "DETAIL"),
        [
            (f"{part.log_odds:+.2f}", f"{part.at_most:.2f}", part.part, part.detail)
            if part.in_score
            else (f"{part.log_odds:+.2f}", "", f"{part.part} (confidence alone)", part.detail)
            for part in answer.evidence
        ],
    )
    if answer.to_be_first:
        page.line()
        page.line("What would have had to differ", style="bold")
        page.table(
            ("ADDS", "FIRST", "CHANGE"),
            [(f"{each.gain:+.2f}", "yes" if each.enough else "", each.change) for each in answer.to_be_first],
        )
