"""Runs kopf, which watches the API server, in a thread of its own. What its events do is in `handlers`.

`runtime` starts it with the kinds that the cluster serves. The thread has an event loop of its own: on its way out kopf
cancels every task that is younger than itself, and it would take over the signals of the process.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import kopf
import structlog

from formulary_operator.api.names import Resource
from formulary_operator.watch.handlers import handlers
from formulary_operator.watch.queue import ObjectKey, Priority

_LOOP_SECONDS = 5.0
_STOP_SECONDS = 5.0
_STACK_BYTES = 64 * 1024**2
"""Objects may be nested as deep as the API server takes them, and kopf reads them recursively."""
_BEGIN_SECONDS = 60.0
_SUPERVISION_SECONDS = 1.0
_STREAM = "watcher for "
"""How kopf names the tasks of its streams. It has no other sign of one that ended, see `_supervise`."""
_log = structlog.get_logger(__name__)


class Watcher:
    """Watches the objects of these kinds until it is stopped.

    `changed` and `relisted` are called in the event loop that made the watcher: with each object that changed, and
    after each listing of something, from which deletions are missing.
    """

    def __init__(
        self,
        *,
        kinds: Sequence[Resource],
        namespaces: Collection[str],
        changed: Callable[[ObjectKey, Priority], None],
        relisted: Callable[[], None],
    ) -> None:
        self._kinds = kinds
        self._namespaces = tuple(namespaces)
        self._changed = changed
        self._relisted = relisted
        self._home = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._ended = asyncio.Event()

    async def watch(self) -> None:
        """Watch until cancelled; returns only if kopf ends by itself or has lost a stream, which are failures."""
        self._start()
        try:
            await self._ended.wait()
        finally:
            self._stop.set()
            await asyncio.to_thread(self._thread.join, _STOP_SECONDS)

    async def is_alive(self) -> bool:
        """Whether the watching loop still turns."""
        if self._loop is None or not self._thread.is_alive():
            return False
        turned = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            async with asyncio.timeout(_LOOP_SECONDS):
                await asyncio.wrap_future(turned)
        except TimeoutError:
            return False
        return True

    def _start(self) -> None:
        before = threading.stack_size(_STACK_BYTES)
        try:
            self._thread.start()
        finally:
            threading.stack_size(before)

    def _run(self) -> None:
        try:
            asyncio.run(self._operate())
        except Exception as error:
            _log.error("watching_failed", reason=str(error), exc_info=None if _is_of_api_server(error) else error)
        finally:
            self._call_home(self._ended.set)

    async def _operate(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_report)
        supervising = asyncio.create_task(self._supervise())  # older than kopf, so that kopf leaves it alone
        try:
            await kopf.operator(
                registry=handlers(
                    self._kinds,
                    changed=lambda key, priority: self._call_home(self._changed, key, priority),
                    relisted=lambda: self._call_home(self._relisted),
                ),
                settings=_settings(),
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                stop_flag=self._stop,
            )
        finally:
            supervising.cancel()
            self._stop.set()  # kopf waits for it in a thread, for which the end of the loop would wait

    async def _supervise(self) -> None:
        """Stop when a stream has ended: kopf goes on without it, such as when its CRD was deleted and created again."""
        wanted, complete = len(self._kinds) * max(1, len(self._namespaces)), False
        waited = 0.0
        while complete or waited < _BEGIN_SECONDS:
            await asyncio.sleep(_SUPERVISION_SECONDS)
            if self._stop.is_set():
                return  # streams end because the watch is stopping
            waited += _SUPERVISION_SECONDS
            running = sum(task.get_name().startswith(_STREAM) for task in asyncio.all_tasks())
            if complete and running < wanted:
                break
            complete = running >= wanted
        _log.error("watch_lost", streams=running, wanted=wanted)
        self._stop.set()
        self._call_home(self._ended.set)  # kopf, stopped while its streams fail, may wait for ever

    def _call_home(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._home.is_closed():
            self._home.call_soon_threadsafe(callback, *arguments)


def _is_of_api_server(error: BaseException | None) -> bool:
    """Whether an error is what the API server answered, or that it did not; where kopf met it helps nobody."""
    return type(error).__module__.partition(".")[0] in ("aiohttp", "kopf")


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody awaited, but not of kopf's streams, which the end of the loop may find closing themselves.

    What ended a stream is in the log already. Its last request is cancelled by a callback that fails.
    """
    is_noted = _is_of_api_server(context.get("exception")) or "request_cancel_callback" in str(context.get("handle"))
    if "asyncgen" not in context and not is_noted:
        loop.default_exception_handler(context)


def _settings() -> kopf.OperatorSettings:
    """What has to be settled before kopf starts; the rest is in `handlers`."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # namespaces and CRDs need not be listed or watched for what we do
    settings.process.ultimate_exiting_timeout = None  # the process is ours to end
    # kopf warns at each start that signals are not its own here, as intended.
    logging.getLogger("kopf._core.reactor.running").addFilter(_is_no_signal_warning)
    for name in ("orchestration", "running"):
        logging.getLogger(f"kopf._core.reactor.{name}").addFilter(_in_one_line)
    return settings


def _is_no_signal_warning(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("OS signals are ignored")


def _in_one_line(record: logging.LogRecord) -> bool:
    """Leave out where kopf met an error of the API server, which the message names."""
    if record.exc_info and _is_of_api_server(record.exc_info[1]):
        record.exc_info = None
    return True
