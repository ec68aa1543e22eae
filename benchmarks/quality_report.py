"""Prints what a quality run found."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from quality_incidents import Cell
from quality_judgements import BEST
from quality_metrics import Estimate
from quality_summary import HEADLINE, METRICS, OURS, OVERALL, Answered, Summary
from quality_variants import Variant

_WIDTH = 150


def report(summary: Summary, *, title: str) -> None:
    """Print the tables."""
    console = Console(width=_WIDTH)
    for table in (
        _overall(summary, title=title),
        _variants(summary),
        _trust(summary),
        _curve(summary),
        _by_kind(summary),
        _lead(summary),
        _confidence(summary),
        _reliability(summary),
    ):
        console.print(table)


def report_incidents(cells: Sequence[Cell]) -> None:
    """Print what is found under generated incidents."""
    labels = sorted({each.labels for each in cells})
    table = Table(f"{HEADLINE} under incidents", *(f"{count} custom labels" for count in labels))
    for owned in sorted({each.owned for each in cells}):
        row = {each.labels: each.ranks for each in cells if each.owned == owned}
        table.add_row(f"team owns {owned} unrelated", *(_with_interval(row[count]) for count in labels))
    Console(width=_WIDTH).print(table)


def report_misses(answers: Sequence[Answered]) -> None:
    """Print the queries at which a best answer is not the first of ours."""
    console = Console(width=_WIDTH, soft_wrap=True, highlight=False)
    filtered = [each for each in answers if each.variant is Variant.FILTERED and each.judgement.has_answer]
    missed = [each for each in filtered if each.grades(OURS)[:1] != [BEST]]
    for each in missed:
        judgement = each.judgement
        shown = ", ".join(each.rankings[OURS][:3])
        query = " ".join(judgement.query.split())[:160]
        console.print(
            f"{judgement.id}: {query}\n  wanted {', '.join(judgement.best)}; got {shown} of {each.allowed}",
            markup=False,
        )


def _overall(summary: Summary, *, title: str) -> Table:
    table = Table(title, *METRICS)
    for system in summary.ranking[HEADLINE][OVERALL]:
        table.add_row(system, *(_with_interval(summary.ranking[metric][OVERALL][system]) for metric in METRICS))
    return table


def _variants(summary: Summary) -> Table:
    systems = list(summary.ranking[HEADLINE][OVERALL])
    table = Table(HEADLINE, *systems)
    for variant, by_system in summary.variants.items():
        table.add_row(variant, *(_with_interval(by_system[system]) for system in systems))
    return table


def _trust(summary: Summary) -> Table:
    table = Table(
        "confidence", "answers", "error", "right >= .5", "nothing right >= .5", "AUROC", "left out by default"
    )
    for variant, each in summary.trust.items():
        numbers = (each.error, each.right_kept, each.nothing_high, each.separation)
        table.add_row(variant, str(each.answers), *(f"{number:.3f}" for number in numbers), str(each.left_out))
    return table


def _curve(summary: Summary) -> Table:
    groups = [*next(iter(summary.curve.values()))]
    table = Table("first answers of at least this confidence", *groups)
    for least, shares in summary.curve.items():
        table.add_row(least, *(f"{shares[group]:.3f}" for group in groups))
    return table


def _by_kind(summary: Summary) -> Table:
    by_kind = summary.ranking[HEADLINE]
    table = Table(f"{HEADLINE} by kind", "queries", *by_kind[OVERALL])
    for kind, by_system in by_kind.items():
        count = "" if kind == OVERALL else str(summary.counts[kind])
        table.add_row(kind, count, *(f"{estimate.mean:.3f}" for estimate in by_system.values()))
    return table


def _lead(summary: Summary) -> Table:
    table = Table(f"ours minus {summary.rival}", *METRICS)
    for kind in summary.ranking[HEADLINE]:
        table.add_row(kind, *(_with_interval(summary.lead[metric][kind], sign="+") for metric in METRICS))
    return table


def _confidence(summary: Summary) -> Table:
    table = Table("confidence of the first answer", "p10", "p50", "p90")
    for name, quantiles in summary.confident.items():
        table.add_row(name, *(f"{value:.2f}" for value in quantiles.values()))
    table.add_row("AUROC, right against nothing fits", f"{summary.separation:.3f}")
    return table


def _reliability(summary: Summary) -> Table:
    table = Table("calibration", "answers", "error", "error, equal mass", "confidence: share right (answers)")
    for name, calibration in summary.calibration.items():
        bins = "  ".join(f"{each.confidence:.2f}: {each.right:.2f} ({each.count})" for each in calibration.bins)
        table.add_row(
            name,
            str(calibration.answers),
            f"{calibration.error_by_width:.3f}",
            f"{calibration.error_by_mass:.3f}",
            bins,
        )
    return table


def _with_interval(estimate: Estimate, *, sign: str = "") -> str:
    return f"{estimate.mean:{sign}.3f} ({estimate.low:{sign}.3f} {estimate.high:{sign}.3f})"
