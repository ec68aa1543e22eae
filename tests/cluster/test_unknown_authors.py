"""Workflows that nobody is known to have written: what the server answers is what the operator does.

The webhook of the operator is on, but the API server does not ask it, as while no operator answered.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mcp_types import CallToolResult

from formulary_catalog.domain.runs.run import id_of_object
from formulary_operator.admission.issuing import issue
from support.agent import answer_of, call, refused
from support.cluster import OperatorAccount, fetch
from support.cluster_runs import (
    INPUT,
    ask,
    await_phase,
    incident,
    kinds,
    remedy,
    run_object,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster, free_port
from support.operator_process import server
from support.waiting import wait_until

UNSEEN = "the admission webhook did not see who wrote the workflow"


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operators too."""
    return shared_namespace


@pytest.fixture(scope="module")
def url(dsn: str, ns: str) -> Iterator[str]:
    """A server that knows of the operator only what that has announced."""
    with server(dsn=dsn, catalog_namespace=ns) as serving:
        serving.start().wait_ready()
        yield serving.url
        assert serving.crashes() == []


@contextmanager
def operating(
    cluster: Cluster, dsn: str, ns: str, account: OperatorAccount, home: Path, *, announces: str, proven_authors: str
) -> Iterator[None]:
    """An operator with a webhook, once the server can know what it does with unknown authors."""
    pair = issue(["localhost"], now=datetime.now(UTC))
    (home / "tls.crt").write_bytes(pair.certificate)
    (home / "tls.key").write_bytes(pair.key)
    announced = "select unknown_authors from formulary.executor"
    with running_operator(
        cluster,
        remedy(),
        dsn=dsn,
        namespace=ns,
        account=account,
        proven_authors=proven_authors,
        webhook_host="127.0.0.1",
        webhook_port=str(free_port()),
        webhook_cert_dir=str(home),
    ):
        wait_until(lambda: fetch(dsn, announced) == [(announces,)], what=f"the operator to announce {announces}")
        yield


def test_the_first_answer_says_what_the_object_says_and_it_was_decided_once(
    cluster: Cluster, dsn: str, ns: str, url: str, operator_account: OperatorAccount, tmp_path: Path
) -> None:
    with operating(cluster, dsn, ns, operator_account, tmp_path, announces="approve", proven_authors="false"):
        for environment in ("staging", "production"):
            cluster.apply(incident(environment, namespace=ns, environment=environment), namespace=ns)
            answer = answer_of(_invoked(url, dsn, environment))
            told = await_phase(cluster, answer["invocation_id"], "AwaitingApproval", namespace=ns)
            assert (answer["state"], answer["message"]) == ("awaiting_approval", told["message"])
            assert UNSEEN in answer["message"]
            assert kinds(dsn, f"rr-{environment}").count("invocation.decided") == 1
        ask(cluster, "person", namespace=ns, dsn=dsn)
        assert UNSEEN in await_phase(cluster, "person", "AwaitingApproval", namespace=ns)["message"]
        assert kinds(dsn, "rr-person").count("invocation.decided") == 1


def test_where_authors_must_be_proven_nobody_is_asked_before_the_refusal(
    cluster: Cluster, dsn: str, ns: str, url: str, operator_account: OperatorAccount, tmp_path: Path
) -> None:
    nobody = f"nobody knows who wrote workflow {ns}/restart; delete it and apply it again"
    with operating(cluster, dsn, ns, operator_account, tmp_path, announces="refuse", proven_authors="true"):
        cluster.apply(incident("asked", namespace=ns, environment="production"), namespace=ns)
        for dry_run in (False, True):
            message = refused(_invoked(url, dsn, "asked", dry_run=dry_run))
            assert nobody in message
        assert fetch(dsn, "select id from formulary.invocation where remediation_id = 'rr-asked'") == []

        ask(cluster, "object", namespace=ns, dsn=dsn, environment="production")
        told = await_phase(cluster, "object", "Failed", namespace=ns)
        assert (told["reason"], nobody in told["message"]) == ("NotPermitted", True)
        run = id_of_object(run_object(cluster, "object", namespace=ns)["metadata"]["uid"])
        assert fetch(dsn, "select id from formulary.invocation where id = $1", run) == []

        older = submit(dsn, server_request("older", namespace=ns, environment="production"))
        assert older.phase == "AwaitingApproval", "this server does not know what the operator refuses"
        told = await_phase(cluster, older.id, "Failed", namespace=ns)
        assert (told["reason"], nobody in told["message"]) == ("NotPermitted", True)


def _invoked(url: str, dsn: str, name: str, *, dry_run: bool = False) -> CallToolResult:
    """What the server tells an agent that asks for a run for an incident, once the catalog knows that."""
    known = "select from formulary.request_context where remediation_id = $1"
    wait_until(lambda: fetch(dsn, known, f"rr-{name}"), what=f"the incident {name} to be known")
    asked = {"workflow_id": "restart", "input": INPUT, "dry_run": dry_run}
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(call(url, "invoke_workflow", asked, headers={"X-Remediation-Id": f"rr-{name}"}))
