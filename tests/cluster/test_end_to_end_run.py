"""An incident from the first search to the outcome: a real API server, operator and server, and an MCP client.

A test plays the Job controller. Staging heals by itself, production waits for a person, a contract says no; the trail
tells each story and proves that nobody has changed it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client

from formulary_catalog.domain.access import INVOKE, READ_INVOCATIONS, SEE_WORKFLOWS, USE_CONTEXTS
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.admission.validator import Validator
from formulary_operator.metrics import OperatorMetrics
from support.admission import Place, judging
from support.agent import agent, answer_of, refused
from support.cluster import OperatorAccount, await_agreement
from support.cluster_runs import created_jobs, incident, remedy
from support.commands import formulary
from support.control_plane import ControlPlane
from support.job_controller import job_controller
from support.kube_clients import connected
from support.manifest import approval, contract
from support.operator_process import Daemon, operator, server
from support.webhooks import Hook, hooked

RIGHTS = (SEE_WORKFLOWS, USE_CONTEXTS, INVOKE, READ_INVOCATIONS)
OOM = {"query": "OOMKilled critical restart"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """All that runs: the catalog is in the namespace `home`, incidents and runs are in `shop`."""

    plane: ControlPlane
    dsn: str
    home: str
    shop: str
    url: str
    token: str
    hook: Hook

    def client(self, remediation_id: str) -> Any:
        """An agent that works on an incident."""
        return agent(self.url, headers={"Authorization": f"Bearer {self.token}", "X-Remediation-Id": remediation_id})

    async def kubectl(self, *arguments: str) -> str:
        """What kubectl prints; in a thread, since the webhook answers in the event loop."""
        return await asyncio.to_thread(self.plane.kubectl, *arguments)

    async def apply(self, *documents: dict[str, Any]) -> None:
        """`kubectl apply` in the shop."""
        await asyncio.to_thread(self.plane.apply, *documents, namespace=self.shop)

    async def story(self, trace_id: str) -> str:
        """What `formulary trace show` prints, on one line. Raises AssertionError if the trace is not sound."""
        shown = await formulary("trace", "show", trace_id, FORMULARY_DATABASE_URL=self.dsn)
        assert shown.code == 0, shown.out + shown.err
        proven = await formulary("trace", "verify", trace_id, FORMULARY_DATABASE_URL=self.dsn)
        assert proven.code == 0, proven.out + proven.err
        return " ".join(shown.out.split())


@pytest.fixture(scope="module")
async def product(
    control_plane: ControlPlane, dsn: str, shared_namespace: str, operator_account: OperatorAccount
) -> AsyncIterator[Product]:
    """The product, with a remedy, three incidents in staging and production, and an agent that may run things."""
    shop = f"{shared_namespace}-shop"
    control_plane.create_namespace(shop)
    control_plane.kubectl("label", "namespace", shop, f"judged={shop}")
    writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
    judge = Validator(
        check=CatalogWriter(writing).check,
        records=AdmissionRecords(writing),
        operator_user=operator_account.user,
        metrics=OperatorMetrics(),
    )
    async with (
        connected(control_plane.kubeconfig) as client,
        judging(Place(plane=control_plane, client=client, namespace=shop), judge),
        hooked() as hook,
    ):
        with ExitStack() as stack:
            started = _started(control_plane, dsn, shared_namespace, shop, operator_account, hook)
            yield await asyncio.to_thread(stack.enter_context, started)
    await writing.close()


@contextmanager
def _started(
    plane: ControlPlane, dsn: str, home: str, shop: str, account: OperatorAccount, hook: Hook
) -> Iterator[Product]:
    reviewer = plane.kubeconfig_for(plane.service_account(home, "server", audiences=[]))
    reviews = ["create", "clusterrolebinding", f"{home}-reviews", "--clusterrole=system:auth-delegator"]
    plane.kubectl(*reviews, f"--serviceaccount={home}:server")
    with (
        operator(
            dsn=dsn,
            kubeconfig=account.kubeconfig,
            watch_namespaces=f"{home},{shop}",
            catalog_namespace=home,
            notifications=json.dumps([{"name": "oncall", "url": hook.url}]),
        ) as operating,
        server(
            dsn=dsn,
            kubeconfig=reviewer,
            authentication="kubernetes",
            request_context="required",
            catalog_namespace=home,
        ) as serving,
        job_controller(plane, shop),
    ):
        operating.start()
        serving.start().wait_ready()
        operating.wait_ready()
        plane.apply(remedy(), namespace=home)
        for name, environment in (("staging", "staging"), ("production", "production"), ("denied", "staging")):
            plane.apply(incident(name, namespace=shop, environment=environment), namespace=shop)
        await_agreement(plane, dsn, home, shop)
        token = _agent_token(plane, home, shop)
        yield Product(plane=plane, dsn=dsn, home=home, shop=shop, url=serving.url, token=token, hook=hook)
        _require_calm(operating, serving)


def _agent_token(plane: ControlPlane, home: str, shop: str) -> str:
    """The token of an agent that may see workflows, use incidents, and run things in the shop."""
    token = plane.service_account(home, "agent")
    rules = [{"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]} for right in RIGHTS]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "agent"}}
    binding = {
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": home}],
    }
    for namespace in (home, shop):
        plane.apply({**rbac, "kind": "Role", "rules": rules}, {**rbac, **binding}, namespace=namespace)
    return token


def _require_calm(*daemons: Daemon) -> None:
    assert [line for daemon in daemons for line in daemon.crashes()] == []


async def _chosen(client: Client) -> dict[str, Any]:
    """Search for the remedy and record why it was chosen; the first arguments of the call that runs it."""
    found = answer_of(await client.call_tool("search_workflow_catalog", OOM))
    (hit,) = found["workflows"]
    choice = {"workflow_id": hit["workflow_id"], "version": hit["version"], "search_id": found["search_id"]}
    why = {"reasoning": "A restart frees the memory.", "confidence": 0.9}
    assert not (await client.call_tool("record_workflow_selection", choice | why)).is_error
    return choice | {"input": {"REPLICAS": 2}}


@pytest.mark.smoke
async def test_in_staging_what_was_found_and_chosen_is_run_and_its_story_is_sound(product: Product) -> None:
    async with product.client("rr-staging") as client:
        wanted = await _chosen(client)
        done = answer_of(await client.call_tool("invoke_workflow", wanted))
    assert (done["state"], done["output"]) == ("completed", {"restarted": ["checkout-1"]})
    assert created_jobs(product.plane.requests(), namespace=product.shop).count(done["invocation_id"]) == 1
    story = await product.story("rr-staging")
    for part in ("OOMKilled critical restart", "A restart frees the memory.", done["invocation_id"], "checkout-1"):
        assert part in story


@pytest.mark.smoke
async def test_in_production_it_waits_is_approved_with_kubectl_and_runs_once(product: Product) -> None:
    async with product.client("rr-production") as client:
        waits = answer_of(await client.call_tool("invoke_workflow", await _chosen(client)))
        assert waits["state"] == "awaiting_approval"
        run = waits["invocation_id"]
        await product.apply(approval("go-on", run=run))
        done = waits
        while done["state"] in ("awaiting_approval", "pending", "running"):
            following = {"invocation_id": run, "wait_ms": 20_000, "after_revision": done["revision"]}
            done = answer_of(await client.call_tool("get_invocation_status", following))
    assert (done["state"], done["output"]) == ("completed", {"restarted": ["checkout-1"]})
    assert created_jobs(product.plane.requests(), namespace=product.shop).count(run) == 1
    story = await product.story("rr-production")
    for part in ("the environment is production", "admin", run, "checkout-1"):
        assert part in story
    columns = await product.kubectl("get", "wfi", run, f"--namespace={product.shop}")
    assert "Succeeded" in columns
    decided = await product.hook.received(f"{run}.decided")
    assert (decided["type"], decided["data"]["decided_by"]) == ("dev.formulary.run.decided", "admin")


@pytest.mark.smoke
async def test_a_contract_denies_and_the_trail_says_which_rule(product: Product) -> None:
    freeze = contract("quarter-end", effect="DENY", match={"workflows": ["restart"], "actionTypes": ["RestartPod"]})
    freeze["spec"]["rules"][0] |= {"id": "no-restarts", "rationale": "The books are being closed."}
    await product.apply(freeze)
    ready = ["wait", "gcon/quarter-end", "--for=condition=Ready", f"--namespace={product.shop}", "--timeout=30s"]
    await product.kubectl(*ready)
    try:
        async with product.client("rr-denied") as client:
            message = refused(await client.call_tool("invoke_workflow", await _chosen(client)))
    finally:
        await product.kubectl("delete", "gcon", "quarter-end", f"--namespace={product.shop}")
    assert "no-restarts" in message
    assert "The books are being closed." in message
    story = await product.story("rr-denied")
    assert "no-restarts" in story
    assert "The books are being closed." in story


@pytest.mark.smoke
async def test_the_whole_trail_is_as_it_was_written(product: Product) -> None:
    proven = await formulary("trace", "verify", FORMULARY_DATABASE_URL=product.dsn)
    assert proven.code == 0, proven.out + proven.err
