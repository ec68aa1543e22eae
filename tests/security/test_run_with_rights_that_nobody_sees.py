"""An author leaves to others what can be seen of a run: the ServiceAccount to a template, the writing to nobody."""

from collections.abc import Iterator

import pytest

from support.cluster import OperatorAccount
from support.cluster_runs import await_phase, remedy, running_operator, server_request, submit
from support.control_plane import Cluster
from support.operator_process import Daemon

TEMPLATE = remedy("template", execution={"engine": "argo", "engineConfig": {"workflowTemplate": "restart"}})


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator that leaves to templates what Argo refuses."""
    with running_operator(
        cluster,
        remedy(),
        TEMPLATE,
        dsn=dsn,
        namespace=ns,
        account=operator_account,
        engines="job,argo",
        argo_strict="true",
    ) as daemon:
        yield daemon


def test_a_template_that_chooses_the_account_waits_for_an_approval_that_shows_it(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("template", namespace=ns, manifest=TEMPLATE))
    told = await_phase(cluster, asked.id, "AwaitingApproval", namespace=ns)
    assert "Argo takes the ServiceAccount and the security context from the WorkflowTemplate" in told["message"]
    assert told["content"]["serviceAccount"] == "(of the WorkflowTemplate)"
