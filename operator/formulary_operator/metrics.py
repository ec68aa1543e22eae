"""Prometheus metrics of the operator (DESIGN section 12), made like those of the catalog."""

import time
from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from formulary_catalog.metrics import ConnectionMetrics

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class OperatorMetrics:
    """Everything that the operator counts, and the text that Prometheus scrapes."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._reconciles = Counter(
            "formulary_reconcile_total",
            "Objects reconciled, by kind and outcome: for workflows Served, Suspended, Invalid, VersionImmutable or "
            "Gone, for invocations the phase of the run, for contracts InForce, Halting, Invalid or Gone, for "
            "approvals the reason of their condition, for all kinds failed.",
            ("kind", "outcome"),
            registry=registry,
        )
        self._reconcile_seconds = Histogram(
            "formulary_reconcile_seconds",
            "Duration of one reconcile in seconds.",
            ("kind",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.queue_depth = Gauge(
            "formulary_queue_depth", "Objects in the queue that wait for a reconcile.", registry=registry
        )
        self._drift = Gauge(
            "formulary_drift_objects",
            "Objects whose state differed from the catalog at the last resync.",
            ("kind",),
            registry=registry,
        )
        self._drift_repaired = Counter(
            "formulary_drift_repaired_total",
            "Objects that resyncs queued for another reconcile.",
            ("kind",),
            registry=registry,
        )
        self.sweep_refused = Gauge(
            "formulary_sweep_refused",
            "Deletions that the last sweep refused because there were too many. 0 means none.",
            registry=registry,
        )
        self._resync_timestamp = Gauge(
            "formulary_resync_timestamp_seconds", "Unix time of the last successful resync.", registry=registry
        )
        self._resync_seconds = Gauge(
            "formulary_resync_seconds", "Duration of the last resync in seconds.", registry=registry
        )
        self.resync_failures = Counter("formulary_resync_failures_total", "Resyncs that failed.", registry=registry)
        self.leader = Gauge("formulary_leader", "1 on the replica that reconciles, else 0.", registry=registry)
        self._embeddings = Counter(
            "formulary_embeddings_total",
            "Texts embedded by the operator, by outcome: ok, failed.",
            ("outcome",),
            registry=registry,
        )
        self._status_patches = Counter(
            "formulary_status_patches_total",
            "Status writes, by outcome: ok, or gone if the object was deleted.",
            ("outcome",),
            registry=registry,
        )
        self.contexts_stored = Gauge(
            "formulary_contexts_stored", "Incidents whose AIAnalysis exists, as of the last resync.", registry=registry
        )
        self._runs = Gauge("formulary_runs", "Runs that have not ended, by phase.", ("phase",), registry=registry)
        self._runs_ended = Counter(
            "formulary_runs_ended_total",
            "Runs that ended: Succeeded, Failed, TimedOut, Cancelled, Halted.",
            ("phase",),
            registry=registry,
        )
        self.expired = Counter(
            "formulary_expired_total",
            "Deletions at the end of a retention, by kind: `object` (a WorkflowInvocation), `run` (its row in the "
            "database), `admission` (the record of who created an object).",
            ("kind",),
            registry=registry,
        )
        self.expiry_failures = Counter(
            "formulary_expiry_failures_total",
            "Failed deletions at the end of a retention, by kind as in `formulary_expired_total`.",
            ("kind",),
            registry=registry,
        )
        self._notifications = Counter(
            "formulary_notifications_total",
            "Notifications by receiver and outcome: delivered, failed (an attempt, repeated later), overtaken by a "
            "decision, or given_up after a day of attempts.",
            ("receiver", "outcome"),
            registry=registry,
        )
        self._halts = Gauge(
            "formulary_halts",
            "Halts in force, by scope: `everywhere` or one `namespace`. While a halt is in force, no run starts there.",
            ("scope",),
            registry=registry,
        )
        self._trace_findings = Gauge(
            "formulary_trace_findings",
            "Integrity findings of the last audit verification, published checkpoints included. 0 means none.",
            registry=registry,
        )
        self._trace_verified = Gauge(
            "formulary_trace_verified_timestamp_seconds",
            "Unix time of the last audit verification, or of the start of the replica that runs the next one.",
            registry=registry,
        )
        self._admission_reviews = Counter(
            "formulary_admission_reviews_total",
            "Objects that the admission webhook judged, by kind and outcome: allowed, refused, or failed if the object "
            "could not be judged or its creator not be recorded.",
            ("kind", "outcome"),
            registry=registry,
        )
        self._webhook_configured = Gauge(
            "formulary_webhook_configured",
            "1 if the ValidatingWebhookConfiguration held the secret paths and the authority when the operator last "
            "looked, else 0. Absent without a webhook.",
            ("configuration",),
            registry=registry,
        )
        self._webhook_certificate_expiry = Gauge(
            "formulary_webhook_certificate_expiry_timestamp_seconds",
            "Unix time at which the certificate of the admission webhook expires. 0 while it serves none.",
            registry=registry,
        )
        self._trace_checkpoint = Gauge(
            "formulary_trace_checkpoint_timestamp_seconds",
            "Unix time when checkpoints last covered every event of the audit trail. At the start of a leader that of "
            "the newest checkpoint, where it does not cover them.",
            registry=registry,
        )
        self._trace_published = Gauge(
            "formulary_trace_published_timestamp_seconds",
            "Unix time when every checkpoint was last found published, by place: `config_map` of the release, `named` "
            "in the settings. At the start of a leader that of the newest published one, where others are not.",
            ("place",),
            registry=registry,
        )
        self.connections = ConnectionMetrics(registry)

    def expect_notifications(self, receiver: str) -> None:
        """Begin to count those that are given up: a rate needs the zero before the first."""
        self._notifications.labels(receiver=receiver, outcome="given_up")

    def count_notification(self, receiver: str, outcome: str) -> None:
        """Count an attempt to notify a receiver, or what became of a notification."""
        self._notifications.labels(receiver=receiver, outcome=outcome).inc()

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

    def trail_covered(self, until: datetime | None = None) -> None:
        """Say until when checkpoints cover every event; None for now."""
        self._trace_checkpoint.set(_unix_time(until))

    def trail_published(self, place: str, until: datetime | None = None) -> None:
        """Say until when every checkpoint is published in a place; None for now."""
        self._trace_published.labels(place=place).set(_unix_time(until))

    def trail_findings(self, findings: int) -> None:
        """Say what is wrong with the audit trail, as far as anybody has looked."""
        self._trace_findings.set(findings)

    def trail_verified(self) -> None:
        """Say that the whole audit trail has been verified just now."""
        self._trace_verified.set_to_current_time()

    def count_run(self, phase: str) -> None:
        """Count one run that ended."""
        self._runs_ended.labels(phase=phase).inc()

    def count_admission_review(self, kind: str, *, outcome: str) -> None:
        """Count one object that the webhook was asked about."""
        self._admission_reviews.labels(kind=kind, outcome=outcome).inc()

    def watch_webhook(
        self, configuration: str, *, is_configured: Callable[[], bool], expires_at: Callable[[], float]
    ) -> None:
        """Say from now on whether the API server can ask the webhook, and until when its certificate is valid."""
        self._webhook_configured.labels(configuration=configuration).set_function(is_configured)
        self._webhook_certificate_expiry.set_function(expires_at)

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)


def _unix_time(at: datetime | None) -> float:
    return time.time() if at is None else at.timestamp()
