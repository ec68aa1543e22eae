"""Prometheus metrics of the operator (DESIGN section 12), in the manner of the catalog's."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from formulary_catalog.metrics import CONNECTIONS, CONNECTIONS_REFUSED, ConnectionMetrics, Definition

RECONCILES = Definition(
    "formulary_reconcile_total",
    "counter",
    ("kind", "outcome"),
    "Objects reconciled, by kind and outcome: for workflows Served, Suspended, Invalid, VersionImmutable or Gone, for "
    "invocations the phase of the run, for all kinds failed.",
)
RECONCILE_SECONDS = Definition(
    "formulary_reconcile_seconds", "histogram", ("kind",), "Duration of one reconcile in seconds."
)
QUEUE_DEPTH = Definition("formulary_queue_depth", "gauge", (), "Objects in the queue that wait for a reconcile.")
DRIFT = Definition(
    "formulary_drift_objects", "gauge", ("kind",), "Objects whose state differed from the catalog at the last resync."
)
DRIFT_REPAIRED = Definition(
    "formulary_drift_repaired_total", "counter", ("kind",), "Objects that resyncs queued for another reconcile."
)
SWEEP_REFUSED = Definition(
    "formulary_sweep_refused",
    "gauge",
    (),
    "Deletions that the last sweep refused because there were too many. 0 means none.",
)
RESYNC_TIMESTAMP = Definition(
    "formulary_resync_timestamp_seconds", "gauge", (), "Unix time of the last successful resync."
)
RESYNC_SECONDS = Definition("formulary_resync_seconds", "gauge", (), "Duration of the last resync in seconds.")
RESYNC_FAILURES = Definition("formulary_resync_failures_total", "counter", (), "Resyncs that failed.")
LEADER = Definition("formulary_leader", "gauge", (), "1 on the replica that reconciles, else 0.")
EMBEDDINGS = Definition(
    "formulary_embeddings_total", "counter", ("outcome",), "Texts embedded by the operator, by outcome: ok, failed."
)
STATUS_PATCHES = Definition(
    "formulary_status_patches_total",
    "counter",
    ("outcome",),
    "Status writes, by outcome: ok, or gone if the object was deleted.",
)
CONTEXTS_STORED = Definition(
    "formulary_contexts_stored", "gauge", (), "Incidents whose AIAnalysis exists, as of the last resync."
)
RUNS = Definition("formulary_runs", "gauge", ("phase",), "Runs that have not ended, by phase.")
RUNS_ENDED = Definition(
    "formulary_runs_ended_total",
    "counter",
    ("phase",),
    "Runs that ended: Succeeded, Failed, TimedOut, Cancelled, Halted.",
)
EXPIRED = Definition(
    "formulary_expired_total",
    "counter",
    ("kind",),
    "Deletions at the end of a retention, by kind: `object` (a WorkflowInvocation), `run` (its row in the database),"
    " `admission` (the record of who created an object).",
)
EXPIRY_FAILURES = Definition(
    "formulary_expiry_failures_total",
    "counter",
    ("kind",),
    "Failed deletions at the end of a retention, by kind as in `formulary_expired_total`.",
)
HALTS = Definition(
    "formulary_halts",
    "gauge",
    ("scope",),
    "Halts in force, by scope: `everywhere` or one `namespace`. While a halt is in force, no run starts there.",
)

TRACE_FINDINGS = Definition(
    "formulary_trace_findings",
    "gauge",
    (),
    "Integrity findings of the last audit verification, published checkpoints included. 0 means none.",
)
TRACE_VERIFIED = Definition(
    "formulary_trace_verified_timestamp_seconds",
    "gauge",
    (),
    "Unix time of the last audit verification, or of the start of the replica that runs the next one.",
)

DEFINITIONS = (
    RECONCILES,
    RECONCILE_SECONDS,
    QUEUE_DEPTH,
    DRIFT,
    DRIFT_REPAIRED,
    SWEEP_REFUSED,
    RESYNC_TIMESTAMP,
    RESYNC_SECONDS,
    RESYNC_FAILURES,
    LEADER,
    EMBEDDINGS,
    STATUS_PATCHES,
    CONTEXTS_STORED,
    RUNS,
    RUNS_ENDED,
    EXPIRED,
    EXPIRY_FAILURES,
    HALTS,
    TRACE_FINDINGS,
    TRACE_VERIFIED,
    CONNECTIONS,
    CONNECTIONS_REFUSED,
)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class OperatorMetrics:
    """Everything that the operator counts, and the text that Prometheus scrapes."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(metric: Definition) -> Counter:
            return Counter(metric.name, metric.meaning, metric.labels, registry=registry)

        def gauge(metric: Definition) -> Gauge:
            return Gauge(metric.name, metric.meaning, metric.labels, registry=registry)

        self._reconciles = counter(RECONCILES)
        self._reconcile_seconds = Histogram(
            RECONCILE_SECONDS.name,
            RECONCILE_SECONDS.meaning,
            RECONCILE_SECONDS.labels,
            buckets=_SECONDS,
            registry=registry,
        )
        self.queue_depth = gauge(QUEUE_DEPTH)
        self._drift = gauge(DRIFT)
        self._drift_repaired = counter(DRIFT_REPAIRED)
        self.sweep_refused = gauge(SWEEP_REFUSED)
        self._resync_timestamp = gauge(RESYNC_TIMESTAMP)
        self._resync_seconds = gauge(RESYNC_SECONDS)
        self.resync_failures = counter(RESYNC_FAILURES)
        self.leader = gauge(LEADER)
        self._embeddings = counter(EMBEDDINGS)
        self._status_patches = counter(STATUS_PATCHES)
        self.contexts_stored = gauge(CONTEXTS_STORED)
        self._runs = gauge(RUNS)
        self._runs_ended = counter(RUNS_ENDED)
        self.expired = counter(EXPIRED)
        self.expiry_failures = counter(EXPIRY_FAILURES)
        self._halts = gauge(HALTS)
        self._trace_findings = gauge(TRACE_FINDINGS)
        self._trace_verified = gauge(TRACE_VERIFIED)
        self.connections = ConnectionMetrics(registry)

    def observe_reconcile(self, kind: str, *, outcome: str, seconds: float) -> None:
        """Count one object that was reconciled, or that failed to be."""
        self._reconciles.labels(kind=kind, outcome=outcome).inc()
        self._reconcile_seconds.labels(kind=kind).observe(seconds)

    def set_drift(self, kind: str, objects: int) -> None:
        """Say how many objects a resync found out of step, and sent to be reconciled."""
        self._drift.labels(kind=kind).set(objects)
        self._drift_repaired.labels(kind=kind).inc(objects)

    def resynced(self, *, seconds: float) -> None:
        """Note that a resync succeeded just now."""
        self._resync_timestamp.set_to_current_time()
        self._resync_seconds.set(seconds)

    def count_embedding(self, outcome: str) -> None:
        """Count one text that was embedded, or failed to be."""
        self._embeddings.labels(outcome=outcome).inc()

    def count_status_patch(self, outcome: str) -> None:
        """Count one write of a status."""
        self._status_patches.labels(outcome=outcome).inc()

    def set_runs(self, phase: str, runs: int) -> None:
        """Say how many runs are in a phase now."""
        self._runs.labels(phase=phase).set(runs)

    def set_halts(self, *, everywhere: int, namespaces: int) -> None:
        """Say how many halts are in force."""
        self._halts.labels(scope="everywhere").set(everywhere)
        self._halts.labels(scope="namespace").set(namespaces)

    def trail_watched(self) -> None:
        """Say that from now on verifications are due."""
        self._trace_verified.set_to_current_time()

    def trail_findings(self, findings: int) -> None:
        """Say what is wrong with the audit trail, as far as anybody has looked."""
        self._trace_findings.set(findings)

    def trail_verified(self) -> None:
        """Say that the whole audit trail has been verified just now."""
        self._trace_verified.set_to_current_time()

    def count_run(self, phase: str) -> None:
        """Count one run that ended."""
        self._runs_ended.labels(phase=phase).inc()

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)
