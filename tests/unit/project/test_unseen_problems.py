"""The problems that measure searches and that nothing is fitted on: of the right form, and unknown to training."""

from collections import Counter

import pytest
import yaml

from bench_problems import PROBLEMS, judgements, summarise, workflows
from dataset import collect, read_problems
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from quality_judgements import CATALOGS, read_judgements
from quality_summary import OURS, OVERALL, Answered
from quality_variants import Variant
from support.manifest import text
from support.wording import repeating_queries

UNSEEN = read_problems(PROBLEMS)


def test_there_are_many_and_none_is_there_twice() -> None:
    queries = Counter(" ".join(each.query.casefold().split()) for each in judgements(UNSEEN))
    assert len(UNSEEN) == len({each.name for each in UNSEEN}) >= 150
    assert queries.total() >= 1000
    assert [query for query, times in queries.items() if times > 1] == []


def test_neither_training_nor_tuning_knows_any_of_them() -> None:
    asked = {each.query.casefold() for each in judgements(UNSEEN)}
    trained = {example.query.casefold() for example in collect().queries}
    trained |= {query.casefold() for each in read_problems() for kind in each.queries.values() for query in kind}
    tuned = {each.query.casefold() for catalog in CATALOGS for each in read_judgements(catalog.judgements)}
    assert asked & (trained | tuned) == set()
    assert {each.name for each in UNSEEN} & {each.name for each in read_problems()} == set()


def test_a_symptom_or_paraphrase_uses_other_words_than_its_problem() -> None:
    assert [problem.name for problem in UNSEEN if sum(map(len, problem.queries.values())) < 6] == []
    assert [query for problem in UNSEEN for query in repeating_queries(problem)] == []


def test_each_is_a_workflow_of_its_texts_that_no_label_excludes() -> None:
    for problem, document in zip(UNSEEN, yaml.safe_load_all(text(*workflows(UNSEEN))), strict=True):
        workflow = RemediationWorkflow.model_validate(document)
        assert workflow.metadata.name == problem.name
        assert (workflow.spec.description.what, workflow.spec.description.when_to_use) == (
            problem.what,
            problem.when_to_use,
        )


def test_ranks_are_summed_up_by_kind_and_overall() -> None:
    asked = [each for each in judgements(UNSEEN[:2]) if each.id.startswith(("symptom", "pager"))]
    places = {each.id: number % 2 + 1 for number, each in enumerate(asked)}
    answers = [
        Answered(
            judgement=each,
            variant=Variant.PLAIN,
            rankings={OURS: [*["other"] * (places[each.id] - 1), *each.best]},
            confidences=[],
            mode="hybrid",
            allowed=2,
        )
        for each in asked
    ]
    summary = summarise(answers)
    assert [kind.split(",")[0] for kind in summary][-1] == OVERALL
    assert summary[f"{OVERALL}, {len(asked)}"][OURS].mean == pytest.approx(
        sum(1 / place for place in places.values()) / len(asked)
    )
