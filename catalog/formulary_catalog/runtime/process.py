"""The life of a serving process: what stops it, its background work, and its garbage collector.

The first signal stops it gracefully, the second one at once. Background work must not end unnoticed. A full collection
looks at every object that may be part of a cycle, while no call is answered: 180,000 are there from the start, which
takes 110 ms. So `serve` and `up` call `spare_what_stays` once they are ready, and the server that is measured does.
`stdio` imports without collections: they would find nothing, and take a tenth of the time.
"""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import structlog

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a process that was stopped before it had done what it was for."""
_log = structlog.get_logger(__name__)


def run_until_stopped(work: Callable[[], Coroutine[Any, Any, None]], *, if_cancelled: int = 0) -> None:
    """Run to its end; ends the process with `if_cancelled` where a signal came before.

    The first SIGINT or SIGTERM cancels it, and what it started is stopped; another one ends the process on the spot,
    which the embedded PostgreSQL notices and follows.

    A server that runs within handles the signals itself meanwhile, and gives them back with `hurry_on_signals`.
    """

    async def interruptible() -> bool:
        task = asyncio.ensure_future(work())

        def stop() -> None:
            hurry_on_signals()
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop)
        with suppress(asyncio.CancelledError):
            await task
        return task.cancelled()

    if asyncio.run(interruptible()) and if_cancelled:
        raise SystemExit(if_cancelled)


def hurry_on_signals() -> None:
    """From here on a signal ends the process on the spot: what is left to do is tidying up."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, os._exit, 128 + number)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` while the block runs, then cancel it. If it fails, the log says so and the block goes on."""
    task = asyncio.create_task(work)
    task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("background_work_failed", work=task.get_name(), exc_info=error)


def spare_what_stays() -> None:
    """Let full collections look at objects that come later alone. Call it when all is loaded; what is garbage goes."""
    gc.collect()
    gc.freeze()


@contextmanager
def importing() -> Iterator[None]:
    """No collections meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
