"""People who sign in by a provider or through a proxy have the rights that RBAC gives (DESIGN section 14)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from formulary_catalog.domain.access import (
    ANALYSE,
    APPROVE,
    HALT,
    INVOKE,
    LIFT,
    LIST_RULES,
    READ_CONSTRAINTS,
    READ_CONTRACTS,
    READ_INVOCATIONS,
    SEE_WORKFLOWS,
    USE_CONTEXTS,
    Caller,
    OidcClient,
    Right,
)
from formulary_catalog.errors import NotAuthenticated
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.access.authentication import KubernetesAuthenticator
from formulary_operator.kube.client import KubeClient
from support.cluster import install_kinds
from support.control_plane import AUDIENCE, Cluster, KubectlFailed, control_plane
from support.oidc_issuer import OidcIssuer, oidc_issuer
from support.roles import rbac
from support.serving import catalog, serving
from support.waiting import wait_until

CLIENT = "formulary-console"
SECRET = "a secret of the proxy that has more than 32 bytes"
RIGHTS = (
    SEE_WORKFLOWS,
    USE_CONTEXTS,
    READ_CONSTRAINTS,
    INVOKE,
    APPROVE,
    READ_INVOCATIONS,
    READ_CONTRACTS,
    HALT,
    LIFT,
    LIST_RULES,
    ANALYSE,
)
NAMESPACES = ("shop", "bank")
PREFIX = "corp:"
"""The API server puts it before what the provider says; a proxy has to send the same names."""


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcIssuer]:
    with oidc_issuer(tmp_path_factory.mktemp("issuer")) as opened:
        yield opened


@pytest.fixture(scope="module")
def trusting(issuer: OidcIssuer) -> Iterator[Cluster]:
    """An API server that takes ID tokens of the issuer, with what two people may do."""
    options = (
        f"--oidc-issuer-url={issuer.url}",
        f"--oidc-client-id={CLIENT}",
        f"--oidc-ca-file={issuer.authority}",
        f"--oidc-username-prefix={PREFIX}",
        f"--oidc-groups-prefix={PREFIX}",
        "--oidc-groups-claim=groups",
    )
    with control_plane(*options) as cluster:
        install_kinds(cluster, Path(__file__).parents[2] / "crds")
        for namespace in NAMESPACES:
            cluster.create_namespace(namespace)
        cluster.service_account("formulary", "server", audiences=[])
        _bind(cluster, "system:auth-delegator", {"kind": "ServiceAccount", "name": "server", "namespace": "formulary"})
        roles = {
            "reads": (SEE_WORKFLOWS, READ_INVOCATIONS, LIST_RULES),
            "approves": (APPROVE, USE_CONTEXTS, HALT),
            "analyses": (ANALYSE, READ_CONTRACTS, READ_CONSTRAINTS, LIFT, INVOKE),
        }
        for name, rights in roles.items():
            rules = [{"apiGroups": [it.group], "resources": [it.resource], "verbs": [it.verb]} for it in rights]
            cluster.apply(rbac("ClusterRole", name, rules=rules))
        _bind(cluster, "reads", {"kind": "Group", "name": f"{PREFIX}oncall"}, namespace="shop")
        _bind(cluster, "approves", {"kind": "User", "name": f"{PREFIX}ann"}, namespace="shop")
        _bind(cluster, "analyses", {"kind": "User", "name": f"{PREFIX}ann"}, namespace="bank")
        # It reads the keys of the issuer in its own time, and refuses ID tokens until then.
        token = issuer.id_token("probe", client_id=CLIENT, groups=[])
        wait_until(lambda: _knows(cluster, token), what="the API server to know the issuer")
        yield cluster


@pytest.fixture(scope="module")
async def authenticator(trusting: Cluster, issuer: OidcIssuer) -> AsyncIterator[KubernetesAuthenticator]:
    token = await asyncio.to_thread(trusting.service_account, "formulary", "server", audiences=[])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(trusting.kubeconfig_for(token)))
        client = await KubeClient.connect()
    opened = KubernetesAuthenticator(client, audience=AUDIENCE, oidc=OidcClient(issuer=issuer.url, client_id=CLIENT))
    yield opened
    await opened.close()
    await client.close()


async def by_token(authenticator: KubernetesAuthenticator, token: str) -> Caller:
    return await authenticator.authenticate([f"Bearer {token}"], address="127.0.0.1")


@pytest.mark.parametrize("way", ["token", "proxy"])
@pytest.mark.parametrize(("user", "groups"), [("ann", ["oncall"]), ("bob", ["oncall"]), ("eve", [])])
async def test_a_person_has_the_rights_that_kubectl_says(
    authenticator: KubernetesAuthenticator,
    trusting: Cluster,
    issuer: OidcIssuer,
    way: str,
    user: str,
    groups: list[str],
) -> None:
    named = [f"{PREFIX}{group}" for group in groups]
    if way == "token":
        caller = await by_token(authenticator, issuer.id_token(user, client_id=CLIENT, groups=groups))
    else:
        caller = await authenticator.vouched_for(f"{PREFIX}{user}", named)

    given = {(str(right), at): await caller.access.allows(right, namespace=at) for right in RIGHTS for at in NAMESPACES}

    assert caller.name == f"{PREFIX}{user}"
    assert given == {
        (str(right), at): _can(trusting, right, at, user=caller.name, groups=named)
        for right in RIGHTS
        for at in NAMESPACES
    }
    assert any(given.values()) == (user != "eve")


async def test_a_service_account_has_the_rights_that_kubectl_says(
    authenticator: KubernetesAuthenticator, trusting: Cluster
) -> None:
    account = {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"}
    token = await asyncio.to_thread(trusting.service_account, "shop", "robot")
    for role, namespace in (("approves", "shop"), ("analyses", "bank")):
        _bind(trusting, role, account, namespace=namespace)

    caller = await by_token(authenticator, token)
    given = {(str(right), at): await caller.access.allows(right, namespace=at) for right in RIGHTS for at in NAMESPACES}

    assert caller.name == "system:serviceaccount:shop:robot"
    groups = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
    assert given == {
        (str(right), at): _can(trusting, right, at, user=caller.name, groups=groups)
        for right in RIGHTS
        for at in NAMESPACES
    }
    assert {right for (right, _), may in given.items() if may} == {
        str(right) for right in (APPROVE, USE_CONTEXTS, HALT, ANALYSE, READ_CONTRACTS, READ_CONSTRAINTS, LIFT, INVOKE)
    }


async def test_an_id_token_for_another_client_or_of_another_issuer_is_refused(
    authenticator: KubernetesAuthenticator, issuer: OidcIssuer, tmp_path: Path
) -> None:
    with oidc_issuer(tmp_path) as other:
        refused = [
            issuer.id_token("ann", client_id="another-app", groups=[]),
            other.id_token("ann", client_id=CLIENT, groups=[]),
            other.id_token("ann", client_id=CLIENT, groups=[], iss=issuer.url),  # signed with another key
            issuer.id_token("ann", client_id=CLIENT, groups=[], exp=1),
            issuer.id_token("ann", client_id=CLIENT, groups=[], **{"kubernetes.io": {"namespace": "shop"}}),
        ]
    for token in refused:
        with pytest.raises(NotAuthenticated):
            await by_token(authenticator, token)


@pytest.mark.parametrize(
    ("user", "groups"),
    [("system:admin", []), ("ann", ["oncall", "system:masters"]), ("ann", ["kubeadm:cluster-admins"])],
)
async def test_no_proxy_vouches_for_names_of_the_cluster(
    authenticator: KubernetesAuthenticator, user: str, groups: list[str]
) -> None:
    with pytest.raises(NotAuthenticated, match="cluster's own"):
        await authenticator.vouched_for(user, groups)


async def test_the_console_and_the_api_take_an_id_token(
    authenticator: KubernetesAuthenticator, issuer: OidcIssuer, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    bearer = {"Authorization": f"Bearer {issuer.id_token('ann', client_id=CLIENT, groups=['oncall'])}"}
    proxied = {"X-Formulary-Proxy-Secret": SECRET, "X-Forwarded-User": f"{PREFIX}ann"}
    async with (
        catalog([], postgres=postgres, embedder=None) as parts,
        serving(parts, authenticator=authenticator, console_proxy_secret_file=secret) as url,
        httpx2.AsyncClient(base_url=url) as http,
    ):
        by_bearer, by_proxy = [await http.get("/console/waiting", headers=each) for each in (bearer, proxied)]
        api = await http.get("/api/v1/invocations", headers=bearer)

    assert [page.status_code for page in (by_bearer, by_proxy, api)] == [200, 200, 200]
    assert all("corp:ann" in page.text for page in (by_bearer, by_proxy))


def _knows(cluster: Cluster, token: str) -> bool:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = json.loads(cluster.kubectl("create", "--filename=-", "--output=json", input=json.dumps(review)))
    return answer["status"].get("authenticated") is True


def _can(cluster: Cluster, right: Right, namespace: str, *, user: str, groups: list[str]) -> bool:
    """What `kubectl auth can-i` says; of resources that this API server does not serve, it asks for none of a group."""
    if right in (LIST_RULES, ANALYSE):
        return _reviewed(cluster, right, namespace, user=user, groups=groups)
    as_groups = [f"--as-group={group}" for group in groups]
    resource, _, part = right.resource.partition("/")
    asked = ("auth", "can-i", right.verb, f"{resource}.{right.group}", f"--subresource={part}")
    try:
        said = cluster.kubectl(*asked, f"--namespace={namespace}", f"--as={user}", *as_groups)
    except KubectlFailed:
        return False  # kubectl ends with 1 where it says no
    return said.strip() == "yes"


def _reviewed(cluster: Cluster, right: Right, namespace: str, *, user: str, groups: list[str]) -> bool:
    asked = {"verb": right.verb, "resource": right.resource, "group": right.group, "namespace": namespace}
    spec = {"user": user, "groups": groups, "resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = json.loads(cluster.kubectl("create", "--filename=-", "--output=json", input=json.dumps(review)))
    return bool(answer["status"]["allowed"])


def _bind(cluster: Cluster, role: str, subject: dict[str, str], *, namespace: str = "") -> None:
    group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": "rbac.authorization.k8s.io"}
    binding = rbac(
        "RoleBinding" if namespace else "ClusterRoleBinding",
        f"{role.replace(':', '-')}-{subject['kind'].lower()}",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[subject | group],
    )
    cluster.apply(binding, namespace=namespace or "default")
