"""The result of a soak for people."""

from rich.console import Console
from rich.table import Table
from soak.verdict import Verdict


def show(result: Verdict) -> None:
    """Print the table."""
    console = Console(width=120)
    table = Table("fault", "refused", "slowest refusal s", "by words only", "recovered after s")
    for each in result.harms:
        numbers = (f"{each.slowest_refusal:.2f}", str(each.words_only), f"{each.recovery:.2f}")
        table.add_row(each.name, str(each.refused), *numbers)
    console.print(table)
    console.print(
        f"answered {result.answers}; refused {result.refusals}; not found {result.not_found}; edits {result.edits}; "
        f"events in the trail {result.events}; resident {result.resident_megabytes:.0f} MB, "
        f"grown {result.growth_megabytes:+.1f} MB ({result.growth_megabytes_per_hour:+.0f} MB/h)"
    )
    for said in result.skipped:
        console.print(f"skipped: {said}")
    for said in result.problems or ["no problems"]:
        console.print(said)
