"""Answers to SQL of callers fit their reader, whatever is in the rows, and say what was left out."""

import json

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.analytics.answers import MAX_CELL, query_answer
from formulary_catalog.domain.visible import visible

CELLS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=MAX_CELL * 2)
MOST = 1000


@given(
    rows=st.integers(1, 6).flatmap(
        lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=30)
    ),
    max_rows=st.integers(1, 30),
    max_bytes=st.sampled_from([2048, 8192, 2**20]),
)
def test_an_answer_fits_and_says_what_was_left_out(rows: list[list[object]], max_rows: int, max_bytes: int) -> None:
    columns = [f"c{number}" for number in range(len(rows[0]) if rows else 1)]
    answer = query_answer("select 1", columns=columns, rows=rows, max_rows=max_rows, max_bytes=max_bytes)
    assert len(answer.model_dump_json().encode()) <= max_bytes
    assert answer.row_count == len(answer.data) <= max_rows
    assert answer.truncated is bool(answer.notes)
    cut = any(isinstance(cell, str) and len(cell) > MAX_CELL for row in rows[: answer.row_count] for cell in row)
    assert answer.truncated == (answer.row_count < len(rows) or cut)
    for row in answer.data:
        for cell in row.values():
            assert not isinstance(cell, str) or (cell == visible(cell) and len(cell) <= MAX_CELL)
    json.loads(answer.model_dump_json())
