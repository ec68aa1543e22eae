"""What was to be reached, beside what was: each benchmark prints its goals with a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A number that may be at most its limit, or has to be at least that; `unit` is `x` or one like ` ms`."""

    what: str
    measured: float
    limit: float
    unit: str = "x"
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured >= self.limit if self.least else self.measured <= self.limit


def goals_table(goals: Sequence[Goal], *, title: str) -> Table:
    """The goals, one in a row."""
    table = Table(title, "measured", "goal", "verdict")
    for goal in goals:
        table.add_row(
            goal.what,
            f"{goal.measured:.3f}{goal.unit}",
            f"{'>=' if goal.least else '<='} {goal.limit:g}{goal.unit}",
            "met" if goal.met else "MISSED",
        )
    return table
