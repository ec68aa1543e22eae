"""Gates of servers that tests run in their own process."""

from typing import Any

from prometheus_client import CollectorRegistry

from formulary_catalog.listening.gate import Gate
from formulary_catalog.metrics import ConnectionMetrics
from formulary_catalog.settings import ConnectionSettings


def gate(*, probes: frozenset[str] = frozenset(), **settings: Any) -> Gate:
    """A gate as a process of ours makes it; what it counts is seen nowhere."""
    return Gate(
        ConnectionSettings(**settings), server="test", metrics=ConnectionMetrics(CollectorRegistry()), probes=probes
    )
