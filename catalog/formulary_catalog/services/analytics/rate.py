"""How often one caller may ask."""

import math
import time
from collections import deque
from collections.abc import Callable

from cachetools import TTLCache

from formulary_catalog.errors import RateLimited

_MINUTE = 60.0
_CALLERS = 10_000


class Rate:
    """`per_minute` calls of each caller within any minute. `clock` is in seconds."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._calls: TTLCache[str, deque[float]] = TTLCache(_CALLERS, ttl=_MINUTE, timer=clock)

    def count(self, caller: str) -> None:
        """Count a call.

        Raises:
            RateLimited: the caller has had its calls.
        """
        now = self._clock()
        calls = self._calls.get(caller, deque())
        while calls and calls[0] <= now - _MINUTE:
            calls.popleft()
        if len(calls) >= self._per_minute:
            wait = math.ceil(calls[0] + _MINUTE - now)
            raise RateLimited(
                f"{caller} has run {len(calls)} statements within a minute, which is the most; retry in {wait} s",
                retry_after=wait,
            )
        calls.append(now)
        self._calls[caller] = calls
