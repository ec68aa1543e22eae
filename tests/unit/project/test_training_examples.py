"""What the adapter of the bundled embedding model is trained on: of the right form, and nothing that measures it."""

import hashlib
import json
from collections import Counter
from typing import Any

import pytest
import yaml
from safetensors import safe_open

from dataset import PROBLEMS, ROOT, Examples, collect, read_problems
from formulary_catalog.domain.text import words
from support.wording import repeating_queries

EMBEDDING = ROOT / "catalog" / "formulary_catalog" / "embedding"
EXAMPLES = PROBLEMS.parent / "examples.json"
JUDGED = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def committed() -> Examples:
    return Examples.model_validate_json(EXAMPLES.read_bytes())


@pytest.fixture(scope="module")
def origin() -> dict[str, Any]:
    """What the adapter says that it was made of."""
    with safe_open(EMBEDDING / "adapter.safetensors", framework="numpy") as adapter:
        found: dict[str, Any] = json.loads(adapter.metadata()["origin"])
    return found


def held_queries() -> list[str]:
    """Of all judged sets in the repository."""
    read: list[dict[str, Any]] = [
        query
        for file in sorted(JUDGED.glob("**/judgements/*.yaml"))
        for query in yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
    ]
    return [query["query"] for query in read if query["part"] == "held"]


def test_the_committed_examples_are_those_that_the_adapter_was_trained_on(origin: dict[str, Any]) -> None:
    assert hashlib.sha256(EXAMPLES.read_bytes()).hexdigest() == origin["examples_sha256"]


def test_the_adapter_names_the_base_that_it_was_trained_for(origin: dict[str, Any]) -> None:
    weights = EMBEDDING / "all-MiniLM-L6-v2" / "model.safetensors"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == origin["base_sha256"]


def test_the_committed_examples_hold_every_problem_and_each_of_its_queries(committed: Examples) -> None:
    now = collect()
    problems = read_problems()
    assert committed.documents[: len(problems)] == tuple(problem.embedding_text for problem in problems)
    count = sum(len(queries) for problem in problems for queries in problem.queries.values())
    assert committed.queries[:count] == now.queries[:count]


def test_examples_survive_being_written_and_read(committed: Examples) -> None:
    assert committed.as_json() == EXAMPLES.read_text(encoding="utf-8")
    assert Examples.model_validate_json(collect().as_json()) == collect()


def test_each_example_has_right_documents_that_are_there(committed: Examples) -> None:
    for example in committed.queries:
        assert example.best
        assert set(example.best).isdisjoint(example.acceptable)
        assert all(0 <= index < len(committed.documents) for index in (*example.best, *example.acceptable))


def test_no_held_query_is_an_example(committed: Examples) -> None:
    held = held_queries()
    assert len(held) > 100
    # An embedded query may have its severity cut out and its compound words appended.
    shown = {frozenset(word.casefold() for word in words(example.query)) for example in committed.queries}
    assert not [query for query in held if frozenset(word.casefold() for word in words(query)) in shown]
    assert not {query.casefold() for query in held} & {example.query.casefold() for example in committed.queries}


def test_there_are_hundreds_of_texts_about_many_problems() -> None:
    problems = read_problems()
    queries = [query for problem in problems for kind in problem.queries.values() for query in kind]
    assert len(problems) >= 100
    assert len(queries) >= 500
    assert [name for name, count in Counter(problem.name for problem in problems).items() if count > 1] == []
    assert [query for query, count in Counter(queries).items() if count > 1] == []


def test_symptoms_and_paraphrases_use_other_words_than_the_document() -> None:
    problems = read_problems()
    assert [problem.name for problem in problems if sum(map(len, problem.queries.values())) < 3] == []
    assert [query for problem in problems for query in repeating_queries(problem)] == []
