"""One running server for the outside clients, with workflows and incidents of two teams."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.alerts import alert, body
from support.manifest import analysis, text, workflow
from support.process import formulary_up, private_directory


@dataclass(frozen=True, slots=True)
class Incidents:
    """Remediation ids of two incidents: the custom labels of their AIAnalysis name one team each."""

    payments: str = "rr-payments"
    search: str = "rr-search"
    calm: str = "web"
    """A namespace that demands nothing; a Deployment `carts` runs in it and in the next."""
    strict: str = "shop"
    """A namespace in which nothing may restart."""
    alert: str = "al-ca475"
    """An alert about its Deployment."""


@pytest.fixture(scope="session")
def incidents() -> Incidents:
    """The incidents that the server knows."""
    return Incidents()


def _carts(namespace: str, **labels: str) -> list[dict[str, Any]]:
    """A labelled namespace and what runs in it."""
    labelled = {"name": namespace, "labels": {"environment": "production", **labels}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "carts", "namespace": namespace}},
    ]


@pytest.fixture(scope="session")
def formulary_url(starter_catalog: Path, incidents: Incidents) -> Iterator[str]:
    """`formulary up` with the starter catalog, two teams' workflows and their incidents."""
    documents = [
        workflow("oom-payments-only", customLabels={"team": ["payments"]}),
        workflow("oom-search-only", customLabels={"team": ["search"]}),
        analysis("payments", remediation_id=incidents.payments, labels={"team": ["payments"]}),
        analysis("search", remediation_id=incidents.search, labels={"team": ["search"]}),
        *_carts(incidents.calm),
        *_carts(incidents.strict, **{"constraint.formulary.dev/restarts": "no"}),
        {
            "apiVersion": "formulary.dev/v1alpha1",
            "kind": "IncidentSource",
            "metadata": {"name": "alerts", "namespace": incidents.strict},
            "spec": {"type": "alertmanager", "namespaces": [incidents.strict]},
        },
    ]
    with private_directory() as directory:
        manifests = directory / "manifests"
        manifests.mkdir()
        (manifests / "teams.yaml").write_text(text(*documents))
        with formulary_up(data_dir=directory / "data", manifests=[starter_catalog, manifests]) as up:
            fired = alert(incidents.alert.removeprefix("al-"), namespace=incidents.strict, deployment="carts")
            sent = httpx2.post(f"{up.url}/api/v1/incidents/{incidents.strict}/alerts", json=body(fired), timeout=30)
            assert sent.status_code == 200, sent.text
            yield up.url
