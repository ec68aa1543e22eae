"""Mixed traffic while one thing or all go wrong; `make soak` does the same for longer."""

import asyncio
import os
from typing import Any

import pytest
from soak.soak import soak
from soak.table import show


@pytest.mark.parametrize(
    "length",
    [
        pytest.param({"only": "database crashed"}, id="a crash"),
        pytest.param({"minutes": 2}, id="two minutes", marks=[pytest.mark.long, pytest.mark.timeout(1500)]),
    ],
)
async def test_no_answer_is_wrong_and_none_is_lost_from_the_trail_whatever_fails_meanwhile(
    length: dict[str, Any],
) -> None:
    result = await asyncio.to_thread(soak, **length)
    show(result)

    assert result.problems == []
    assert result.skipped == [] or os.geteuid() != 0
