"""Limits of servers that tests run in their own process."""

from typing import Any

from prometheus_client import CollectorRegistry

from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.metrics import ConnectionMetrics
from formulary_catalog.settings import ConnectionSettings


def connection_limits(*, probes: frozenset[str] = frozenset(), **settings: Any) -> ConnectionLimits:
    """Limits as a process of ours makes it; what it counts is seen nowhere."""
    return ConnectionLimits(
        ConnectionSettings(**settings), server="test", metrics=ConnectionMetrics(CollectorRegistry()), probes=probes
    )
