"""Where one clause of a text ends and the next begins."""

import pytest

from formulary_catalog.domain.text import sentences


@pytest.mark.parametrize(
    ("text", "parted"),
    [
        ("", []),
        ("- \n- ", []),
        ("- a leak\n- a Job", ["a leak", "a Job"]),
        ("One is down: replace it. None survived.", ["One is down: replace it.", "None survived."]),
        ("Not for a leak; take the other; not for a Job", ["Not for a leak; take the other;", "not for a Job"]),
        (
            "Not for brokers (kafka).\n`istiod` hangs! Über all?",
            ["Not for brokers (kafka).", "`istiod` hangs!", "Über all?"],
        ),
        ("Databases, e.g. Redis vs. Kafka etc. The 2.5 GB", ["Databases, e.g. Redis vs. Kafka etc. The 2.5 GB"]),
        ('It says "full." Then clean.', ['It says "full."', "Then clean."]),
        (
            "Not if\n- istio hangs\n* the heap\n  is full\n2. a Job",
            ["Not if", "istio hangs", "the heap is full", "a Job"],
        ),
        ("磁盘已满。内存不足\uff01", ["磁盘已满。", "内存不足\uff01"]),
        ("in v1.31. the node", ["in v1.31. the node"]),
    ],
)
def test_a_text_is_parted_at_sentences_conditions_and_lines_of_lists(text: str, parted: list[str]) -> None:
    assert sentences(text) == parted


def test_many_empty_lines_are_passed_over_once() -> None:
    """Looked at again from each line before, these take longer than a test may."""
    assert sentences("a" + "\n" * 100_000 + "b") == ["a b"]
