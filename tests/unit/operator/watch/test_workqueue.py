"""The work queue: once each, never two at a time on one key, failures again later, nobody held up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hypothesis import given
from hypothesis import strategies as st

from formulary_operator.watch.queue import LONGEST_PAUSE, Priority, WorkQueue, pause_after

BOUND = 10.0


@asynccontextmanager
async def working(
    queue: WorkQueue[str], handle: Callable[[str], Awaitable[None]], *, workers: int = 3
) -> AsyncIterator[list[tuple[str, Exception]]]:
    failures: list[tuple[str, Exception]] = []
    tasks = [
        asyncio.create_task(queue.work(handle, failed=lambda key, error: failures.append((key, error))))
        for _ in range(workers)
    ]
    try:
        async with asyncio.timeout(BOUND):
            yield failures
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_key_that_is_added_often_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    handled: Counter[str] = Counter()

    async def handle(key: str) -> None:
        handled[key] += 1

    for key in ["a", "b", "a", "a", "b"]:
        queue.add(key)
    async with working(queue, handle):
        await queue.settled()
    assert handled == {"a": 1, "b": 1}
    assert len(queue) == 0


async def test_a_key_that_changes_while_it_is_worked_on_is_worked_on_again_and_never_twice_at_a_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begun, go_on = asyncio.Event(), asyncio.Event()
    running, most, total = 0, 0, 0

    async def handle(key: str) -> None:
        nonlocal running, most, total
        running, total = running + 1, total + 1
        most = max(most, running)
        begun.set()
        await go_on.wait()
        running -= 1

    queue.add("a")
    async with working(queue, handle):
        await begun.wait()
        queue.add("a")
        queue.add("a")
        assert "a" in queue
        go_on.set()
        await queue.settled()
    assert (most, total) == (1, 2)


async def test_a_poisoned_key_holds_up_nobody_and_is_tried_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    handled: Counter[str] = Counter()
    healed = asyncio.Event()

    async def handle(key: str) -> None:
        handled[key] += 1
        if key == "poisoned" and handled[key] < 3:
            raise ValueError("bad")
        if key == "poisoned":
            healed.set()

    queue.add("poisoned")
    for number in range(20):
        queue.add(f"good-{number}")
    async with working(queue, handle, workers=1) as failures:
        await queue.settled()
        assert sum(handled[f"good-{number}"] for number in range(20)) == 20
        assert "poisoned" in queue
        await healed.wait()
        await queue.settled()
    assert [key for key, _ in failures] == ["poisoned", "poisoned"]
    assert "poisoned" not in queue


async def test_a_new_change_ends_the_pause_of_a_failed_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    attempts = 0

    async def handle(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts <= 6:
            raise ValueError("bad")

    queue.add("a")
    async with working(queue, handle):
        for expected in range(1, 8):
            await queue.settled()
            assert attempts == expected
            queue.add("a")


async def test_pauses_can_be_abandoned_at_the_end() -> None:
    queue: WorkQueue[str] = WorkQueue()

    async def handle(key: str) -> None:
        raise ValueError("bad")

    queue.add("a")
    async with working(queue, handle):
        await queue.settled()
        assert len(queue) == 1
        queue.abandon_pauses()
        assert len(queue) == 0


@given(failures=st.integers(min_value=1, max_value=10_000), jitter=st.floats(min_value=0, max_value=1))
def test_pauses_grow_and_stay_bounded(failures: int, jitter: float) -> None:
    pause = pause_after(failures, jitter=jitter)
    assert 0 < pause <= LONGEST_PAUSE
    assert pause_after(failures + 1, jitter=jitter) >= pause


async def test_what_is_urgent_goes_first_and_what_a_comparison_found_last() -> None:
    queue: WorkQueue[str] = WorkQueue()
    handled: list[str] = []

    async def handle(key: str) -> None:
        handled.append(key)

    queue.add("compared", Priority.COMPARED)
    queue.add("hurried", Priority.COMPARED)
    queue.add("changed")
    queue.add("urgent", Priority.URGENT)
    queue.add("hurried", Priority.URGENT)
    assert len(queue) == 4
    async with working(queue, handle, workers=1):
        await queue.settled()
    assert handled == ["urgent", "hurried", "changed", "compared"]
