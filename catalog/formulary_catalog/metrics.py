"""Prometheus metrics of one process (DESIGN section 12).

One object with its own registry, made at the edge and handed to whatever observes something. The reference page of the
documentation is generated from the registry.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from formulary_catalog import __version__

# For each counter a second series with the time since when it counts; no alert needs it.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the one function that it has no types for

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_LONG_SECONDS = (*_SECONDS, 10.0, 30.0, 60.0)


class ConnectionMetrics:
    """What the servers of one process count of their connections."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge(
            "formulary_connections",
            "Open connections, by server: catalog, webhook, probes.",
            ("server",),
            registry=registry,
        )
        self._refused = Counter(
            "formulary_connections_refused_total",
            "Connections and requests rejected before authentication, by reason: `address` and `connections`, the "
            "limit of one address or of all; `headers`, too many or too large; `slow`, a request not received or an "
            "answer not read in time; `malformed`, not HTTP; `pipelining`, too many requests on one connection; "
            "`files`, no file descriptor left.",
            ("server", "reason"),
            registry=registry,
        )

    def set_open(self, server: str, connections: int) -> None:
        """Say how many connections a server has."""
        self._open.labels(server=server).set(connections)

    def count_refusal(self, server: str, reason: str) -> None:
        """Count one connection, or one request, that was refused."""
        self._refused.labels(server=server, reason=reason).inc()


class Metrics:
    """Everything that is counted, and the text that Prometheus scrapes."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._searches = Counter(
            "formulary_searches_total", "Searches by ranking mode and outcome.", ("mode", "outcome"), registry=registry
        )
        self._search_seconds = Histogram(
            "formulary_search_seconds",
            "Duration of searches in seconds, by phase: context, embed, sql, rank, total.",
            ("phase",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._tool_calls = Counter(
            "formulary_tool_calls_total",
            "MCP tool calls by tool and outcome: ok, refused, failed.",
            ("tool", "outcome"),
            registry=registry,
        )
        self._tool_seconds = Histogram(
            "formulary_tool_seconds",
            "Duration of MCP tool calls in seconds, whatever their outcome. Calls about runs include the wait that "
            "the caller asked for.",
            ("tool",),
            buckets=_LONG_SECONDS,
            registry=registry,
        )
        self._cache_lookups = Counter(
            "formulary_cache_lookups_total",
            "Lookups in memory, by cache: `query_vectors`, embedded queries; `workflows`, parsed manifests. Outcome "
            "is hit or miss.",
            ("cache", "outcome"),
            registry=registry,
        )
        self._cache_entries = Gauge("formulary_cache_entries", "Entries of a cache.", ("cache",), registry=registry)
        self._workflows = Gauge(
            "formulary_catalog_workflows", "Workflow versions in the catalog by status.", ("status",), registry=registry
        )
        self._alerts = Gauge(
            "formulary_alerts",
            "Alerts of PrometheusRule objects in the cluster by what the whole catalog has for them: covered, "
            "declared_only, weak, none, ignored. Compared again after ten minutes. Left out without such alerts. Each "
            "replica counts all.",
            ("state",),
            registry=registry,
        )
        self._contexts = Gauge("formulary_contexts", "Incidents known from AIAnalysis objects.", registry=registry)
        self._lookups = Counter(
            "formulary_context_lookups_total",
            "Lookups of the incident that a call names, by outcome: found, none, refused.",
            ("outcome",),
            registry=registry,
        )
        self._auth_decisions = Counter(
            "formulary_auth_decisions_total",
            "Decisions on callers, cached ones included. `check` is `token` or a right such as `list "
            "remediationworkflows.kubernaut.ai`. `outcome` is allowed, denied or undecided. A caller without the "
            "right in all namespaces is not counted as denied: each namespace is checked then.",
            ("check", "outcome"),
            registry=registry,
        )
        self._in_work = Gauge(
            "formulary_calls_in_work",
            "Calls in progress, by lane: catalog, runs, protocol.",
            ("lane",),
            registry=registry,
        )
        self._waiting = Gauge(
            "formulary_calls_waiting", "Calls that wait for a slot, by lane.", ("lane",), registry=registry
        )
        self._refused = Counter(
            "formulary_calls_refused_total",
            "Calls rejected before they began, by lane. `reason` is `full` (the queue was full) or `late` (the call "
            "waited too long).",
            ("lane", "reason"),
            registry=registry,
        )
        self._embedder_up = Gauge(
            "formulary_embedder_up", "1 while the embedding model answers, else 0.", registry=registry
        )
        self.connections = ConnectionMetrics(registry)
        build = Gauge("formulary_build_info", "Always 1. The label holds the version.", ("version",), registry=registry)
        build.labels(version=__version__).set(1)

    def count_search(self, mode: str, outcome: str) -> None:
        """Count one search; `mode` is that of the answer."""
        self._searches.labels(mode=mode, outcome=outcome).inc()

    def observe_phase(self, phase: str, seconds: float) -> None:
        """Observe how long one phase of a search took."""
        self._search_seconds.labels(phase=phase).observe(seconds)

    def count_tool_call(self, tool: str, outcome: str, *, seconds: float) -> None:
        """Count one call of a tool that exists, and how long it took."""
        self._tool_calls.labels(tool=tool, outcome=outcome).inc()
        self._tool_seconds.labels(tool=tool).observe(seconds)

    def count_cache_lookup(self, cache: str, *, hit: bool, entries: int) -> None:
        """Count one lookup in a cache, which holds so many entries."""
        self._cache_lookups.labels(cache=cache, outcome="hit" if hit else "miss").inc()
        self._cache_entries.labels(cache=cache).set(entries)

    def set_workflows(self, by_status: Mapping[str, int]) -> None:
        """Replace the sizes of the catalog; a status that is not named is gone."""
        self._workflows.clear()
        for status, count in by_status.items():
            self._workflows.labels(status=status).set(count)

    def set_alerts(self, by_state: Mapping[str, int]) -> None:
        """Replace how many alerts of the cluster are in each state."""
        self._alerts.clear()
        for state, count in by_state.items():
            self._alerts.labels(state=state).set(count)

    def set_contexts(self, count: int) -> None:
        """Set the number of known incidents."""
        self._contexts.set(count)

    def count_context_lookup(self, outcome: str) -> None:
        """Count one lookup of an incident."""
        self._lookups.labels(outcome=outcome).inc()

    def count_auth_decision(self, check: str, outcome: str) -> None:
        """Count one decision on who a caller is or what it may do."""
        self._auth_decisions.labels(check=check, outcome=outcome).inc()

    def set_calls(self, lane: str, *, in_work: int, waiting: int) -> None:
        """Set how many calls of a lane are worked on, and how many wait for that."""
        self._in_work.labels(lane=lane).set(in_work)
        self._waiting.labels(lane=lane).set(waiting)

    def calls(self, lane: str) -> tuple[int, int]:
        """How many calls of a lane are worked on, and how many wait."""
        return _of_lane(self._in_work, lane), _of_lane(self._waiting, lane)

    def count_refusal(self, lane: str, reason: str) -> None:
        """Count one call that was rejected and may be retried later."""
        self._refused.labels(lane=lane, reason=reason).inc()

    def set_embedder_up(self, up: bool) -> None:
        """Say whether the embedding model answers."""
        self._embedder_up.set(up)

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)


def _of_lane(gauge: Gauge, lane: str) -> int:
    """The value of a gauge for one lane; 0 until it is set. The registry would collect all metrics for it."""
    return int(sum(each.value for metric in gauge.collect() for each in metric.samples if each.labels["lane"] == lane))
