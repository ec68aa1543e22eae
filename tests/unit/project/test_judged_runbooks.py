"""The judged queries on runbooks keep to the rules of `benchmarks/knowledge/README.md`."""

from collections.abc import Sequence

import pytest

from bench_knowledge import COSINE, HERE, HYBRID, WORDS, read_queries, summarise

FILES = {file.name for file in (HERE / "runbooks").glob("*.md")}


def test_every_runbook_is_right_for_a_query_and_every_answer_is_a_runbook() -> None:
    judged = read_queries()
    assert {file for _, best in judged for file in best} == FILES
    assert all(best for _, best in judged)
    assert len({query for query, _ in judged}) == len(judged)
    assert len(FILES) >= 30


@pytest.mark.parametrize(
    ("hybrid", "mrr", "first"),
    [([["a"], ["b"]], 1.0, 1.0), ([["x", "a"], ["b"]], 0.75, 0.5), ([["x"], []], 0.0, 0.0)],
)
def test_the_place_of_the_first_right_file_counts(hybrid: Sequence[Sequence[str]], mrr: float, first: float) -> None:
    rankings = {HYBRID: hybrid, WORDS: hybrid, COSINE: [["a"], ["x", "b"]]}
    summary = summarise(rankings, best=[["a"], ["b", "c"]])
    assert (summary[HYBRID]["MRR@10"].mean, summary[HYBRID]["recall@1"].mean) == (mrr, first)
    assert summary[COSINE]["MRR@10"].mean == 0.75
    assert summary["hybrid minus plain cosine"]["MRR@10"].mean == mrr - 0.75
