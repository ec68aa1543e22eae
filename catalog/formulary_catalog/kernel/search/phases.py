"""How long the phases of one search take, as metrics and as spans.

`kernel.search.pipeline` measures: reading and ranking take turns, and a query with several problems has each phase
several times, so their times add up.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace

from formulary_catalog.metrics import Metrics

_tracer = trace.get_tracer("formulary")


class Phases:
    """Seconds of each phase of one search, by its name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """A part of a phase, and a span."""
        started = time.perf_counter()
        try:
            with _tracer.start_as_current_span(f"formulary.search.{name}"):
                yield
        finally:
            self.seconds[name] += time.perf_counter() - started


@contextmanager
def measured(metrics: Metrics) -> Iterator[Phases]:
    """The phases of one search, which are counted when it ends, however it ends."""
    phases = Phases()
    try:
        yield phases
    finally:
        for name, seconds in phases.seconds.items():
            metrics.observe_phase(name, seconds)
