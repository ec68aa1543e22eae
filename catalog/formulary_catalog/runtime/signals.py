"""Signals that stop a serving process: the first one gracefully, the second one at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a process that was stopped before it had done what it was for."""


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
