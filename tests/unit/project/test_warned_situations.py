"""The situations that authors warn of: judged by clauses that are there, and unknown to training and tuning."""

from collections import Counter
from collections.abc import Sequence

import pytest

from bench_warned import CATALOGS, Situation, quotes, read_situations, summarise
from dataset import collect
from formulary_catalog.domain.text import one_line
from quality_judgements import CATALOGS as JUDGED
from quality_judgements import read_entries, read_judgements
from quality_summary import OURS, Answered
from quality_variants import Variant

SITUATIONS = {name: read_situations(name) for name in CATALOGS}
for_each_catalog = pytest.mark.parametrize("catalog", CATALOGS)


@for_each_catalog
def test_there_are_many_and_most_workflows_are_warned_of_in_some(catalog: str) -> None:
    warned = [each for each in SITUATIONS[catalog] if each.warned]
    entries = read_entries(CATALOGS[catalog].workflows)
    assert len(warned) >= 130
    assert len(SITUATIONS[catalog]) - len(warned) >= 45
    assert len({each.warned[0] for each in warned}) >= 0.9 * len(entries)


@for_each_catalog
def test_the_clause_is_one_of_the_workflow_that_it_decides_on(catalog: str) -> None:
    texts = {
        entry.name: one_line(entry.workflow.spec.description.when_not_to_use)
        for entry in read_entries(CATALOGS[catalog].workflows)
    }
    for each in SITUATIONS[catalog]:
        decided = (*each.warned, *each.best)[0]
        assert one_line(each.clause).rstrip(".") in texts[decided], each.id
        assert {*each.warned, *each.best, *each.acceptable} <= texts.keys(), each.id


def test_nothing_is_both_right_and_warned_of_and_something_is_decided() -> None:
    for each in [*SITUATIONS["starter"], *SITUATIONS["runbooks"]]:
        assert {*each.warned}.isdisjoint({*each.best, *each.acceptable}), each.id
        assert each.warned or each.best, each.id


def test_neither_training_nor_tuning_knows_any_of_them_and_none_is_there_twice() -> None:
    asked = Counter(each.query.casefold() for situations in SITUATIONS.values() for each in situations)
    known = {query.query.casefold() for catalog in JUDGED for query in read_judgements(catalog.judgements)}
    known |= {example.query.casefold() for example in collect().queries}
    assert max(asked.values()) == 1
    assert asked.keys() & known == set()


@pytest.mark.parametrize(
    ("note", "quoted"),
    [
        ("before a run, check when_not_to_use of a (… One of three is down: replace it.)", True),
        ("before a run, check when_not_to_use of a (One of three is…)", True),
        ("before a run, check when_not_to_use of a (One of…)", False),
        ("weak match", False),
    ],
)
def test_a_clause_is_quoted_where_most_of_it_is_from_its_beginning(note: str, quoted: bool) -> None:
    assert quotes(["other", note], clause="One of three is down: replace it.") is quoted


def test_shares_are_of_first_answers_that_are_excluded_and_of_right_ones() -> None:
    clause = "The disk is full."
    warned = Situation(id="1", query="q", warned=("a",), best=("b",), clause=clause)
    near = Situation(id="2", query="q", best=("b",), clause=clause)

    def answered(
        situation: Situation, first: str, confidence: float, *, notes: Sequence[str] = (), caution: str = ""
    ) -> tuple[Situation, Answered]:
        answer = Answered(
            judgement=situation.judgement,
            variant=Variant.PLAIN,
            rankings={OURS: [first]},
            confidences=[confidence],
            mode="hybrid",
            allowed=2,
            notes=notes,
            caution=caution,
        )
        return situation, answer

    summary = summarise(
        [
            answered(warned, "a", 0.9, notes=[f"check a ({clause})"]),
            answered(warned, "a", 0.2, caution="its when_not_to_use speaks of: disk full"),
            answered(warned, "b", 0.9),
            answered(near, "b", 0.9, caution="its when_not_to_use speaks of: disk full"),
            answered(near, "a", 0.9),
        ]
    )

    def shares(kind: str) -> tuple[int, float, float, float]:
        found = summary[kind]
        return found.answers, found.high, found.cautioned, found.quoted

    assert shares("excluded by its author") == (2, 0.5, 0.5, 0.5)
    assert shares("excluded by its author, 0.5 or more") == (1, 1, 0, 1)
    assert shares("right, near a clause") == (1, 1, 1, 0)
