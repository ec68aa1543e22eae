"""What `make check` and `make test` hold against `scripts/budget.toml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.scripts import script

TESTS = {
    "tests": {
        "processor_minutes": 30,
        "longest_seconds": 20,
        "yardstick_milliseconds": 24,
    },
    "suites": {"cluster": {"tests": "tests/cluster", "processor_minutes": 20}},
}


@pytest.fixture
def small_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program with a product of one folder: two modules of three lines together."""
    folder = tmp_path / "operator" / "formulary_operator"
    folder.mkdir(parents=True)
    (tmp_path / "catalog" / "formulary_catalog").mkdir(parents=True)
    (folder / "one.py").write_text("a = 1\n")
    (folder / "two.py").write_text("b = 2\nc = 3\n")
    (tmp_path / "README.md").write_text("# Product\n\nText\n")
    budget = script("budget")
    monkeypatch.setattr(budget, "ROOT", tmp_path)
    return budget


def _budget(*, modules: int = 2, lines: int = 3, readme: int = 3, settings: int = 1000) -> dict[str, Any]:
    return {
        "folders": {"operator/formulary_operator": {"modules": modules, "lines": lines}},
        "files": {"README.md": readme},
        "settings": {"most": settings},
    }


def test_a_product_within_its_budget_passes(small_product: Any) -> None:
    assert list(small_product.excesses_of_product(_budget())) == []


@pytest.mark.parametrize(
    ("budget", "excess"),
    [
        (_budget(modules=1), "operator/formulary_operator: 2 modules, budget 1"),
        (_budget(lines=2), "operator/formulary_operator: 3 lines, budget 2"),
        (_budget(readme=2), "README.md: 3 lines, budget 2"),
        (_budget(settings=3), "budget 3"),
        (_budget() | {"folders": {}}, "operator/formulary_operator: not in the budget"),
    ],
)
def test_what_is_larger_than_its_budget_is_named(small_product: Any, budget: dict[str, Any], excess: str) -> None:
    (found,) = small_product.excesses_of_product(budget)
    assert excess in found


def excesses(
    *,
    minutes: float = 1,
    yardstick: float = 24,
    whole: Mapping[str, float] | None = None,
    busy: bool = False,
    longest: float = 20,
) -> list[str]:
    """What a run with two tests exceeds."""
    return list(
        script("budget").excesses_of_run(
            TESTS,
            processor_seconds=60 * minutes,
            yardstick_milliseconds=yardstick,
            durations={"test_quick": 20.0, "test_slow": longest},
            whole=whole,
            busy=busy,
        )
    )


def test_a_run_of_the_first_tier_is_held_to_its_processor_time() -> None:
    (found,) = excesses(minutes=31)
    assert "31.0 minutes of processor time, budget 30" in found
    assert excesses(minutes=31, whole={"cluster": 1.0}) == []
    (found,) = excesses(minutes=51, whole={"cluster": 1.0})
    assert "budget 50" in found
    (found,) = excesses(minutes=36, whole={"cluster": 0.25})
    assert "budget 35" in found
    assert "25% of" in found
    assert excesses(minutes=37, busy=True) == []
    assert excesses(minutes=38, busy=True)


def test_a_slower_machine_may_take_longer_and_a_faster_one_may_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert excesses(minutes=44, yardstick=36) == []
    assert "44.0 minutes here, where all takes 1.50 times as long" in capsys.readouterr().out
    (found,) = excesses(minutes=20, yardstick=12)
    assert "40.0 minutes of processor time, budget 30" in found


def test_a_long_test_exceeds_the_budget_where_nothing_else_keeps_the_machine_busy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (found,) = excesses(longest=21)
    assert "test_slow: 21 s, budget 20" in found
    assert excesses(longest=21, busy=True) == []
    assert excesses(longest=29, yardstick=36) == []
    assert excesses(longest=21, yardstick=12)
    assert "not checked" in capsys.readouterr().out
