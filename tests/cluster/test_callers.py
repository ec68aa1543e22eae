"""Tokens and rights as a real API server judges them (DESIGN section 9)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from structlog.testing import capture_logs

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.access.authentication import KubernetesAuthenticator
from formulary_operator.access.reviews import BRIEF_SECONDS, LASTING_SECONDS
from formulary_operator.kube.client import KubeClient
from support.agent import ERAS, agent, answer_of, call, found, refused
from support.callers import AGENTS, QUERY, by, message, search, signed_again
from support.control_plane import AUDIENCE, Cluster, ControlPlane, KubectlFailed
from support.roles import GET, LIST, bind, binding_name
from support.serving import catalog, serving
from support.tenants import BANK, BANK_INCIDENT, SECRET, SHOP, write_manifests
from support.visiting import visiting

REVIEWER = "system:serviceaccount:formulary:server"


class Clock:
    """The time, which a test may put forward."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def forward(self, seconds: float) -> None:
        self._ahead += seconds

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def on_the_wall(self) -> float:
        return time.time() + self._ahead


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    manifests = write_manifests(tmp_path_factory.mktemp("tenants"))
    loaded = catalog(
        [manifests], postgres=postgres, embedder=None, policy=ContextPolicy.REQUIRED, context_wait_seconds=0
    )
    async with loaded as opened:
        yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts, reviewer: Path) -> AsyncIterator[str]:
    async with _authenticated(parts, reviewer) as at:
        yield at


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_with_a_token_lists_tools_and_finds_what_it_may_see(url: str, responder: str, mode: str) -> None:
    async with agent(url, mode=mode, headers=by(responder)) as client:
        tools = await client.list_tools()
        result = await client.call_tool("search_workflow_catalog", QUERY)

    assert "search_workflow_catalog" in {tool.name for tool in tools.tools}
    assert sorted(found(result)) == ["formulary-restart", "shop-apps-restart", "shop-restart"]
    assert SECRET not in json.dumps(answer_of(result))


@pytest.mark.smoke
async def test_a_call_without_a_token_is_told_how_to_get_one(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answered = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    assert answered.status_code == 401
    assert f"kubectl create token SERVICEACCOUNT --audience {AUDIENCE}" in message(answered)


async def test_what_is_no_token_is_refused_and_the_api_server_is_not_asked(
    url: str, control_plane: ControlPlane
) -> None:
    before = _reviews(control_plane, "tokenreviews")
    for garbage in ("garbage", "a.b.c", "e30.e30.c2ln"):
        answered = await search(url, garbage)
        assert (answered.status_code, "is not valid here" in message(answered)) == (401, True)
    assert _reviews(control_plane, "tokenreviews") == before


@pytest.mark.parametrize("audiences", [["vault"], ["https://kubernetes.default.svc"], []])
async def test_a_token_for_another_audience_is_refused(url: str, cluster: Cluster, audiences: list[str]) -> None:
    answered = await search(url, cluster.service_account(AGENTS, "responder", audiences=audiences))

    assert answered.status_code == 401
    assert "is not for the audience formulary" in message(answered)


async def test_the_credentials_of_the_administrator_are_refused(url: str, cluster: Cluster) -> None:
    (user,) = yaml.safe_load(cluster.kubeconfig.read_text())["users"]
    answered = await search(url, user["user"]["token"])

    assert (answered.status_code, "is not valid here" in message(answered)) == (401, True)


def test_a_token_for_formulary_is_of_no_use_at_the_api_server(cluster: Cluster, responder: str) -> None:
    with pytest.raises(KubectlFailed, match=r"(?i)unauthorized|logged in"):
        cluster.kubectl("get", "namespaces", kubeconfig=cluster.kubeconfig_for(responder))


async def test_a_token_is_refused_from_the_moment_it_expires(
    parts: CatalogParts, reviewer: Path, control_plane: ControlPlane, responder: str
) -> None:
    key = serialization.load_pem_private_key(control_plane.signing_key.read_bytes(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    expired, short = signed_again(responder, key, lifetime=-3600), signed_again(responder, key, lifetime=20)
    clock = Clock()
    async with _authenticated(parts, reviewer, clock=clock) as url:
        refused_at_once = await search(url, expired)
        in_time = await search(url, short)
        clock.forward(20)  # its answer is still kept, and the API server would take it for another minute
        too_late = await search(url, short)

    assert (refused_at_once.status_code, in_time.status_code, too_late.status_code) == (401, 200, 401)
    assert "has expired" in message(refused_at_once)
    assert "has expired" in message(too_late)


async def test_the_api_server_itself_refuses_an_expired_token(
    parts: CatalogParts, reviewer: Path, control_plane: ControlPlane, responder: str
) -> None:
    key = serialization.load_pem_private_key(control_plane.signing_key.read_bytes(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    clock = Clock()
    clock.forward(-7200)  # a server whose clock is two hours late
    async with _authenticated(parts, reviewer, clock=clock) as url:
        answered = await search(url, signed_again(responder, key, lifetime=-3600))

    assert answered.status_code == 401


@pytest.mark.smoke
async def test_a_token_that_somebody_else_signed_is_refused(url: str, responder: str) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    answered = await search(url, signed_again(responder, stranger, lifetime=3600))

    assert (answered.status_code, "is not valid here" in message(answered)) == (401, True)


async def test_the_token_of_a_deleted_service_account_is_refused(url: str, cluster: Cluster) -> None:
    token = cluster.service_account(AGENTS, "leaver")
    cluster.kubectl("delete", "serviceaccount", "leaver", f"--namespace={AGENTS}")
    refused_in_the_end = await _until(url, token, status=401)

    assert "is not valid here" in message(refused_in_the_end)


@pytest.mark.smoke
async def test_a_namespace_in_which_the_caller_may_not_list_is_not_there(url: str, cluster: Cluster) -> None:
    token = cluster.service_account(AGENTS, "narrow")
    for role, namespace in [(LIST, SHOP), (GET, SHOP), (LIST, BANK)]:
        bind(cluster, role, to=("narrow", AGENTS), namespace=namespace)
    searched = await call(url, "search_workflow_catalog", QUERY, headers=by(token))
    shared = await call(url, "get_workflow_details", {"workflow_id": "formulary-restart"}, headers=by(token))
    # May be listed, but the incident has nothing to do with it.
    bank = await call(url, "get_workflow_details", {"workflow_id": "bank-restart"}, headers=by(token))

    assert found(searched) == ["shop-restart"]
    assert "is not found" in refused(shared)
    assert "is not found" in refused(bank)


@pytest.mark.parametrize("incident", [{"X-AIAnalysis": f"{BANK}/oom"}, {"X-AIAnalysis": f"{BANK}/no"}])
async def test_an_incident_in_a_namespace_where_the_caller_may_get_none_is_refused_with_what_is_missing(
    url: str, responder: str, incident: Mapping[str, str]
) -> None:
    on_mcp = await call(url, "search_workflow_catalog", QUERY, headers=by(responder, incident))
    on_rest = await search(url, responder, incident)

    missing = "system:serviceaccount:agents:responder may not get aianalyses.kubernaut.ai in namespace bank"
    assert refused(on_mcp).startswith(missing)
    assert on_rest.status_code == 403
    assert message(on_rest).startswith(missing)
    assert SECRET not in on_rest.text


async def test_an_id_that_the_caller_may_not_use_is_answered_as_one_that_nobody_has(url: str, responder: str) -> None:
    theirs = await search(url, responder, BANK_INCIDENT)
    nobodys = await search(url, responder, {"X-Remediation-Id": "rr-nope"})

    assert (theirs.status_code, theirs.text.replace("rr-bank", "rr-nope")) == (400, nobodys.text)
    assert BANK not in message(theirs).replace("rr-bank", "")


@pytest.mark.smoke
async def test_a_caller_without_any_role_is_refused(url: str, cluster: Cluster) -> None:
    answered = await search(url, cluster.service_account(AGENTS, "nobody"))

    assert answered.status_code == 400
    assert "'rr-shop' is not known here" in message(answered)


async def test_who_may_list_in_the_whole_cluster_sees_everything(url: str, cluster: Cluster) -> None:
    token = cluster.service_account(AGENTS, "auditor")
    for role in (LIST, GET):
        bind(cluster, role, to=("auditor", AGENTS))
    answered = await search(url, token, BANK_INCIDENT)

    assert answered.json()["total_results"] == 4


@pytest.mark.smoke
async def test_a_withdrawn_right_is_denied_once_the_answer_is_forgotten(
    parts: CatalogParts, reviewer: Path, cluster: Cluster
) -> None:
    clock = Clock()
    token = cluster.service_account(AGENTS, "leaving")
    bind(cluster, GET, to=("leaving", AGENTS), namespace=SHOP)
    bind(cluster, LIST, to=("leaving", AGENTS), namespace=SHOP)
    async with _authenticated(parts, reviewer, clock=clock) as url:
        before = await search(url, token)
        cluster.kubectl("delete", "rolebinding", binding_name(LIST, "leaving"), f"--namespace={SHOP}")
        after = await _until(url, token, status=403, forward=lambda: clock.forward(LASTING_SECONDS))

    assert before.json()["total_results"] == 1
    assert "may not list remediationworkflows.kubernaut.ai" in message(after)


async def test_a_withdrawn_right_is_denied_to_a_session_of_the_console_too(
    parts: CatalogParts, reviewer: Path, cluster: Cluster
) -> None:
    clock = Clock()
    token = cluster.service_account(AGENTS, "visiting")
    bind(cluster, LIST, to=("visiting", AGENTS), namespace=SHOP)
    async with _authenticated(parts, reviewer, clock=clock) as url, visiting(url) as visitor:
        await visitor.sign_in(token)
        before = await visitor.get("/console/catalog")
        cluster.kubectl("delete", "rolebinding", binding_name(LIST, "visiting"), f"--namespace={SHOP}")
        async with asyncio.timeout(20):
            while (after := await visitor.get("/console/catalog")).status == 200:
                clock.forward(LASTING_SECONDS)
                await asyncio.sleep(0.2)

    assert (before.status, "shop-restart" in before.text) == (200, True)
    assert (after.status, "shop-restart" in after.text) == (403, False)
    assert "may not list remediationworkflows.kubernaut.ai" in after.text


async def test_a_right_that_was_just_given_is_there_within_seconds(
    parts: CatalogParts, reviewer: Path, cluster: Cluster
) -> None:
    clock = Clock()
    token = cluster.service_account(AGENTS, "joining")
    async with _authenticated(parts, reviewer, clock=clock) as url:
        before = await search(url, token)
        bind(cluster, GET, to=("joining", AGENTS), namespace=SHOP)
        bind(cluster, LIST, to=("joining", AGENTS), namespace=SHOP)
        after = await _until(url, token, status=200, forward=lambda: clock.forward(BRIEF_SECONDS))

    assert before.status_code == 400
    assert after.json()["total_results"] == 1


async def test_many_calls_at_once_ask_the_api_server_once(
    parts: CatalogParts, reviewer: Path, control_plane: ControlPlane, responder: str
) -> None:
    def reviews() -> tuple[int, int]:
        return _reviews(control_plane, "tokenreviews"), _reviews(control_plane, "subjectaccessreviews")

    before = reviews()
    async with _authenticated(parts, reviewer) as url:
        answers = await asyncio.gather(*(search(url, responder) for _ in range(20)))
    after = reviews()

    assert {answer.status_code for answer in answers} == {200}
    # The right to get the incident; to list everywhere, and in each of three namespaces.
    assert (after[0] - before[0], after[1] - before[1]) == (1, 5)


async def test_without_the_api_server_nothing_is_allowed_that_was_not_allowed_a_moment_ago(
    parts: CatalogParts, reviewer: Path, control_plane: ControlPlane, responder: str
) -> None:
    clock, metrics = Clock(), Metrics()
    unknown = control_plane.service_account(AGENTS, "auditor")
    async with _authenticated(replace(parts, metrics=metrics), reviewer, clock=clock) as url:
        known = await search(url, responder)
        control_plane.stop_api_server()
        try:
            clock.forward(LASTING_SECONDS - 5)
            still_known = await search(url, responder)
            stranger = await search(url, unknown)
            other_incident = await search(url, responder, BANK_INCIDENT)
            async with httpx2.AsyncClient(base_url=url) as http:
                alive = await http.get("/healthz")
            clock.forward(LASTING_SECONDS)
            forgotten = await search(url, responder)
        finally:
            control_plane.start_api_server()
        again = await _until(url, responder, status=200)

    assert (known.status_code, still_known.status_code) == (200, 200)
    assert still_known.json()["total_results"] == 3
    for refusal in (stranger, other_incident, forgotten):
        assert refusal.status_code == 503
        assert "retry in a few seconds" in message(refusal)
    assert (alive.status_code, again.json()["total_results"]) == (200, 3)
    assert 'check="token",outcome="undecided"' in metrics.exposition().decode()


@pytest.mark.smoke
async def test_a_server_that_may_not_check_callers_lets_nobody_in_and_says_what_it_lacks(
    parts: CatalogParts, cluster: Cluster, responder: str
) -> None:
    powerless = cluster.kubeconfig_for(cluster.service_account(AGENTS, "powerless", audiences=[]))
    with capture_logs() as lines:
        async with _authenticated(parts, powerless) as url:
            answered = await search(url, responder)
            await search(url, responder)

    assert answered.status_code == 503
    assert [line["kind"] for line in lines if line["event"] == "review_refused"] == ["TokenReview"]
    assert "bind its ServiceAccount to the ClusterRole system:auth-delegator" in message(answered)


def _reviews(control_plane: ControlPlane, resource: str) -> int:
    """How many reviews of a kind the server has asked for so far."""
    return len(control_plane.requests(user=REVIEWER, verbs=["create"], resource=resource))


@asynccontextmanager
async def _authenticated(parts: CatalogParts, kubeconfig: Path, *, clock: Clock | None = None) -> AsyncIterator[str]:
    """A server that checks its callers with the identity of this kubeconfig."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(kubeconfig))
        client = await KubeClient.connect()
    clock = clock or Clock()
    authenticator = KubernetesAuthenticator(
        client, audience=AUDIENCE, clock=clock.monotonic, wall_clock=clock.on_the_wall
    )
    try:
        async with serving(parts, authenticator=authenticator) as url:
            yield url
    finally:
        await authenticator.close()
        await client.close()


async def _until(url: str, token: str, *, status: int, forward: Callable[[], None] | None = None) -> httpx2.Response:
    """The first answer with this status: the API server takes a moment to act on a change of roles."""
    deadline = time.monotonic() + 20
    while True:
        if forward is not None:
            forward()
        answered = await search(url, token)
        if answered.status_code == status:
            return answered
        assert time.monotonic() < deadline, answered.text
        await asyncio.sleep(0.2)
