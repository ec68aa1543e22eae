"""What tests do with the objects of a cluster, and with the catalog that follows them."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.targets.reading import BUDGETS
from formulary_catalog.domain.targets.reference import KINDS
from formulary_catalog.errors import InvalidManifest
from formulary_operator.api.names import (
    ANALYSES,
    APPROVALS,
    CONTRACTS,
    INCIDENT_SOURCES,
    INVOCATIONS,
    WORKFLOWS,
    Resource,
)
from support.control_plane import Cluster
from support.waiting import wait_until

_CURRENT = """
select v.namespace || '/' || v.name as workflow, v.version_id, v.status, count(s.emb) > 0 as embedded
from formulary.workflow_version v left join formulary.workflow_search s using (version_id)
where v.status in ('Active', 'Disabled') and v.namespace = any ($1) group by v.version_id
"""
_STRAY = """
select v.namespace || '/' || v.name as workflow, v.status
from formulary.workflow_search s join formulary.workflow_version v using (version_id)
where v.status <> 'Active' and v.namespace = any ($1)
"""
_CONTEXTS = """
select namespace || '/' || name as analysis, remediation_id
from formulary.request_context where gone_at is null and namespace = any ($1)
"""
_REFUSED = """
select namespace || '/' || name as workflow, reason, message
from formulary.refused_workflow where namespace = any ($1)
"""
_READ_OF_TARGETS = [
    {"apiGroups": [each.group], "resources": [each.resource], "verbs": ["get", "list"]} for each in (*KINDS, BUDGETS)
]
_RULES = [
    *_READ_OF_TARGETS,
    {
        "apiGroups": ["kubernaut.ai"],
        "resources": [WORKFLOWS.plural, ANALYSES.plural],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["kubernaut.ai"], "resources": [f"{WORKFLOWS.plural}/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {
        "apiGroups": ["formulary.dev"],
        "resources": [INVOCATIONS.plural],
        "verbs": ["create", "get", "list", "watch", "delete"],
    },
    {
        "apiGroups": ["formulary.dev"],
        "resources": [CONTRACTS.plural, APPROVALS.plural, INCIDENT_SOURCES.plural],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["formulary.dev"],
        "resources": [f"{each.plural}/status" for each in (INVOCATIONS, CONTRACTS, APPROVALS, INCIDENT_SOURCES)],
        "verbs": ["patch"],
    },
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["serviceaccounts", "secrets", "configmaps"], "verbs": ["get"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
]
_ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "formulary-operator-in-tests"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAccount:
    """A ServiceAccount with the permissions that an operator needs, and no more."""

    namespace: str
    user: str
    kubeconfig: Path


@contextmanager
def without_rights_on(plural: str, *, cluster: Cluster) -> Iterator[None]:
    """The operators of the tests have no rights on this resource meanwhile."""
    cluster.apply({**_ROLE, "rules": [rule for rule in _RULES if plural not in rule["resources"]]})
    try:
        yield
    finally:
        cluster.apply({**_ROLE, "rules": _RULES})


def new_operator_account(cluster: Cluster, *, namespace: str = "formulary-system") -> OperatorAccount:
    """Make such an account in a cluster."""
    token = cluster.service_account(namespace, "operator", audiences=[], ttl=24 * 3600)
    rbac, name = "rbac.authorization.k8s.io", _ROLE["metadata"]["name"]
    kind = {"apiVersion": f"{rbac}/v1", "metadata": {"name": name}}
    cluster.apply(
        {**_ROLE, "rules": _RULES},
        {
            **kind,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
        },
    )
    return OperatorAccount(
        namespace=namespace,
        user=f"system:serviceaccount:{namespace}:operator",
        kubeconfig=cluster.kubeconfig_for(token),
    )


def install_kinds(cluster: Cluster, crds: Path) -> None:
    """Apply the CRDs of a directory and wait until their kinds are served."""
    cluster.kubectl("apply", f"--filename={crds}")
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"--filename={crds}")


def apply_many(cluster: Cluster, manifests: Iterable[Mapping[str, Any]], *, namespace: str) -> None:
    """`kubectl apply` of many objects: on the server, which is twice as fast."""
    together = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    cluster.kubectl("apply", "--server-side", f"--namespace={namespace}", "--filename=-", input=json.dumps(together))


def delete_all(cluster: Cluster, resource: Resource, *, namespace: str, selector: str = "") -> None:
    """Delete all objects of a kind in a namespace, or those with a label such as `half=first`, in one request."""
    query = f"?labelSelector={selector.replace('=', '%3D')}" if selector else ""
    cluster.raw("delete", resource.path(namespace=namespace) + query)


def objects(cluster: Cluster, resource: Resource, *, namespace: str) -> list[dict[str, Any]]:
    """All objects of a kind in a namespace."""
    items: list[dict[str, Any]] = json.loads(cluster.raw("get", resource.path(namespace=namespace)))["items"]
    return items


def condition(document: Mapping[str, Any], kind: str = "Ready") -> dict[str, Any]:
    """One condition of an object's status; empty if it has none."""
    conditions = document.get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == kind), {})


def fetch(dsn: str, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    """The rows of a query, as the owner of the database."""

    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(dsn)
        try:
            return [tuple(row) for row in await connection.fetch(statement, *arguments)]
        finally:
            await connection.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(ask())


def disagreements(cluster: Cluster, dsn: str, *namespaces: str) -> list[str]:
    """What is not the same in the objects of the cluster, their statuses and the catalog; empty when all is well."""
    watched = list(namespaces)
    stored = {row[0]: row[1:] for row in fetch(dsn, _CURRENT, watched)}
    problems = [f"{workflow} is {status} and still found" for workflow, status in fetch(dsn, _STRAY, watched)]
    documents = [document for name in namespaces for document in objects(cluster, WORKFLOWS, namespace=name)]
    for document in documents:
        problems += _workflow_problems(document, stored=stored)
    problems += [f"{orphan} has no object" for orphan in stored.keys() - set(map(_key, documents))]
    noted = {row[0]: row[1:] for row in fetch(dsn, _REFUSED, watched)}
    refused = {
        _key(document): (ready["reason"], ready["message"])
        for document in documents
        if (ready := condition(document)).get("reason") in ("Invalid", "VersionImmutable")
    }
    if noted != refused:
        problems.append(f"refused are {refused} and noted {noted}")
    analyses = {
        _key(document): document["spec"]["remediationId"]
        for name in namespaces
        for document in objects(cluster, ANALYSES, namespace=name)
    }
    contexts = dict(fetch(dsn, _CONTEXTS, watched))
    if analyses != contexts:
        problems.append(f"the incidents are {analyses} and the contexts {contexts}")
    return problems


def await_agreement(cluster: Cluster, dsn: str, *namespaces: str, seconds: float = 30) -> None:
    """Wait until cluster and catalog agree. Raises AssertionError with the first differences."""
    wait_until(
        lambda: not disagreements(cluster, dsn, *namespaces),
        what="cluster and catalog to agree",
        seconds=seconds,
        shown=lambda: "\n".join(disagreements(cluster, dsn, *namespaces)[:5]),
    )


def _workflow_problems(document: Mapping[str, Any], *, stored: Mapping[str, tuple[str, str, bool]]) -> list[str]:
    key, metadata, status = _key(document), document["metadata"], document.get("status", {})
    ready = condition(document)
    if ready.get("observedGeneration") != metadata["generation"]:
        return [f"{key} is not observed"]
    identity = {"name": metadata["name"], "namespace": metadata["namespace"]}
    try:
        entry = catalog_entry({**document, "metadata": identity}, source="test", default_namespace="")
    except InvalidManifest:
        return [] if status.get("catalogStatus") == "Invalid" else [f"{key} is invalid and its status is {status}"]
    suspended = entry.workflow.spec.suspend
    wanted = (entry.version_id, "Disabled", False) if suspended else (entry.version_id, "Active", True)
    problems = []
    if stored.get(key) != wanted:
        problems.append(f"{key} should be {wanted} and is {stored.get(key)}")
    told = (status.get("versionId"), status.get("catalogStatus"), condition(document, "Indexed").get("status"))
    if told != (*wanted[:2], str(wanted[2])):
        problems.append(f"{key} should be {wanted} and its status says {told}")
    return problems


def _key(document: Mapping[str, Any]) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"
