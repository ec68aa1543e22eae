"""Properties that take long over many examples: a few of them in the first tier, many in a long test."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

Test: TypeAlias = Callable[..., Any]


def few_and_many(holds: Test, *, few: int, many: int, **drawn: SearchStrategy[Any]) -> tuple[Test, Test]:
    """Two tests of what the function asserts about examples that are drawn: one in the first tier, one long."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    tests = [settings(max_examples=number, suppress_health_check=slow)(given(**drawn)(holds)) for number in (few, many)]
    return tests[0], pytest.mark.long(tests[1])
