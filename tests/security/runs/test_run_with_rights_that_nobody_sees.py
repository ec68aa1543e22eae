"""An author leaves to others what can be seen of a run: the ServiceAccount to a template, the writing to nobody."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from formulary_operator.admission.issuing import issue
from support.cluster import OperatorAccount, fetch
from support.cluster_runs import (
    ADMIN,
    IMAGE,
    approve,
    await_phase,
    job,
    remedy,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster, free_port
from support.manifest import contract
from support.operator_process import Daemon
from support.waiting import wait_until

TEMPLATE = remedy("template", execution={"engine": "argo", "engineConfig": {"workflowTemplate": "restart"}})
PIPELINE = remedy("pipeline", execution={"engine": "tekton", "engineConfig": {"pipelineRef": "restart"}})
BUNDLE = remedy("bundle", execution={"engine": "tekton", "bundle": IMAGE})
OF_OTHERS = {
    "template": (TEMPLATE, "Argo takes the ServiceAccount and the security context from the WorkflowTemplate"),
    "pipeline": (PIPELINE, "the Tekton bundle or Pipeline brings pods and a security context of its own"),
    "bundle": (BUNDLE, "the Tekton bundle or Pipeline brings pods and a security context of its own"),
}
UNSEEN = "the admission webhook did not see who wrote the workflow"


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate for the webhook."""
    home, pair = tmp_path_factory.mktemp("webhook"), issue(["localhost"], now=datetime.now(UTC))
    (home / "tls.crt").write_bytes(pair.certificate)
    (home / "tls.key").write_bytes(pair.key)
    return home


@pytest.fixture(scope="module")
def running(
    cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount, certificates: Path
) -> Iterator[Daemon]:
    """An operator that leaves to templates what Argo refuses. Its webhook runs, but the API server does not ask it."""
    with running_operator(
        cluster,
        remedy(),
        TEMPLATE,
        dsn=dsn,
        namespace=ns,
        account=operator_account,
        engines="job,argo",
        argo_strict="true",
        webhook_host="127.0.0.1",
        webhook_port=str(free_port()),
        webhook_cert_dir=str(certificates),
    ) as daemon:
        yield daemon


@pytest.mark.smoke
def test_a_template_that_chooses_the_account_waits_for_an_approval_that_shows_it(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("template", namespace=ns, manifest=TEMPLATE))
    told = await_phase(cluster, asked.id, "AwaitingApproval", namespace=ns)
    assert "Argo takes the ServiceAccount and the security context from the WorkflowTemplate" in told["message"]
    assert told["content"]["serviceAccount"] == "(of the WorkflowTemplate)"


def test_what_others_wrote_for_argo_and_tekton_waits_for_an_approval_whatever_the_server_thought(
    cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount
) -> None:
    with running_operator(
        cluster, remedy(), dsn=database, namespace=namespace, account=operator_account, engines="job,tekton,argo"
    ):
        for name, (manifest, why) in OF_OTHERS.items():
            asked = server_request(name, namespace=namespace, manifest=manifest)
            older = replace(asked, facts={**asked.facts, "bundled": False, "templated": False})
            told = await_phase(cluster, submit(database, older).id, "AwaitingApproval", namespace=namespace)
            assert why in told["message"]


def test_where_the_settings_allow_what_others_wrote_nobody_is_asked(
    cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount
) -> None:
    with running_operator(
        cluster,
        remedy(),
        dsn=database,
        namespace=namespace,
        account=operator_account,
        engines="job,tekton,argo",
        tekton_bundles="true",
        argo_templates="true",
    ):
        for name, (manifest, _) in OF_OTHERS.items():
            asked = submit(database, server_request(name, namespace=namespace, manifest=manifest))
            told = await_phase(cluster, asked.id, "Failed", namespace=namespace)
            assert told["reason"] == "EngineUnavailable", "it was started, and this cluster has neither engine"


def test_a_workflow_that_was_written_past_the_webhook_waits_for_an_approval_whatever_rules_allow(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    cluster.apply(contract("lenient", effect="ALLOW", match={}), namespace=ns)
    cluster.kubectl("wait", "--for=condition=Ready", "--timeout=30s", f"--namespace={ns}", "gcon/lenient")
    asked = submit(dsn, server_request("past", namespace=ns))
    told = await_phase(cluster, asked.id, "AwaitingApproval", namespace=ns)
    cluster.kubectl("delete", "gcon", "lenient", f"--namespace={ns}")
    assert UNSEEN in told["message"]
    assert job(cluster, asked.id, namespace=ns) == {}
    approve(dsn, asked.id, namespace=ns)
    wait_until(lambda: job(cluster, asked.id, namespace=ns), what="the Job")


@pytest.mark.smoke
def test_a_workflow_whose_author_was_seen_waits_for_nobody(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = server_request("seen", namespace=ns, key="seen")
    written = "insert into formulary.workflow_author (namespace, version_id, identity) values ($1, $2, $3::jsonb)"
    fetch(dsn, written, ns, asked.version_id, json.dumps(ADMIN))
    submit(dsn, asked)
    wait_until(lambda: job(cluster, asked.id, namespace=ns), what="the Job")
    fetch(dsn, "delete from formulary.workflow_author where version_id = $1", asked.version_id)


def test_where_authors_must_be_proven_such_a_workflow_does_not_run_at_all(
    cluster: Cluster, dsn: str, namespace: str, operator_account: OperatorAccount, certificates: Path
) -> None:
    with running_operator(
        cluster,
        remedy(),
        dsn=dsn,
        namespace=namespace,
        account=operator_account,
        proven_authors="true",
        webhook_host="127.0.0.1",
        webhook_port=str(free_port()),
        webhook_cert_dir=str(certificates),
    ):
        asked = submit(dsn, server_request("unproven", namespace=namespace))
        told = await_phase(cluster, asked.id, "Failed", namespace=namespace)
    assert (told["reason"], "nobody knows who wrote workflow" in told["message"]) == ("NotPermitted", True)
