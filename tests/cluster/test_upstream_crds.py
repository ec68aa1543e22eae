"""A cluster in which the existing ecosystem's CRDs were there first: its schema, without our fields."""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from formulary_operator.starter import apply_starter
from formulary_operator.workflows.translate import entry_of
from support import control_plane as planes
from support.asking import finds, search
from support.cluster import condition, fetch, install_kinds, new_operator_account
from support.control_plane import ControlPlane
from support.filling import starter_documents
from support.kube_clients import connected
from support.operator_process import operator, server
from support.waiting import wait_until

UPSTREAM = Path(__file__).parents[1] / "support" / "upstream_crds"
MANIFESTS = UPSTREAM.with_name("upstream_manifests.yaml")
ACTIVE = "select count(*) from formulary.workflow_version where status = 'Active'"


@pytest.fixture(scope="module")
def upstream() -> Iterator[ControlPlane]:
    """An API server with upstream's kinds."""
    with planes.control_plane() as plane:
        install_kinds(plane, UPSTREAM)
        plane.create_namespace("shop")
        yield plane


def test_the_operator_serves_upstreams_objects_and_does_not_patch_them_again_and_again(
    upstream: ControlPlane, database: str
) -> None:
    account = new_operator_account(upstream)
    ours, other, incident = list(yaml.safe_load_all(MANIFESTS.read_text()))[:3]
    theirs = copy.deepcopy(ours)
    theirs["metadata"]["name"] = "gitops-revert-theirs"
    theirs["spec"]["customLabels"] = {"team": "search"}
    fields = {"riskLevel": "high", "steps": [{"name": "revert", "command": "git revert HEAD"}]}
    # In the spec, kubectl would refuse them and the API server drop them.
    theirs["metadata"]["annotations"] = {"formulary.dev/spec": json.dumps(fields)}
    upstream.apply(ours, theirs, other, incident, namespace="shop")
    with (
        operator(dsn=database, kubeconfig=account.kubeconfig, resync_seconds="1") as watching,
        server(dsn=database) as serving,
    ):
        watching.start()
        serving.start().wait_ready()
        watching.wait_ready()
        headers = {"X-Remediation-Id": incident["spec"]["remediationId"]}
        assert finds(serving.url, "gitops-revert")
        assert finds(serving.url, "gitops-revert", headers=headers)
        assert finds(serving.url, "gitops-revert-theirs")
        assert not finds(serving.url, "gitops-revert-theirs", headers=headers)
        ((stored,),) = fetch(
            database, "select document -> 'spec' from formulary.workflow_version where name ~ 'theirs'"
        )
        assert json.loads(stored).items() >= fields.items()
        answer = search(serving.url, "revert the commit", signal_type="OOMKilled")
        assert not any("spelling" in note for note in answer["notes"])

        wait_until(lambda: len(watching.events("resynced")) > 3, what="a few resyncs")
        document = upstream.get("rw", "gitops-revert", "--namespace=shop")
        assert (condition(document)["status"], document["status"]["catalogStatus"]) == ("True", "Active")
        written = upstream.requests(user=account.user, verbs=["patch", "create", "update"])
        assert Counter((request.verb, request.resource) for request in written) == {
            ("create", "events"): 3,
            ("patch", "remediationworkflows"): 3,
        }
        assert watching.metric("formulary_drift_objects") == 0

        # Upstream's schema drops spec.suspend.
        annotate = ("annotate", "rw", "gitops-revert", "--namespace=shop", "--overwrite")
        upstream.kubectl(*annotate, "formulary.dev/suspend=true")
        wait_until(lambda: not finds(serving.url, "gitops-revert"), what="the workflow to be suspended")
        upstream.kubectl(*annotate, "formulary.dev/suspend-")
        wait_until(lambda: finds(serving.url, "gitops-revert"), what="the workflow to be served again")
        (event,) = watching.events("nothing_is_run")
        assert "workflowinvocations.formulary.dev" in event["reason"]
    assert fetch(database, ACTIVE) == [(3,)]


async def test_the_whole_starter_catalog_is_applied_beside_upstream(
    upstream: ControlPlane, starter_catalog: Path
) -> None:
    upstream.create_namespace("catalog")
    async with connected(upstream.kubeconfig) as client:
        report = await apply_starter(client, manifests=starter_catalog, namespace="catalog")
        again = await apply_starter(client, manifests=starter_catalog, namespace="catalog")

    stored = {each["metadata"]["name"]: each for each in upstream.get("rw", "--namespace=catalog")["items"]}
    documents = {each["metadata"]["name"]: each for each in starter_documents(starter_catalog)}
    assert (report.refused, report.kept, again.refused) == ([], [], [])
    assert stored.keys() == documents.keys()
    for name, document in documents.items():
        document["metadata"]["namespace"] = "catalog"
        assert entry_of(stored[name]).version_id == entry_of(document).version_id
