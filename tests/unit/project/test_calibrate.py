"""Fitting the weights and the confidence: the numbers, on answers whose probabilities are known."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.query import QuerySigns
from quality_judgements import Judgement
from quality_variants import Variant
from support.scripts import script

WEIGHTS = np.array([3.0, 2.0, 1.0, 0.0])


@pytest.fixture(scope="module")
def calibrate() -> ModuleType:
    """The script as a module."""
    return script("calibrate")


def _asked(calibrate: ModuleType, count: int, *, variant: Variant, chance: float = 1.0) -> list[Any]:
    """Queries whose best answer is drawn with the odds that the weights give it, then lost but for a `chance`."""
    random = np.random.default_rng(5)
    asked = []
    for number in range(count):
        features = random.normal(size=(6, len(WEIGHTS)))
        odds = np.exp(features @ WEIGHTS)
        best = int(random.choice(6, p=odds / odds.sum())) if random.random() < chance else None
        answer = ("best",) if best is not None else ()
        judgement = Judgement(
            id=f"alert-{number}", kind="alert", part="tune", query="x", best=answer, acceptable=(), labels={}
        )
        grades = np.array([2 * (each == best) for each in range(6)])
        asked.append(
            calibrate.Asked(
                judgement=judgement,
                variant=variant,
                wanted=Wanted((), 0.0),
                nearest_known=0.0,
                signs=QuerySigns(),
                features=features,
                further=np.zeros(6),
                grades=grades,
            )
        )
    return asked


def test_the_weights_behind_the_answers_are_found(calibrate: ModuleType) -> None:
    fitted = calibrate.fitted_weights(_asked(calibrate, 3_000, variant=Variant.FILTERED))
    assert fitted == pytest.approx(WEIGHTS, abs=0.3)


def test_only_filtered_queries_with_an_answer_set_the_weights(calibrate: ModuleType) -> None:
    filtered = _asked(calibrate, 200, variant=Variant.FILTERED)
    others = [*_asked(calibrate, 50, variant=Variant.PLAIN), *_asked(calibrate, 50, variant=Variant.FILTERED, chance=0)]
    assert calibrate.fitted_weights([*filtered, *others]) == pytest.approx(calibrate.fitted_weights(filtered))


def test_the_confidence_of_first_answers_is_true_on_average_by_what_each_query_counts(calibrate: ModuleType) -> None:
    asked = _asked(calibrate, 3_000, variant=Variant.FILTERED, chance=0.6)
    fitted = calibrate.fitted_calibration(asked, weights=WEIGHTS, used=("constant", "score"))
    first = [(each.features @ WEIGHTS, each.grades) for each in asked]
    given = [1 / (1 + np.exp(-fitted.constant - fitted.score * scores.max())) for scores, _ in first]
    right = [grades[scores.argmax()] > 0 for scores, grades in first]
    counts = [1.0 if each.judgement.has_answer else calibrate.NOTHING_WEIGHT for each in asked]
    assert np.average(given, weights=counts) == pytest.approx(np.average(right, weights=counts), abs=0.01)
    assert fitted.score > 0
    assert (fitted.length, fitted.known) == (0, 0)


def test_only_the_line_of_the_constant_is_written(calibrate: ModuleType, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("A_WEIGHT = 1.0\nB_WEIGHT = 2.0\n")
    calibrate.write({"B_WEIGHT": 3.5}, module=module)
    assert module.read_text() == "A_WEIGHT = 1.0\nB_WEIGHT = 3.5\n"
