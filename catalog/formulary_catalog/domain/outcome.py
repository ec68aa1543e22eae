"""What came of the real runs of a workflow version."""

from dataclasses import dataclass

_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Runs that came to an end by themselves: how many went well and badly, and how long those took that went well.

    Without any, nothing is known, and nothing is made up.
    """

    succeeded: int = 0
    failed: int = 0
    median_seconds: float | None = None

    @property
    def success_rate(self) -> float | None:
        """The share of runs that went well, 0..1; None without runs."""
        runs = self.succeeded + self.failed
        return round(self.succeeded / runs, _DIGITS) if runs else None

    @property
    def median_duration_seconds(self) -> float | None:
        """How long a run usually takes; None unless one went well."""
        return None if self.median_seconds is None else round(self.median_seconds, 1)
