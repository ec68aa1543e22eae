"""A person signs in at a real OpenID provider from an MCP client, and RBAC decides what they see (DESIGN section 9).

The client is that of the MCP SDK, which knows the address of the server and learns the rest from a 401. The
authorization scenarios of the conformance suite are about clients and providers; it has none for a server.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import jwt
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from formulary_catalog.domain.access import SEE_WORKFLOWS
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent, found, refused
from support.control_plane import Cluster, control_plane
from support.oidc_provider import OidcProvider, oidc_provider
from support.operator_process import server
from support.roles import bind, rbac
from support.runnable import runnable_database
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # the first run on a machine installs the provider

CLIENT = "formulary-people"
PREFIX = "corp:"
SHARED = "formulary"
TOOL, QUERY = "search_workflow_catalog", {"query": "restart"}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    with oidc_provider(tmp_path_factory.mktemp("provider"), audience=CLIENT) as opened:
        yield opened


@pytest.fixture(scope="module")
def trusting(provider: OidcProvider) -> Iterator[Cluster]:
    """An API server that takes tokens of the provider, where people on call may see the shared workflows."""
    options = (
        f"--oidc-issuer-url={provider.url}",
        f"--oidc-client-id={CLIENT}",
        f"--oidc-ca-file={provider.authority}",
        f"--oidc-username-prefix={PREFIX}",
        f"--oidc-groups-prefix={PREFIX}",
        "--oidc-groups-claim=groups",
    )
    with control_plane(*options) as cluster:
        rule = {"apiGroups": [SEE_WORKFLOWS.group], "resources": [SEE_WORKFLOWS.resource], "verbs": ["list"]}
        cluster.apply(rbac("ClusterRole", "reads", rules=[rule]))
        cluster.service_account(SHARED, "server", audiences=[])
        bind(cluster, "system:auth-delegator", to=("server", SHARED))
        bind(cluster, "reads", to=("robot", SHARED), namespace=SHARED)
        on_call = rbac(
            "RoleBinding",
            "on-call",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"},
            subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"{PREFIX}oncall"}],
        )
        cluster.apply(on_call, namespace=SHARED)
        wait_until(provider.is_known_to_api_server, what="the API server to know the provider")
        yield cluster


@pytest.fixture(scope="module")
async def url(
    trusting: Cluster, provider: OidcProvider, postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A server that takes people of the provider."""
    kubeconfig = trusting.kubeconfig_for(trusting.service_account(SHARED, "server", audiences=[]))
    oidc = {"oidc_issuer": provider.url, "oidc_client_id": CLIENT}
    async with runnable_database(postgres, tmp_path_factory.mktemp("manifests")) as dsn:
        with server(dsn=dsn, kubeconfig=kubeconfig, authentication="kubernetes", **oidc) as process:
            await asyncio.to_thread(process.start().wait_ready)
            yield process.url


@asynccontextmanager
async def signed_in(url: str, *, provider: OidcProvider, user: str) -> AsyncIterator[Client]:
    """A client that was given the address alone, whose person signs in when it asks them to."""
    person = provider.sign_in(f"{url}/mcp", user=user)
    async with httpx2.AsyncClient(auth=person.auth, verify=provider.trust) as http:
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            yield client
    assert person.tokens is not None
    claims = jwt.decode(person.tokens.access_token, options={"verify_signature": False})
    assert (claims["aud"], claims["sub"]) == (CLIENT, user)


async def test_a_person_on_call_signs_in_from_the_address_alone_and_sees_what_their_group_may_see(
    url: str, provider: OidcProvider
) -> None:
    async with signed_in(url, provider=provider, user="ann") as client:
        assert found(await client.call_tool(TOOL, QUERY))


async def test_a_person_without_rights_signs_in_and_sees_nothing(url: str, provider: OidcProvider) -> None:
    async with signed_in(url, provider=provider, user="eve") as client:
        assert f"{PREFIX}eve" in refused(await client.call_tool(TOOL, QUERY))


@pytest.mark.parametrize("path", ["/mcp", "/mcp/token"])
async def test_an_agent_with_a_fixed_header_is_served_as_without_a_provider(
    url: str, trusting: Cluster, path: str
) -> None:
    token = trusting.service_account(SHARED, "robot")
    async with agent(url, path=path, headers={"Authorization": f"Bearer {token}"}) as client:
        assert found(await client.call_tool(TOOL, QUERY))
