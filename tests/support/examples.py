"""Properties that take long over many examples: a few of them in the first tier, many otherwise."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

Test: TypeAlias = Callable[..., Any]
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
_tiers: set[str] = set()


def note_first_tier() -> None:
    """From now on, tests are imported that run in the first tier."""
    _tiers.add("first")


def examples(*, few: int, many: int) -> settings:
    """As many examples of what a test draws: `few` in the first tier."""
    return settings(max_examples=few if _tiers else many, suppress_health_check=_SLOW)


def few_and_many(holds: Test, *, few: int, many: int, **drawn: SearchStrategy[Any]) -> tuple[Test, Test]:
    """Two tests of what the function asserts about examples that are drawn: one in the first tier, one long."""
    tests = [
        settings(max_examples=number, suppress_health_check=_SLOW)(given(**drawn)(holds)) for number in (few, many)
    ]
    return tests[0], pytest.mark.long(tests[1])
