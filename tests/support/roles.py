"""Rights in a cluster as objects: ClusterRoles, and bindings of them to ServiceAccounts."""

from typing import Any

from support.control_plane import Cluster

LIST, GET = "formulary-test-list", "formulary-test-get"
"""ClusterRoles that allow to list workflows and to get incidents."""


def binding_name(role: str, account: str) -> str:
    """What `bind` calls the binding of a role to an account."""
    return f"{account}-{role}".replace(":", "-")


def bind(cluster: Cluster, role: str, *, to: tuple[str, str], namespace: str = "") -> None:
    """Bind a ClusterRole to a ServiceAccount, in a namespace or in the whole cluster."""
    account, its_namespace = to
    binding = rbac(
        "RoleBinding" if namespace else "ClusterRoleBinding",
        binding_name(role, account),
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": its_namespace}],
    )
    cluster.apply(binding, namespace=namespace or "default")


def rbac(kind: str, name: str, **members: Any) -> dict[str, Any]:
    """An object of RBAC."""
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **members}
