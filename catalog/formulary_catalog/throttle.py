"""Keeping log lines that strangers or an outage can cause without end to one of a kind in ten seconds."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from cachetools import LRUCache

_SECONDS = 10.0
_KINDS = 256


@dataclass(slots=True)
class _Kind:
    quiet_until: float
    held_back: int = 0


class Throttle:
    """Lets the first of each kind through, then one in ten seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: LRUCache[Hashable, _Kind] = LRUCache(_KINDS)

    def admit(self, kind: Hashable) -> int:
        """For how many this one speaks, those held back before it included; 0 if it is to be held back itself."""
        now = self._clock()
        known = self._kinds.get(kind)
        if known is not None and now < known.quiet_until:
            known.held_back += 1
            return 0
        self._kinds[kind] = _Kind(quiet_until=now + _SECONDS)
        return 1 + (known.held_back if known is not None else 0)
