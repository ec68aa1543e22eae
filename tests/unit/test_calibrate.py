"""Fitting the confidence: the numbers, on answers whose probabilities are known."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from formulary_catalog.domain.confidence import Hints

TRUE = Hints(constant=-1.0, cosine=2.0, covered=0.0, held=1.0, odds=0.5)


@pytest.fixture(scope="module")
def calibrate() -> ModuleType:
    """The script as a module."""
    path = Path(__file__).parents[2] / "scripts" / "calibrate.py"
    spec = importlib.util.spec_from_file_location("calibrate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _answers(count: int) -> list[tuple[Hints, bool, float]]:
    """Hits that are right as often as the true coefficients say."""
    random = np.random.default_rng(5)
    given = [Hints(1.0, *map(float, random.normal(size=4))) for _ in range(count)]
    likely = [1 / (1 + np.exp(-np.dot(TRUE, each))) for each in given]
    return [(each, bool(random.random() < chance), 1.0) for each, chance in zip(given, likely, strict=True)]


def test_the_coefficients_behind_the_answers_are_found(calibrate: ModuleType) -> None:
    fitted = calibrate.fitted(_answers(20_000), used=Hints._fields)
    assert tuple(fitted) == pytest.approx(tuple(TRUE), abs=0.2)  # the ridge draws them towards 0


def test_a_hint_that_is_not_used_counts_nothing(calibrate: ModuleType) -> None:
    fitted = calibrate.fitted(_answers(2_000), used=("constant", "odds"))
    assert (fitted.cosine, fitted.covered, fitted.held) == (0, 0, 0)
    assert fitted.odds > 0


def test_an_answer_counts_by_its_weight(calibrate: ModuleType) -> None:
    hints = Hints(constant=1.0, cosine=0.0, covered=0.0, held=0.0, odds=0.0)
    fitted = calibrate.fitted([(hints, True, 3.0), (hints, False, 1.0)], used=("constant",))
    assert fitted.constant == round(float(np.log(3)), 2)


def test_only_the_line_of_the_constant_is_written(calibrate: ModuleType) -> None:
    source = "BY_WORDS = 1\nBY_MEANING = 2\n"
    assert calibrate.written(source, name="BY_MEANING", coefficients=TRUE) == f"BY_WORDS = 1\nBY_MEANING = {TRUE}\n"
