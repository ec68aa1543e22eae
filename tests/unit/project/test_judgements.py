"""The judged queries of both catalogs keep to the rules of `benchmarks/judgements/README.md`."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.kernel.search.planning import plan_search
from quality_judgements import (
    KINDS,
    Judgement,
    allowed_names,
    read_entries,
    read_judgements,
    unknown_names,
)
from quality_variants import Variant, asks

ROOT = Path(__file__).parents[3]
NOTHING = "nothing"
ROOT_CAUSE_WORDS = range(60, 201)
WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class JudgedSet:
    """A catalog and the queries judged by it. `least` is how many there must be of each kind."""

    manifests: Path
    queries: Path
    id_prefix: str
    least: Mapping[str, int]

    @cached_property
    def judgements(self) -> list[Judgement]:
        return read_judgements(self.queries)

    @cached_property
    def entries(self) -> dict[str, CatalogEntry]:
        return {entry.name: entry for entry in read_entries(self.manifests)}

    def of_kind(self, kind: str) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.kind == kind]

    def allowed(self, judgement: Judgement) -> set[str]:
        asked = asks(judgement, Variant.FILTERED)
        plan = plan_search(asked.request, context=asked.context, strict_keys=frozenset())
        return set(allowed_names(plan, list(self.entries.values())))


BENCH = ROOT / "benchmarks"
STARTER = JudgedSet(
    manifests=ROOT / "catalog" / "workflows",
    queries=BENCH / "judgements",
    id_prefix="",
    least=dict.fromkeys(KINDS, 50) | {"pasted": 24, NOTHING: 130},
)
RUNBOOKS = JudgedSet(
    manifests=BENCH / "runbooks" / "workflows",
    queries=BENCH / "runbooks" / "judgements",
    id_prefix="runbook-",
    least={
        "structured": 30,
        "alert": 35,
        "symptom": 45,
        "root-cause": 30,
        "pager": 45,
        "misspelt": 15,
        "pasted": 0,
        NOTHING: 50,
    },
)
SETS = (STARTER, RUNBOOKS)
for_each_set = pytest.mark.parametrize("judged", SETS, ids=["starter", "runbooks"])


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


@for_each_set
@pytest.mark.parametrize("kind", KINDS)
def test_there_are_enough_queries_of_each_kind_and_each_part_has_half(judged: JudgedSet, kind: str) -> None:
    parts = Counter(judgement.part for judgement in judged.of_kind(kind))

    assert parts.total() >= judged.least[kind]
    assert abs(parts["tune"] - parts["held"]) <= 2


def test_at_least_three_hundred_and_twenty_queries_have_an_answer_in_the_starter_catalog() -> None:
    assert sum(judgement.has_answer for judgement in STARTER.judgements) >= 320


@for_each_set
def test_each_workflow_is_the_best_answer_to_four_queries_and_each_part_has_half_of_them(judged: JudgedSet) -> None:
    parts = Counter((name, judgement.part) for judgement in judged.judgements for name in judgement.best)
    for name in judged.entries:
        tune, held = parts[name, "tune"], parts[name, "held"]
        assert tune + held >= 4, name
        assert abs(tune - held) <= 2, name


@for_each_set
def test_a_query_has_a_best_answer_unless_nothing_fits(judged: JudgedSet) -> None:
    assert [each.id for each in judged.judgements if each.has_answer is (each.kind == NOTHING)] == []
    assert [each.id for each in judged.of_kind(NOTHING) if each.acceptable] == []


@for_each_set
def test_every_named_workflow_exists_and_is_named_once(judged: JudgedSet) -> None:
    assert [each.id for each in judged.judgements if unknown_names(each, judged.entries)] == []
    assert [each.id for each in judged.judgements if repeated((*each.best, *each.acceptable))] == []


@for_each_set
def test_the_labels_allow_every_right_answer(judged: JudgedSet) -> None:
    refused = [each for each in judged.judgements if not {*each.best, *each.acceptable} <= judged.allowed(each)]
    assert [each.id for each in refused] == []


@for_each_set
def test_something_is_allowed_even_where_nothing_fits(judged: JudgedSet) -> None:
    assert [each.id for each in judged.of_kind(NOTHING) if not judged.allowed(each)] == []


@for_each_set
def test_no_two_queries_are_the_same(judged: JudgedSet) -> None:
    assert repeated(" ".join(each.query.casefold().split()) for each in judged.judgements) == []


def test_ids_are_unique_in_all_sets() -> None:
    assert repeated(each.id for judged in SETS for each in judged.judgements) == []


@for_each_set
def test_a_symptom_shares_no_three_words_in_a_row_with_its_best_workflows(judged: JudgedSet) -> None:
    shared = {
        each.id: found
        for each in judged.of_kind("symptom")
        for name in each.best
        if (found := phrases(each.query) & ranked_phrases(judged.entries[name]))
    }
    assert shared == {}


@for_each_set
def test_a_root_cause_is_a_paragraph(judged: JudgedSet) -> None:
    paragraphs = judged.of_kind("root-cause")
    assert [each.id for each in paragraphs if len(each.query.split()) not in ROOT_CAUSE_WORDS] == []


@for_each_set
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_named_by_the_kind_that_they_hold(judged: JudgedSet, kind: str) -> None:
    file = judged.queries / f"{kind}.yaml"
    held = read_judgements(file) if file.exists() else []
    expected = {(kind, f"{judged.id_prefix}{kind}")} if judged.least[kind] else set()
    assert {(judgement.kind, judgement.id.rpartition("-")[0]) for judgement in held} == expected
