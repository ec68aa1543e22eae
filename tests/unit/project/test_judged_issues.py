"""What people paste into public issues is judged by names that the starter catalog has, and a third has no remedy."""

import pytest

from quality_evidence import Evidence, read_issues
from quality_judgements import STARTER, read_entries, unknown_names

LEAST = 100
LEAST_WITHOUT_REMEDY = 0.25


@pytest.fixture(scope="module")
def issues() -> list[Evidence]:
    return read_issues()


def test_enough_texts_are_judged_and_a_quarter_has_no_remedy(issues: list[Evidence]) -> None:
    without_remedy = [each for each in issues if not each.has_answer]

    assert len(issues) >= LEAST
    assert len(without_remedy) >= LEAST_WITHOUT_REMEDY * len(issues)
    assert len({each.id for each in issues}) == len(issues)


def test_right_and_harmful_workflows_exist_and_are_not_the_same(issues: list[Evidence]) -> None:
    known = {entry.name: entry for entry in read_entries(STARTER.workflows)}

    for each in issues:
        assert not unknown_names(each, known), each.id
        assert set(each.harmful) <= known.keys(), each.id
        assert not set(each.harmful) & set(each.best), each.id
