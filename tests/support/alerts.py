"""Alerts as Alertmanager sends them, and as a source stores them."""

from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.alerts.reading import read_alerts
from formulary_catalog.domain.alerts.source import source_spec
from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.store.alerts import AlertWriter
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incident_sources import IncidentSourceWriter

TOKEN = "a-token-of-twenty-characters"
STARTS = "2026-11-29T01:00:00Z"


def alert(fingerprint: str, *, status: str = "firing", starts: str = STARTS, **labels: str) -> dict[str, Any]:
    """An alert about the Deployment `web` of the namespace `shop`, unless labels say something else."""
    named = {"alertname": "KubePodCrashLooping", "severity": "critical", "namespace": "shop", "deployment": "web"}
    return {
        "status": status,
        "labels": {**named, **labels},
        "annotations": {"summary": "oom restart raise", "restarts": "yes"},
        "startsAt": starts,
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": fingerprint,
    }


def body(*alerts: dict[str, Any]) -> dict[str, Any]:
    """The message with these alerts."""
    return {"version": "4", "groupKey": "{}:{}", "status": "firing", "receiver": "formulary", "alerts": [*alerts]}


async def report(database: Database, *, namespace: str, fingerprint: str = "", **labels: str) -> str:
    """Have a source `alerts` of a namespace report an alert in it; the remediation id of its incident."""
    spec = {"type": "alertmanager", "namespaces": [namespace]}
    await IncidentSourceWriter(database, origin="file", keys=InputKeys()).save(
        namespace=namespace, name="alerts", spec=spec, secret=TOKEN
    )
    fired = alert(fingerprint or f"f-{namespace}", namespace=namespace, **labels)
    alerts, _ = read_alerts(source_spec(spec), body(fired))
    await AlertWriter(database).receive(
        namespace=namespace, name="alerts", alerts=alerts, problem="", at=datetime.now(UTC)
    )
    return alerts[0].id
