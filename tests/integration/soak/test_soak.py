"""Two minutes of mixed traffic while one thing after another goes wrong; `make soak` does the same for longer."""

import asyncio
import os

import pytest
from soak.soak import soak
from soak.table import show


@pytest.mark.timeout(1500)
async def test_no_answer_is_wrong_and_none_is_lost_from_the_trail_whatever_fails_meanwhile() -> None:
    result = await asyncio.to_thread(soak, minutes=2)
    show(result)

    assert result.problems == []
    assert result.skipped == [] or os.geteuid() != 0
    assert set(result.answers) == {"search", "selection", "details"}
