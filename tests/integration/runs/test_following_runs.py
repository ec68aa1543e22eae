"""The operator looks at runs that are under way soon, however many others wait for somebody."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import asyncpg

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.halting import HaltReader, HaltWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.runs.poller import RunPoller
from formulary_operator.watch.queue import ObjectKey, WorkQueue
from support.runs import HARMLESS, request

WAITING = 400
PATIENCE_SECONDS = 8.0


async def _many_waiting(database: str, *, like: str) -> None:
    owner = await asyncpg.connect(database)
    try:
        await owner.execute(
            """
            insert into formulary.invocation
            select copied.* from formulary.invocation original, generate_series(1, $2) as number,
                jsonb_populate_record(
                    original, jsonb_build_object('id', 'inv-' || number, 'object_name', 'inv-' || number)) as copied
            where original.id = $1
            """,
            like,
            WAITING,
        )
    finally:
        await owner.close()


async def test_runs_that_wait_for_an_approval_do_not_slow_those_that_run(writing: Database, database: str) -> None:
    runs = RunWriter(writing, shared_namespace="formulary")
    waiting = (await runs.submit(request(facts=replace(HARMLESS, environment="production")))).invocation
    await _many_waiting(database, like=waiting.id)
    running = (await runs.submit(request())).invocation
    await runs.begin(running.id)
    looks = await _looked_at(runs, writing, until=lambda looks: Counter(looks)[running.object_name] >= 2)
    assert len(set(looks)) == WAITING + 2, "the others were looked at once"


async def test_a_halt_ends_what_runs_before_it_ends_the_many_that_wait(writing: Database, database: str) -> None:
    runs = RunWriter(writing, shared_namespace="formulary")
    waiting = (await runs.submit(request(facts=replace(HARMLESS, environment="production")))).invocation
    await _many_waiting(database, like=waiting.id)
    running = (await runs.submit(request())).invocation
    await runs.begin(running.id)
    await HaltWriter(writing).halt(namespace="", reason="smoke", by="ada")
    looks = await _looked_at(runs, writing, until=lambda looks: len(looks) > WAITING)
    assert looks[0] == running.object_name


async def _looked_at(runs: RunWriter, database: Database, *, until: Callable[[list[str]], bool]) -> list[str]:
    """The objects of runs in the order in which one worker is given them, until that is enough."""
    queue: WorkQueue[ObjectKey] = WorkQueue()
    looks: list[str] = []
    enough = asyncio.Event()

    async def look(key: ObjectKey) -> None:
        looks.append(key.name)
        if until(looks):
            enough.set()

    following = RunPoller(runs=runs, halts=HaltReader(database), queue=queue, metrics=OperatorMetrics(), namespaces=())
    tasks = [
        asyncio.create_task(following.keep_looking()),
        asyncio.create_task(queue.work(look, failed=lambda key, error: None)),
    ]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await enough.wait()
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return looks
