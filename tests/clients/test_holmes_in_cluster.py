"""HolmesGPT in a cluster: kubectl, RBAC, the operator and the server as they run there, and what its model reads.

This is the demonstration of docs/demo/README.md (DESIGN sections 6, 7 and 9). In the first tier, `test_holmesgpt` asks
the same of a server without a cluster.
"""

import json
import os
from collections.abc import AsyncIterator

import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import control_plane as planes
from support import databases
from support.demonstration import INDEXER, LEDGER, Demonstration, demonstrate, record, recorded
from support.holmes import CallReport, Report

# The first run on a machine also installs HolmesGPT.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

CUSTOM_LABELS = ("acme.example", "ledger-core", "web-index")
"""What the custom labels of docs/demo/ are made of, keys and values."""


@pytest.fixture(scope="module")
async def shown(postgres: EmbeddedPostgres) -> AsyncIterator[Demonstration]:
    """The demonstration, in a cluster and a database of its own."""
    if planes.given_kubeconfig() is not None:
        pytest.skip("needs an empty API server of its own; FORMULARY_TEST_KUBECONFIG names an existing cluster")
    with planes.control_plane() as cluster:
        async with databases.migrated_database(postgres) as dsn:
            yield demonstrate(cluster, dsn=dsn)


def calls(report: Report, incident: str) -> tuple[CallReport, CallReport]:
    """The search of a conversation, and the question for details of the indexer's workflow."""
    search, details = report.chats[incident].calls
    return search, details


def found(search: CallReport) -> list[str]:
    """Names of the workflows that the model was shown."""
    assert search.status == "success", search.read_by_model
    assert search.data is not None
    assert search.data in search.read_by_model
    return [workflow["workflow_id"] for workflow in json.loads(search.data)["workflows"]]


def test_each_incident_is_shown_its_own_workflows_and_those_for_all(shown: Demonstration) -> None:
    for_ledger, _ = calls(shown.holmesgpt, LEDGER)
    for_indexer, _ = calls(shown.holmesgpt, INDEXER)

    assert sorted(found(for_ledger)) == ["oom-collect-evidence", "oom-raise-limit-in-place"]
    assert sorted(found(for_indexer)) == ["oom-collect-evidence", "oom-restart-indexer"]


def test_details_are_read_of_a_workflow_that_is_allowed_and_of_no_other(shown: Demonstration) -> None:
    _, theirs = calls(shown.holmesgpt, LEDGER)
    _, own = calls(shown.holmesgpt, INDEXER)

    assert (own.status, theirs.status) == ("success", "error")
    assert "'oom-restart-indexer' is not found among the workflows allowed here" in theirs.read_by_model
    assert "Restart the indexer" not in theirs.read_by_model


def test_the_toolset_loads_for_an_account_that_may_use_no_incident(shown: Demonstration) -> None:
    assert (shown.visitor.toolset.status, shown.visitor.toolset.error) == ("enabled", None)


def test_an_account_that_may_not_use_the_incident_is_answered_as_if_there_were_none(shown: Demonstration) -> None:
    for refused in calls(shown.visitor, LEDGER):
        assert refused.status == "error"
        assert f"remediation id {LEDGER!r} is not known here" in refused.read_by_model
        assert "namespace incidents" not in refused.read_by_model
    assert not [request for request in shown.visitor.shown if "evidence" in request or "in-place" in request]


def test_nothing_of_the_custom_labels_is_in_any_request_to_the_model(shown: Demonstration) -> None:
    requests = shown.holmesgpt.shown + shown.visitor.shown

    assert [request for request in requests if "oom-raise-limit-in-place" in request]
    assert [label for label in CUSTOM_LABELS if any(label in request for request in requests)] == []


def test_the_token_stays_with_holmesgpt(shown: Demonstration) -> None:
    assert not [request for request in shown.holmesgpt.shown + shown.visitor.shown if "eyJ" in request]


def test_the_documentation_shows_what_happens(shown: Demonstration) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        record(shown.transcript)
    assert shown.transcript == recorded()
