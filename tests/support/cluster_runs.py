"""Runs in a cluster: a workflow that can be run there, incidents, requests of the server, and how a run stands."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.runs.facts import run_facts
from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.domain.runs.run import (
    Invocation,
    NewInvocation,
    RunTarget,
    Source,
    id_of_request,
    idempotency_digest,
)
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_operator.api.names import INVOCATIONS, Resource
from formulary_operator.engines.job import JOBS
from support.audit_log import Request
from support.cluster import OperatorAccount, await_agreement, fetch, objects
from support.control_plane import Cluster
from support.manifest import analysis, invocation, workflow
from support.operator_process import Daemon, operator
from support.runs import KEYS
from support.waiting import wait_until

IMAGE = "registry.example/remedies/restart:1.2.0"
CALLER = "system:serviceaccount:agents:holmes"
ADMIN = {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
INPUT = {"REPLICAS": 2}
EVERYWHERE = {"signalType": ["OOMKilled"], "severity": "*", "environment": "*", "component": "*", "priority": "*"}
REPLICAS = {"name": "REPLICAS", "type": "integer", "required": True, "description": "How many.", "minimum": 1}
TOKEN = {"name": "TOKEN", "type": "string", "required": False, "description": "A token.", "sensitive": True}


def remedy(name: str = "restart", **spec: Any) -> dict[str, Any]:
    """A low-risk workflow that takes the parameters REPLICAS and, sensitive, TOKEN."""
    given: dict[str, Any] = {
        "labels": EVERYWHERE,
        "riskLevel": "low",
        "execution": {"engine": "job", "bundle": IMAGE},
        "parameters": [REPLICAS, TOKEN],
        "steps": [{"name": "restart", "command": "echo ${REPLICAS}"}],
        "rollbackSteps": [{"name": "undo", "command": "echo undo"}],
    }
    return workflow(name, **(given | spec))


def incident(name: str, *, namespace: str, environment: str = "staging") -> dict[str, Any]:
    """An AIAnalysis, with the id `rr-<name>`, about a Deployment of its name in the same namespace."""
    document = analysis(name, remediation_id=f"rr-{name}", environment=environment)
    document["metadata"]["namespace"] = namespace
    document["spec"]["analysisRequest"]["signalContext"]["targetResource"] = _target(name, namespace).as_json()
    return document


@contextmanager
def running_operator(
    cluster: Cluster,
    *remedies: dict[str, Any],
    dsn: str,
    namespace: str,
    account: OperatorAccount,
    **settings: str,
) -> Iterator[Daemon]:
    """An operator of one namespace, which is the shared one of its catalog too, with these workflows in it."""
    with operator(
        dsn=dsn,
        kubeconfig=account.kubeconfig,
        watch_namespaces=namespace,
        catalog_namespace=namespace,
        **settings,
    ) as daemon:
        daemon.start().wait_ready()
        cluster.apply(*remedies, namespace=namespace)
        await_agreement(cluster, dsn, namespace, seconds=120)
        yield daemon
        assert daemon.crashes() == []


def ask(
    cluster: Cluster, name: str, *, namespace: str, dsn: str = "", environment: str = "staging", **spec: Any
) -> None:
    """Ask with kubectl for a run of the remedy, for an incident of its own; `spec` is of the WorkflowInvocation.

    With a `dsn` it is recorded as the administrator's, as the webhook would; the operator waits for the incident first.
    """
    given = {"input": INPUT, "remediationId": f"rr-{name}", **spec}
    happened = incident(name, namespace=namespace, environment=environment)
    if dsn:
        cluster.apply(invocation(name, **given), namespace=namespace)
        uid = run_object(cluster, name, namespace=namespace)["metadata"]["uid"]
        prove(dsn, uid, namespace=namespace, name=name)
        cluster.apply(happened, namespace=namespace)
    else:
        cluster.apply(happened, invocation(name, **given), namespace=namespace)


def prove(dsn: str, uid: str, *, namespace: str, name: str, user: Mapping[str, Any] = ADMIN) -> None:
    """Record who created a WorkflowInvocation, as the webhook does."""
    columns = "uid, resource, namespace, name, username, identity"
    fetch(
        dsn,
        f"insert into formulary.admission_record ({columns}) values ($1, $2, $3, $4, $5, $6::jsonb)",
        *(uid, INVOCATIONS.plural, namespace, name, user["username"], json.dumps(user)),
    )


def server_request(
    name: str = "checkout",
    *,
    namespace: str,
    key: str = "",
    environment: str = "staging",
    timeout_seconds: float = 60,
    secret: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> NewInvocation:
    """What the server makes of an agent's request for a run of the remedy, for an incident of this name."""
    document = dict(manifest or remedy())
    document["metadata"] = {"name": document["metadata"]["name"], "namespace": namespace}
    entry = catalog_entry(document, source="test", default_namespace=namespace)
    facts = run_facts(
        entry.workflow,
        workflow_namespace=namespace,
        namespace=namespace,
        target=_target(name, namespace),
        context=None,
        caller=CALLER,
        caller_may_target=True,
        allowed_here=True,
        timeout_seconds=timeout_seconds,
    )
    invocation_id = id_of_request(caller=CALLER, idempotency_key=key)
    return NewInvocation(
        id=invocation_id,
        source=Source.SERVER,
        namespace=namespace,
        object_name=invocation_id,
        version_id=entry.version_id,
        workflow_namespace=namespace,
        workflow_name=entry.name,
        workflow_version=entry.version,
        document=document,
        values=INPUT,
        secret=dict(secret or {}),
        target=_target(name, namespace),
        facts=facts.as_json() | {"environment": environment},
        remediation_id=f"rr-{name}",
        requester=CALLER,
        timeout_seconds=timeout_seconds,
        idempotency_key=idempotency_digest(caller=CALLER, idempotency_key=key),
    )


def submit(dsn: str, new: NewInvocation, *, keys: InputKeys = KEYS) -> Invocation:
    """Keep a request as the server does; the shared namespace is that of the run."""

    async def keep() -> Invocation:
        database = await Database.open(dsn, role=Role.SERVER, deadline=30)
        try:
            store = InvocationStore(database, shared_namespace=new.namespace, keys=keys)
            return (await store.submit(new)).invocation
        finally:
            await database.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(keep())


def approve(dsn: str, run: str, *, namespace: str, digest: str = "") -> None:
    """Approve a run as the server does for a caller who may."""
    given = NewApproval(invocation_id=run, namespace=namespace, decision="Approve", approver="ada", digest=digest)

    async def keep() -> None:
        database = await Database.open(dsn, role=Role.SERVER, deadline=30)
        try:
            assert await ApprovalStore(database).add(given) is not None
        finally:
            await database.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(keep())


def run_object(cluster: Cluster, name: str, *, namespace: str) -> dict[str, Any]:
    """A WorkflowInvocation as it is now; empty if there is none."""
    return _named(cluster, INVOCATIONS, name, namespace=namespace)


def job(cluster: Cluster, name: str, *, namespace: str) -> dict[str, Any]:
    """A Job as it is now; empty if there is none."""
    return _named(cluster, JOBS, name, namespace=namespace)


def status(cluster: Cluster, name: str, *, namespace: str) -> dict[str, Any]:
    """The status of a WorkflowInvocation; empty while there is none."""
    found: dict[str, Any] = run_object(cluster, name, namespace=namespace).get("status", {})
    return found


def await_phase(cluster: Cluster, name: str, wanted: str, *, namespace: str, seconds: float = 30) -> dict[str, Any]:
    """The status of a run once it stands there."""
    wait_until(
        lambda: status(cluster, name, namespace=namespace).get("phase") == wanted,
        what=f"{name} to be {wanted}",
        seconds=seconds,
        shown=lambda: str(status(cluster, name, namespace=namespace)),
    )
    return status(cluster, name, namespace=namespace)


def row(dsn: str, invocation_id: str) -> dict[str, Any]:
    """How a run is stored."""
    columns = ("phase", "reason", "message", "object_uid", "decision")
    ((*values,),) = fetch(dsn, f"select {', '.join(columns)} from formulary.invocation where id = $1", invocation_id)
    return dict(zip(columns, values, strict=True))


def kinds(dsn: str, trace_id: str) -> list[str]:
    """What happened in a trace, in order."""
    events = fetch(dsn, "select kind from formulary.trace_event where trace_id = $1 order by seq", trace_id)
    return [kind for (kind,) in events]


def created_jobs(requests: list[Request], *, namespace: str) -> list[str]:
    """The names of the Jobs that were really created in a namespace, by the audit log of the API server."""
    made = [each for each in requests if (each.resource, each.verb, each.code) == ("jobs", "create", 201)]
    return [each.name for each in made if each.namespace == namespace]


def _target(name: str, namespace: str) -> RunTarget:
    return RunTarget(api_version="apps/v1", kind="Deployment", name=name, namespace=namespace)


def _named(cluster: Cluster, resource: Resource, name: str, *, namespace: str) -> dict[str, Any]:
    found = objects(cluster, resource, namespace=namespace)
    return next((each for each in found if each["metadata"]["name"] == name), {})
