"""Who may call a server that checks its callers, and who checks them."""

from pathlib import Path

import pytest

from formulary_catalog.domain.access import SEE_WORKFLOWS, USE_CONTEXTS
from support.callers import AGENTS
from support.control_plane import Cluster
from support.roles import GET, LIST, bind, rbac
from support.tenants import BANK, SHARED, SHOP, TARGET


@pytest.fixture(scope="session")
def roles(cluster: Cluster) -> None:
    """The two rights as ClusterRoles, the namespaces, and a server that may check callers."""
    for namespace in (SHARED, SHOP, TARGET, BANK):
        cluster.create_namespace(namespace)
    for role, right in ((LIST, SEE_WORKFLOWS), (GET, USE_CONTEXTS)):
        rule = {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
        cluster.apply(rbac("ClusterRole", role, rules=[rule]))
    cluster.service_account(SHARED, "server", audiences=[])
    bind(cluster, "system:auth-delegator", to=("server", SHARED))


@pytest.fixture(scope="module")
def reviewer(cluster: Cluster, roles: None) -> Path:
    """The kubeconfig of the server."""
    return cluster.kubeconfig_for(cluster.service_account(SHARED, "server", audiences=[]))


@pytest.fixture(scope="module")
def responder(cluster: Cluster, roles: None) -> str:
    """A token of an agent with the rights that its work takes."""
    token = cluster.service_account(AGENTS, "responder")
    for namespace in (SHARED, SHOP, TARGET):
        bind(cluster, LIST, to=("responder", AGENTS), namespace=namespace)
    bind(cluster, GET, to=("responder", AGENTS), namespace=SHOP)
    return token
