"""What is told of many measured values."""

import statistics
from collections.abc import Sequence


def p50_and_p95(values: Sequence[float]) -> tuple[float, float]:
    """The median, and what 19 of 20 do not exceed."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.95)]


def milliseconds(seconds: Sequence[float]) -> tuple[float, float]:
    """The same of seconds, in milliseconds."""
    p50, p95 = p50_and_p95(seconds)
    return p50 * 1000, p95 * 1000
