"""Background work of a serving process, which must not end unnoticed."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


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
