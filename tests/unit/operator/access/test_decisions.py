"""How long answers on callers are kept, and how often they are asked for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from formulary_catalog.errors import Unavailable
from formulary_operator.access.reviews import (
    BRIEF_SECONDS,
    LASTING_SECONDS,
    OF_ONE_ASKER,
    QUESTIONS_AT_ONCE,
    Decision,
    ReviewCache,
)


class World:
    """A time that only a test moves, and an API server that says what a test wants."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.granted = True
        self.asked = 0
        self.error: Exception | None = None
        self.was_asked = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()

    async def ask(self) -> Decision[bool]:
        self.asked += 1
        self.was_asked.set()
        await self.answering.wait()
        if self.error is not None:
            raise self.error
        return Decision(value=self.granted, lasting=self.granted)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def kept(world: World) -> AsyncIterator[ReviewCache[bool]]:
    opened: ReviewCache[bool] = ReviewCache(clock=lambda: world.now)
    yield opened
    await opened.close()


async def test_a_grant_is_kept_for_a_minute_at_most_and_a_denial_for_seconds() -> None:
    assert LASTING_SECONDS <= 60
    assert BRIEF_SECONDS <= 10


@pytest.mark.parametrize(("granted", "seconds"), [(True, LASTING_SECONDS), (False, BRIEF_SECONDS)])
async def test_an_answer_is_kept_for_its_time(
    world: World, kept: ReviewCache[bool], granted: bool, seconds: float
) -> None:
    world.granted = granted
    assert await kept.decide("q", world.ask, asker="somebody") is granted
    world.granted = not granted
    world.now += seconds - 0.1
    assert await kept.decide("q", world.ask, asker="somebody") is granted
    world.now += 0.2
    assert await kept.decide("q", world.ask, asker="somebody") is not granted
    assert world.asked == 2


async def test_an_error_is_raised_and_never_kept(world: World, kept: ReviewCache[bool]) -> None:
    world.error = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await kept.decide("q", world.ask, asker="somebody")
    world.error = None
    assert await kept.decide("q", world.ask, asker="somebody")


async def test_an_error_does_not_lengthen_what_was_granted_before(world: World, kept: ReviewCache[bool]) -> None:
    await kept.decide("q", world.ask, asker="somebody")
    world.now += LASTING_SECONDS
    world.error = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await kept.decide("q", world.ask, asker="somebody")


async def test_those_who_ask_the_same_at_once_ask_once(world: World, kept: ReviewCache[bool]) -> None:
    world.answering.clear()
    asking = [asyncio.create_task(kept.decide("q", world.ask, asker="somebody")) for _ in range(50)]
    await asyncio.wait_for(world.was_asked.wait(), timeout=30)
    world.answering.set()
    assert await asyncio.gather(*asking) == [True] * 50
    assert world.asked == 1


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others(world: World, kept: ReviewCache[bool]) -> None:
    world.answering.clear()
    first, second = [asyncio.create_task(kept.decide("q", world.ask, asker="somebody")) for _ in range(2)]
    await asyncio.wait_for(world.was_asked.wait(), timeout=30)
    first.cancel()
    world.answering.set()
    assert await second


async def test_different_questions_have_different_answers(world: World, kept: ReviewCache[bool]) -> None:
    assert await kept.decide(("agent", "shop"), world.ask, asker="somebody")
    world.granted = False
    assert not await kept.decide(("agent", "bank"), world.ask, asker="somebody")


async def test_any_number_of_denials_pushes_no_grant_out(world: World) -> None:
    few: ReviewCache[bool] = ReviewCache(clock=lambda: world.now, capacity=10)
    await few.decide("known", world.ask, asker="somebody")
    world.granted = False
    for stranger in range(100):
        await few.decide(stranger, world.ask, asker="somebody")
    assert await few.decide("known", world.ask, asker="somebody")
    assert world.asked == 101


async def test_without_an_answer_in_time_nothing_is_allowed(world: World) -> None:
    kept: ReviewCache[bool] = ReviewCache(patience=0.05)
    world.answering.clear()
    with pytest.raises(Unavailable, match="retry"):
        await kept.decide("q", world.ask, asker="somebody")


async def test_who_comes_when_too_many_questions_wait_is_told_so_at_once(world: World) -> None:
    kept: ReviewCache[bool] = ReviewCache(waiting=3)
    world.answering.clear()
    asking = [asyncio.create_task(kept.decide(question, world.ask, asker="somebody")) for question in range(3)]
    await asyncio.wait_for(world.was_asked.wait(), timeout=30)
    with pytest.raises(Unavailable, match=r"too many callers .* retry"):
        await kept.decide("one more", world.ask, asker="somebody")
    known_question = asyncio.create_task(kept.decide(0, world.ask, asker="somebody"))
    world.answering.set()
    assert await asyncio.gather(*asking, known_question) == [True] * 4


async def test_one_asker_with_many_questions_leaves_slots_and_places_to_others(world: World) -> None:
    kept: ReviewCache[bool] = ReviewCache(waiting_each=10)
    world.answering.clear()
    crowd = [asyncio.create_task(kept.decide(("crowd", number), world.ask, asker="crowd")) for number in range(10)]
    await asyncio.wait_for(world.was_asked.wait(), timeout=30)
    with pytest.raises(Unavailable, match="too many callers"):
        await kept.decide("one more", world.ask, asker="crowd")
    world.was_asked.clear()
    other = asyncio.create_task(kept.decide("other", world.ask, asker="somebody"))
    await asyncio.wait_for(world.was_asked.wait(), timeout=30)

    assert world.asked == OF_ONE_ASKER + 1
    world.answering.set()
    assert await asyncio.gather(other, *crowd) == [True] * 11


async def test_what_was_granted_before_is_asked_again_without_standing_in_line(world: World) -> None:
    kept: ReviewCache[bool] = ReviewCache(clock=lambda: world.now, waiting=100)
    await kept.decide("known", world.ask, asker="somebody")
    world.now += LASTING_SECONDS
    world.answering.clear()
    crowd = [asyncio.create_task(kept.decide(number, world.ask, asker=number)) for number in range(100)]
    await asyncio.wait_for(_all_slots_taken(world), timeout=30)
    renewed = asyncio.create_task(kept.decide("known", world.ask, asker="somebody"))
    world.was_asked.clear()
    await asyncio.wait_for(world.was_asked.wait(), timeout=30)
    world.answering.set()

    assert await asyncio.gather(renewed, *crowd) == [True] * 101


async def _all_slots_taken(world: World) -> None:
    while world.asked <= QUESTIONS_AT_ONCE:
        world.was_asked.clear()
        await world.was_asked.wait()
