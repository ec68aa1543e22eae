"""The table of a run of the lab, and what it comes to."""

from collections.abc import Iterable, Sequence

from lab.product import Hit
from lab.trial import THRESHOLD, Outcome

_HEAD = (
    "| fault | right | pasted: first | conf. | root cause: first | conf. | as described: first | conf. "
    "| run | healed | harmed | s |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each trial, in Markdown, by name."""
    by_name = sorted(outcomes, key=lambda outcome: outcome.fault.name)
    return _HEAD + "\n".join(map(_row, by_name)) + "\n"


def summary(outcome: Outcome) -> str:
    """One trial in a line."""
    if outcome.problem:
        return f"{outcome.fault.name}: {_cell(outcome.problem)}"
    did = f"{outcome.acted_on} {outcome.run.state}" if outcome.run else "nothing"
    return f"{outcome.fault.name}: {did}, {'healed' if outcome.healed else 'not healed'}"


def totals(outcomes: Sequence[Outcome]) -> str:
    """How many were found, healed and harmed."""
    tried = [each for each in outcomes if not each.problem]
    with_remedy = [each for each in tried if each.fault.right]
    without = [each for each in tried if not each.fault.right]
    return (
        f"{len(tried)} faults tried, {len(outcomes) - len(tried)} not (the lab failed).\n"
        f"Found first, of {len(with_remedy)}: {_right(with_remedy)}.\n"
        f"Right to offer nothing, of {len(without)}: {_right(without)}.\n"
        f"Healed: {_count(each.healed for each in with_remedy)} of {len(with_remedy)}. "
        f"Harmed: {_count(each.harmed for each in tried)}. "
        f"A harmful one first: {_count(_is_harmful(each) for each in tried)}.\n"
    )


def _right(outcomes: Sequence[Outcome]) -> str:
    """How many are right in each of the ways to ask."""
    return (
        f"{_count(each.is_right(each.pasted) for each in outcomes)} as pasted, "
        f"{_count(each.is_right(each.cause) for each in outcomes)} by the root cause, "
        f"{_count(each.is_right(each.described) for each in outcomes)} as described"
    )


def _row(outcome: Outcome) -> str:
    if outcome.problem:
        return f"| {outcome.fault.name} | | | | | | | | {_cell(outcome.problem)} | | | {outcome.seconds:.0f} |"
    run = f"{outcome.run.state}: {outcome.run.message}" if outcome.run else ""
    return (
        f"| {outcome.fault.name} | {', '.join(outcome.fault.right) or 'none'} "
        f"| {_hit(outcome.pasted, outcome)} | {_hit(outcome.cause, outcome)} | {_hit(outcome.described, outcome)} "
        f"| {_cell(run)} | {_said(outcome.healed)} | {_said(outcome.harmed)} | {outcome.seconds:.0f} |"
    )


def _hit(hit: Hit | None, outcome: Outcome) -> str:
    mark = "✓ " if outcome.is_right(hit) else ""
    return f"{mark}nothing | " if hit is None else f"{mark}{hit.workflow} | {hit.confidence:.2f}"


def _is_harmful(outcome: Outcome) -> bool:
    return any(
        hit is not None and hit.confidence >= THRESHOLD and hit.workflow in outcome.fault.harmful
        for hit in (outcome.pasted, outcome.cause, outcome.described)
    )


def _said(value: bool) -> str:
    return "yes" if value else "no"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:120]


def _count(values: Iterable[bool]) -> int:
    return sum(values)
