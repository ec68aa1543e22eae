"""Two versions of a manifest side by side."""

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.workflows.difference import MAX_LINES, Row, Side, manifest_lines, side_by_side
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from support.manifest import workflow

lines = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=30)


def dumped(**spec: Any) -> list[str]:
    return manifest_lines(RemediationWorkflow.model_validate(workflow("drain", **spec)))


@given(older=lines, newer=lines)
def test_what_is_shown_of_each_side_is_there_in_its_order_and_all_that_differs_is_shown(
    older: list[str], newer: list[str]
) -> None:
    rows = side_by_side(older, newer)
    assert (rows == []) == (older == newer)
    for side, whole in (("older", older), ("newer", newer)):
        shown = [getattr(row, side) for row in rows if row.side is not Side.LEFT_OUT and getattr(row, side)]
        left = iter(whole)
        assert all(each in left for each in shown)
    same = [row for row in rows if row.side is Side.SAME]
    assert all(row.older == row.newer for row in same)
    changed = [row for row in rows if row.side is Side.CHANGED]
    assert all(row.older and row.newer for row in changed)


def test_a_changed_line_stands_beside_what_it_was() -> None:
    rows = side_by_side(dumped(title="Drain the node"), dumped(title="Drain a node", version="1.1.0"))
    assert Row(Side.CHANGED, "title: Drain the node", "title: Drain a node") in rows
    assert Row(Side.CHANGED, "version: 1.0.0", "version: 1.1.0") in rows
    assert sum(row.side is not Side.SAME for row in rows if row.side is not Side.LEFT_OUT) == 2


def test_long_equal_parts_are_left_out() -> None:
    same = [f"line {number}" for number in range(100)]
    rows = side_by_side([*same, "old"], [*same, "new"])
    assert rows[0].side is Side.LEFT_OUT
    assert len(rows) < 10


def test_custom_labels_are_no_part_of_it() -> None:
    shown = "\n".join(dumped(customLabels={"k3y-team": ["v4lue-payments"]}))
    assert "k3y-team" not in shown
    assert "v4lue-payments" not in shown


def test_texts_of_several_lines_are_compared_line_by_line() -> None:
    steps = [{"name": "one", "command": "echo 1\necho 2"}]
    assert "    echo 2" in dumped(steps=steps)


def test_the_worst_that_can_be_compared_takes_no_second() -> None:
    older = [f"{number % 7}" for number in range(10 * MAX_LINES)]
    newer = [f"{number % 5}" for number in range(10 * MAX_LINES)]
    began = time.process_time()
    side_by_side(older, newer)
    assert time.process_time() - began < 1
