"""Queries that repeat what they should find, so that they measure nothing."""

from dataset import Problem
from formulary_catalog.domain.text import words


def repeating_queries(problem: Problem) -> list[str]:
    """Symptoms and paraphrases that share three words in a row with the document of their problem."""
    document = _runs_of_three(problem.embedding_text)
    queries = (query for kind in ("symptom", "paraphrase") for query in problem.queries.get(kind, ()))
    return [query for query in queries if _runs_of_three(query) & document]


def _runs_of_three(text: str) -> set[tuple[str, ...]]:
    """All runs of three words, in any case."""
    found = [word.casefold() for word in words(text)]
    return set(zip(found, found[1:], found[2:], strict=False))
