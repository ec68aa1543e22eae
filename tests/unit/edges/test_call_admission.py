"""How many calls run, how many wait, and what the others are told."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from formulary_catalog.edges.http.concurrency import Admission, Lane
from formulary_catalog.errors import Overloaded
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import Settings


def lane(metrics: Metrics, *, at_once: int = 2, waiting: int = 1, patience: float = 30.0) -> Lane:
    return Lane("catalog", at_once=at_once, waiting=waiting, patience=patience, metrics=metrics)


def observed(metrics: Metrics) -> dict[tuple[str, str], float]:
    """The samples about calls, by metric and reason."""
    return {
        (sample.name, sample.labels.get("reason", "")): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name.startswith("formulary_calls")
    }


class Callers:
    """Calls that hold their slot until they are told to end."""

    def __init__(self, to: Lane) -> None:
        self._lane = to
        self._end = asyncio.Event()
        self._running: list[asyncio.Task[bool]] = []
        self.began: list[str] = []

    def come(self, number: int, *, of: str = "somebody") -> list["asyncio.Task[bool]"]:
        """So many more of one caller; each tells whether it had to wait."""
        came = [asyncio.create_task(self._call(of)) for _ in range(number)]
        self._running += came
        return came

    def end(self) -> None:
        self._end.set()

    async def _call(self, caller: str) -> bool:
        async with self._lane.slot(caller) as waited:
            self.began.append(caller)
            await self._end.wait()
            return waited


@asynccontextmanager
async def callers(to: Lane) -> AsyncIterator[Callers]:
    made = Callers(to)
    yield made
    made.end()
    await asyncio.gather(*made._running, return_exceptions=True)


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_some_run_some_wait_and_the_others_are_told_at_once_when_to_come_back() -> None:
    metrics = Metrics()
    async with callers(lane(metrics)) as made:
        running, waiting, refused = made.come(2), made.come(1), made.come(2)
        await asyncio.wait(refused)
        held = observed(metrics)
        made.end()
        waited = [await call for call in (*running, *waiting)]

    errors = [call.exception() for call in refused]
    assert [type(error) for error in errors] == [Overloaded, Overloaded]
    assert "2 calls run and 1 wait; retry in " in str(errors[0])
    assert waited == [False, False, True]
    assert held["formulary_calls_in_work", ""] == 2
    assert held["formulary_calls_waiting", ""] == 1
    assert held["formulary_calls_refused_total", "full"] == 2
    after = observed(metrics)
    assert (after["formulary_calls_in_work", ""], after["formulary_calls_waiting", ""]) == (0, 0)


async def test_nobody_waits_longer_than_the_patience_and_the_place_is_free_again() -> None:
    metrics = Metrics()
    bounded = lane(metrics, at_once=1, patience=1)
    async with callers(bounded) as made:
        made.come(1)
        (late,) = made.come(1)
        await asyncio.wait([late])
        (next_one,) = made.come(1)
        await _settled()
        held = observed(metrics)
        made.end()
        assert isinstance(late.exception(), Overloaded)
        assert await next_one
    assert held["formulary_calls_refused_total", "late"] == 1
    assert held["formulary_calls_waiting", ""] == 1


async def test_a_caller_that_gives_up_waiting_leaves_no_slot_behind() -> None:
    bounded = lane(Metrics(), at_once=1, waiting=5)
    async with callers(bounded) as made:
        made.come(1)
        gone, follower = made.come(2)
        await _settled()
        gone.cancel()
        await _settled()
        made.end()
        assert await asyncio.wait_for(follower, timeout=30)
    async with bounded.slot("somebody") as waited:
        assert not waited


async def test_calls_are_worked_on_in_the_order_in_which_they_came() -> None:
    bounded, order = lane(Metrics(), at_once=1, waiting=20), list[int]()

    async def call(number: int) -> None:
        async with bounded.slot("somebody"):
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*(call(number) for number in range(20)))

    assert order == list(range(20))


async def test_those_who_heed_the_hint_do_not_come_back_together() -> None:
    async with callers(lane(Metrics(), at_once=1, waiting=0)) as made:
        made.come(1)
        refused = made.come(40)
        await asyncio.wait(refused)
        hints = [error.retry_after for call in refused if isinstance(error := call.exception(), Overloaded)]

    assert len(hints) == 40
    assert 1 <= min(hints) < max(hints) <= 4
    assert len(set(hints)) > 10


async def test_a_bounded_number_of_refusals_takes_its_time_and_the_others_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    async with callers(lane(Metrics(), at_once=1, waiting=0)) as made:
        with monkeypatch.context() as patch:
            patch.setattr(loop, "time", lambda: now)  # no timer ends meanwhile, however slow the machine
            made.come(1)
            refused = made.come(300)
            await _settled()
            told_at_once = sum(call.done() for call in refused)
        await asyncio.wait(refused)

    assert told_at_once == 300 - 256


async def test_a_caller_alone_may_have_everything() -> None:
    metrics = Metrics()
    async with callers(lane(metrics, at_once=4, waiting=8)) as made:
        made.come(12, of="greedy")
        await _settled()
        held = observed(metrics)

    assert (held["formulary_calls_in_work", ""], held["formulary_calls_waiting", ""]) == (4, 8)


async def test_another_caller_gets_the_next_slot_of_one_who_has_more_than_half() -> None:
    order, bounded = list[str](), lane(Metrics(), at_once=4, waiting=40)

    async def call(caller: str) -> None:
        async with bounded.slot(caller):
            order.append(caller)
            await asyncio.sleep(0.001)

    await asyncio.gather(*(call("greedy") for _ in range(20)), *(call("modest") for _ in range(4)))

    assert order[:4] == ["greedy"] * 4
    assert order[4:10].count("modest") >= 3


async def test_who_has_more_than_half_of_the_places_makes_place_for_others_as_far_as_that() -> None:
    metrics = Metrics()
    async with callers(lane(metrics, at_once=1, waiting=4)) as made:
        made.come(1)
        greedy = made.come(4, of="greedy")
        await _settled()
        modest = made.come(3, of="modest")
        await asyncio.wait([*greedy[2:], modest[2]])
        held = observed(metrics)
        made.end()
        waited = [await call for call in (*greedy[:2], *modest[:2])]

    assert all(isinstance(call.exception(), Overloaded) for call in (*greedy[2:], modest[2]))
    assert waited == [True] * 4
    assert held["formulary_calls_waiting", ""] == 4
    assert held["formulary_calls_refused_total", "full"] == 3


async def test_whatever_callers_do_every_slot_is_free_in_the_end() -> None:
    metrics, chance = Metrics(), random.Random(3)
    bounded = lane(metrics, at_once=3, waiting=6, patience=0.004)

    async def call() -> None:
        with suppress(Overloaded, TimeoutError):
            async with asyncio.timeout(chance.uniform(0.001, 0.01)), bounded.slot(chance.choice("aaab")):
                await asyncio.sleep(chance.uniform(0, 0.003))

    await asyncio.gather(*(call() for _ in range(100)))
    for _ in range(20):
        await asyncio.gather(*(call() for _ in range(15)))

    held = observed(metrics)
    assert (held["formulary_calls_in_work", ""], held["formulary_calls_waiting", ""]) == (0, 0)
    async with callers(bounded) as made:
        made.come(3)
        await _settled()
        assert len(made.began) == 3


def message(method: str, **params: Any) -> Mapping[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


CATALOG = [
    ("/mcp", message("tools/call", name="search_workflow_catalog")),
    ("/mcp", message("tools/call", name="get_playbook_details")),
    ("/mcp", message("tools/call", name="governance_gate")),
    ("/mcp", message("resources/read", uri="workflow://formulary/restart")),
    ("/api/v1/workflows/search", {}),
    ("/api/v1/workflows", {}),
    ("/api/v1/workflows/restart", {}),
    ("/api/v1/selections", {}),
    ("/api/v1/documents", {}),
    ("/api/v1/documents/similar", {}),
    ("/api/v1/collections", {}),
    ("/api/v1/analytics/query", {}),
    ("/console/search", {}),
]
RUNS = [
    ("/mcp", message("tools/call", name="invoke_workflow")),
    ("/mcp", message("tools/call", name="get_invocation_status")),
    ("/api/v1/invoke", {}),
    ("/api/v1/invocations/inv-1", {}),
    ("/api/v1/invocations/inv-1/approval", {}),
    ("/api/workflow/status/inv-1", {}),
]
PROTOCOL = [
    ("/mcp", message("initialize")),
    ("/mcp", message("tools/list")),
    ("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ("/mcp", message("tools/call", name="unknown")),
    ("/mcp", message("tools/call", name=["not", "a", "name"])),
    ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": None}),
    ("/api/v1/openapi.json", {}),
    ("/api/v1/halts", {}),
    ("/api/v1/halts/lift", {}),
    ("/console/rules/halts", {}),
    ("/console/sign-in", {}),
    ("/nothing", {}),
]


@pytest.mark.parametrize(("path", "said"), RUNS)
def test_calls_that_may_wait_for_a_run_take_no_slot_of_a_search(path: str, said: Mapping[str, Any]) -> None:
    admission = Admission(Settings(), metrics=Metrics())
    others = {id(admission.lane(*other)) for other in (*CATALOG, *PROTOCOL)}

    assert id(admission.lane(path, said)) not in others


@pytest.mark.parametrize(("path", "said"), PROTOCOL)
def test_what_clients_begin_with_waits_for_no_search(path: str, said: Mapping[str, Any]) -> None:
    admission = Admission(Settings(), metrics=Metrics())
    others = {id(admission.lane(*other)) for other in (*CATALOG, *RUNS)}

    assert id(admission.lane(path, said)) not in others


def test_all_that_asks_the_catalog_shares_its_slots() -> None:
    admission = Admission(Settings(), metrics=Metrics())

    assert len({id(admission.lane(path, said)) for path, said in CATALOG}) == 1
