"""The judged queries keep to the rules of `tests/bench/judgements/README.md`."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from quality_judgements import (
    KINDS,
    Judgement,
    allowed_names,
    plan_of,
    read_entries,
    read_judgements,
    signal_types,
    unknown_names,
)

from formulary_catalog.domain.entry import CatalogEntry

ROOT = Path(__file__).parents[2]
NOTHING = "nothing"
LEAST_OF_A_KIND = dict.fromkeys(KINDS, 50) | {NOTHING: 40}
ROOT_CAUSE_WORDS = range(60, 201)
WORD = re.compile(r"\w+")


@cache
def judgements() -> tuple[Judgement, ...]:
    return tuple(read_judgements(ROOT / "tests" / "bench" / "judgements"))


@cache
def entries() -> dict[str, CatalogEntry]:
    return {entry.name: entry for entry in read_entries(ROOT / "catalog" / "workflows")}


def of_kind(kind: str) -> list[Judgement]:
    return [judgement for judgement in judgements() if judgement.kind == kind]


def allowed(judgement: Judgement) -> set[str]:
    catalog = list(entries().values())
    return set(allowed_names(plan_of(judgement, signals=signal_types(catalog)), catalog))


def phrases(text: str) -> set[tuple[str, ...]]:
    """All runs of three words."""
    words = [word.casefold() for word in WORD.findall(text)]
    return set(zip(words, words[1:], words[2:], strict=False))


def ranked_phrases(entry: CatalogEntry) -> set[tuple[str, ...]]:
    spec = entry.workflow.spec
    texts = [entry.name, spec.title, spec.description.what, spec.description.when_to_use, *spec.keywords]
    return set().union(*map(phrases, texts))


def repeated(values: Iterable[str]) -> list[str]:
    return [value for value, times in Counter(values).items() if times > 1]


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_enough_queries_of_each_kind_and_each_part_has_half(kind: str) -> None:
    parts = Counter(judgement.part for judgement in of_kind(kind))

    assert parts.total() >= LEAST_OF_A_KIND[kind]
    assert abs(parts["tune"] - parts["held"]) <= 2


def test_there_are_at_least_three_hundred_and_twenty_queries_that_have_an_answer() -> None:
    assert sum(judgement.has_answer for judgement in judgements()) >= 320


def test_each_workflow_is_the_best_answer_to_four_queries_and_each_part_has_half_of_them() -> None:
    parts = Counter((name, judgement.part) for judgement in judgements() for name in judgement.best)
    for name in entries():
        tune, held = parts[name, "tune"], parts[name, "held"]
        assert tune + held >= 4, name
        assert abs(tune - held) <= 2, name


def test_a_query_has_a_best_answer_unless_nothing_fits() -> None:
    assert [each.id for each in judgements() if each.has_answer is (each.kind == NOTHING)] == []
    assert [each.id for each in of_kind(NOTHING) if each.acceptable] == []


def test_every_named_workflow_exists_and_is_named_once() -> None:
    assert [each.id for each in judgements() if unknown_names(each, entries())] == []
    assert [each.id for each in judgements() if repeated((*each.best, *each.acceptable))] == []


def test_the_labels_and_the_query_allow_every_right_answer() -> None:
    assert [each.id for each in judgements() if not {*each.best, *each.acceptable} <= allowed(each)] == []


def test_something_is_allowed_even_where_nothing_fits() -> None:
    assert [each.id for each in of_kind(NOTHING) if not allowed(each)] == []


def test_no_two_queries_are_the_same_and_ids_are_unique() -> None:
    assert repeated(" ".join(each.query.casefold().split()) for each in judgements()) == []
    assert repeated(each.id for each in judgements()) == []


def test_a_symptom_shares_no_three_words_in_a_row_with_its_best_workflows() -> None:
    shared = {
        each.id: found
        for each in of_kind("symptom")
        for name in each.best
        if (found := phrases(each.query) & ranked_phrases(entries()[name]))
    }
    assert shared == {}


def test_a_root_cause_is_a_paragraph() -> None:
    assert [each.id for each in of_kind("root-cause") if len(each.query.split()) not in ROOT_CAUSE_WORDS] == []


def test_files_are_named_by_the_kind_that_they_hold() -> None:
    for kind in KINDS:
        held = read_judgements(ROOT / "tests" / "bench" / "judgements" / f"{kind}.yaml")
        assert {(judgement.kind, judgement.id.rpartition("-")[0]) for judgement in held} == {(kind, kind)}
