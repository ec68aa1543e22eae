"""Logs of a serving process: structured events to standard error, ours and those of the libraries alike.

Arguments, labels and tokens are nobody's to log above debug. What belongs to one call is bound with
`structlog.contextvars` and appears in each of its lines: `remediation_id` and `client_trace_id` by the edge, and by the
services `trace_id`, that of the audit trail.
"""

import logging
import sys
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import structlog
from cachetools import LRUCache
from structlog.typing import Processor

_QUIET_SECONDS = 10.0
_CHATTY = ("httpx2", "httpcore2", "kopf", "mcp", "watchfiles", "asyncio", "alembic", "uvicorn")


@dataclass(slots=True)
class _Kind:
    quiet_until: float
    held_back: int = 0


class Throttle:
    """Lets the first of each kind through, then one in ten seconds; `kinds` are remembered."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, kinds: int = 256) -> None:
        self._clock = clock
        self._kinds: LRUCache[Hashable, _Kind] = LRUCache(kinds)

    def admit(self, kind: Hashable) -> int:
        """For how many this one speaks, those held back before it included; 0 if it is to be held back itself."""
        now = self._clock()
        known = self._kinds.get(kind)
        if known is not None and now < known.quiet_until:
            known.held_back += 1
            return 0
        self._kinds[kind] = _Kind(quiet_until=now + _QUIET_SECONDS)
        return 1 + (known.held_back if known is not None else 0)


def configure_logging(*, level: str, as_json: bool) -> None:
    """Set up logging for the whole process; `level` is debug, info, warning or error."""
    shared = _common(as_json=as_json)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(as_json=as_json))
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.captureWarnings(True)


def _common(*, as_json: bool) -> list[Processor]:
    """What is added to every event; a person is spared the name of the module and sees the time of the wall clock."""
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
    ]
    if not as_json:
        return [*common, structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)]
    return [*common, structlog.stdlib.add_logger_name, structlog.processors.TimeStamper(fmt="iso", utc=True)]


def _rendering(*, as_json: bool) -> list[Processor]:
    """The last steps. Tracebacks are plain: the pretty ones print local variables, and those may hold anything."""
    if as_json:
        return [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
        ]
    return [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
