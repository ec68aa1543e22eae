"""Keeps the garbage collector from what stays for the life of a process.

`serve` and `up` call it once they are ready, and the server that is measured: hence a module of its own. A full
collection looks at every object that may be part of a cycle, while no call is answered: 180,000 are there from the
start, which takes 110 ms. `stdio` imports without collections: they would find nothing, and take a tenth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
