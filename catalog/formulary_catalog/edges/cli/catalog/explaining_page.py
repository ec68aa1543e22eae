"""An explanation, and a recorded search, as people read them on a terminal."""

from formulary_catalog.domain.console_address import search_link, workflow_link
from formulary_catalog.domain.search.explanation.answers import Explanation, RecordedAnswer
from formulary_catalog.runtime.terminal import Page


def show_explanation(answer: Explanation, page: Page, *, console_url: str = "") -> None:
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
    page.pair("console", workflow_link(console_url, answer.workflow_id))
    for note in answer.notes:
        page.pair("note", note)


def show_recorded(answer: RecordedAnswer, page: Page, *, console_url: str = "") -> None:
    """What was asked, under which constraints, and what was found then."""
    page.line(f"Search {answer.search_id}", style="bold cyan")
    page.pair("asked", f"{answer.at} by {answer.caller}")
    page.pair("query", answer.query)
    for name, values in answer.labels.items():
        page.pair(name, ", ".join(values))
    page.pair("without", ", ".join(answer.exclude_keywords))
    page.pair("incident", answer.remediation_id or answer.incident)
    for name, value in (answer.demanded | answer.detected_labels).items():
        page.pair(name, f"{value} (demanded)")
    for name, values in answer.custom_labels.items():
        page.pair(name, f"{' or '.join(values)} (demanded)")
    for name, value in answer.inferred.items():
        page.pair(name, f"{value} (read from the query)")
    page.pair("mode", answer.search_mode)
    page.pair("console", search_link(console_url, answer.search_id))
    page.line()
    page.line(f"What was found then, {answer.total_results} in all", style="bold")
    page.table(
        ("RANK", "RETURNED", "SCORE", "CONFIDENCE", "WORKFLOW", "WHY"),
        [
            (
                str(each.rank),
                "yes" if each.returned else "no",
                _number(each.score),
                _number(each.confidence),
                each.workflow,
                "; ".join(each.match_reasons),
            )
            for each in answer.candidates
        ],
    )
    page.notes(answer.notes)


def _number(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else ""


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
    page.line("Evidence, in log odds", style="bold")
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
            [
                (f"{each.gain:+.2f}" if each.gain else "", "yes" if each.enough else "", each.change)
                for each in answer.to_be_first
            ],
        )
