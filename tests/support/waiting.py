"""Waiting for what happens elsewhere, with an end."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object], *, what: str, seconds: float = 60, shown: Callable[[], str] = str
) -> None:
    """Wait for something to be true. Raises AssertionError after `seconds`, with what `shown` tells then."""
    deadline = time.monotonic() + seconds
    while True:
        started = time.monotonic()
        if condition():
            return
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}\n{shown()}"
        # Whoever is waited for needs the processor as well.
        time.sleep(max(0.05, time.monotonic() - started))
