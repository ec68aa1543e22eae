"""What a contract would have changed, for a person at a terminal."""

from collections.abc import Iterable

from formulary_catalog.domain.governance.answers import ChangedRun, Decided, RehearsalAnswer
from formulary_catalog.runtime.terminal import Page, counted

_HEADINGS = {
    "allowed": "Newly allowed",
    "denied": "Newly denied",
    "waiting": "Newly waiting for a person or a selection",
    "dry_run": "Newly a dry run",
}
_OUTCOMES = {"ALLOW": "allowed", "AWAIT": "waits", "DEGRADE": "dry run", "BLOCK": "denied", "HALT": "halted"}


def show_rehearsal(answer: RehearsalAnswer, page: Page) -> None:
    """Print it: what changes, the most dangerous first, then what does not."""
    place = "in place of the one in force" if answer.replaces else "added to those in force"
    page.line(f"{answer.contract}, {place}, on {counted(answer.runs, 'run')} since {answer.since}", style="bold")
    for change, heading in _HEADINGS.items():
        number: int = getattr(answer.changed, change)
        if number:
            page.line()
            page.line(f"{heading}: {counted(number, 'run')}", style="bold")
            _runs([run for run in answer.changes if run.change == change], page=page)
    page.line()
    if answer.runs:
        page.pair("unchanged", counted(answer.unchanged, "run"))
    for group in answer.not_replayed:
        page.pair("not tried", f"{counted(group.runs, 'run')}: {group.reason}")
    for rule in answer.rules:
        page.pair("rule", f"{rule.id}, {rule.effect}: matches {counted(rule.decisions, 'decision')}")
    for note in answer.notes:
        page.pair("note", note)
    listed, changed = len(answer.changes), answer.runs - answer.unchanged
    if listed < changed:
        page.pair("note", f"the first {listed} of {changed} are listed; --limit shows more")


def _runs(runs: Iterable[ChangedRun], *, page: Page) -> None:
    for run in runs:
        dry = ", a dry run" if run.dry_run else ""
        page.line(f"  {run.invocation_id}  {run.workflow_id}@{run.version}{dry}")
        page.pair("target", run.target or f"in namespace {run.namespace}", indent=4)
        page.pair("at", f"{run.decided_at}, trace {run.trace_id}", indent=4)
        page.pair("now", _said(run.before), indent=4)
        page.pair("with it", _said(run.after), indent=4)
        for each in run.reasons:
            page.pair("reason", f"{each.reason}: {each.message}", indent=4)


def _said(decided: Decided) -> str:
    return f"{_OUTCOMES[decided.outcome]}: {'; '.join(decided.why)}"
