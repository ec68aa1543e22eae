"""The whole product under exactly the permissions that the chart grants.

The chart is installed into a real API server; then its containers run as local processes, with their own commands,
environment and ServiceAccounts. The audit log of the API server says which permissions they used.
"""

import asyncio
import base64
import itertools
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.domain.targets.reading import AUTOSCALERS, BUDGETS
from formulary_catalog.domain.targets.reference import KINDS
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import charts, databases
from support.admission import INVALID
from support.agent import answer_of, call, found, refused
from support.audit_log import Request
from support.cluster import condition, fetch
from support.cluster_runs import await_phase, job, remedy, run_object, server_request, submit
from support.control_plane import ControlPlane, KubectlFailed, control_plane
from support.filling import starter_documents
from support.job_controller import job_controller
from support.manifest import analysis, approval, contract, invocation, text, workflow
from support.operator_process import Daemon
from support.pods import Container, container, running
from support.releases import Release
from support.waiting import wait_until

HOME = "formulary"
INCIDENTS = "shop"
EXECUTION = {"mode": "auto", "namespaces": [INCIDENTS]}
VALUES = {
    **charts.EXTERNAL,
    "execution": EXECUTION,
    "webhook": {"timeoutSeconds": 1},
    "starterCatalog": {"enabled": True},
    "audit": {"checkpointSeconds": 1},
    "operator": {"resyncSeconds": 2},
}
NAMESPACED = {
    **charts.EXTERNAL,
    "rbac": {"scope": "namespace"},
    "execution": EXECUTION,
    "webhook": {"enabled": False},
    "catalog": {"watchNamespaces": [HOME, INCIDENTS]},
    "audit": {"checkpointSeconds": 1},
    "operator": {"resyncSeconds": 2},
}
WEBHOOKS = f"{HOME}-formulary"
QUERY = {"query": "OOMKilled critical", "top_k": 20}
STARTER_CATALOG = Path(__file__).parents[2] / "catalog" / "workflows"
EXAMPLE = Path(__file__).parents[2] / "examples" / "incident.yaml"
_JOB_SECONDS = 300
_BROKEN = '{"data":{"tls.crt":"eA=="}}'

Permission = tuple[str, str, str, str]
"""Group, resource with subresource, verb, name; no name means all."""
LABELS: set[Permission] = {("", resource, "get", "") for resource in ("secrets", "configmaps", "serviceaccounts")}
"""Reading the label of what a run names; these runs name nothing."""
TARGETS: set[Permission] = {
    *((each.group, each.resource, "get", "") for each in KINDS),
    *((each.group, each.resource, "list", "") for each in (AUTOSCALERS, BUDGETS)),
}
"""Reading what a call is about; `test_targets` uses each of them, and these calls name an incident."""
ASKING: set[Permission] = {("authorization.k8s.io", "subjectaccessreviews", "create", "")}
"""What authors and requesters may do. Without a webhook nobody is known, of whom it could be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """An installed release whose server and operator run, and which has been used."""

    cluster: ControlPlane
    release: Release
    server: Daemon
    operator: Daemon
    webhook_port: int
    dsn: str
    starter: list[Future[None]]
    """The Job of the starter catalog, which waits for the webhook."""

    def agent(self, name: str, *, incident: str = "rr-1") -> dict[str, str]:
        """The headers of an agent with this ServiceAccount."""
        token = self.cluster.service_account("agents", name)
        return {"Authorization": f"Bearer {token}", "X-Remediation-Id": incident}


@pytest.fixture(scope="module")
async def product(postgres: EmbeddedPostgres) -> AsyncIterator[Product]:
    """Installed with the starter catalog and a webhook; nothing but the chart grants it anything."""
    async with databases.empty_database(postgres) as dsn:
        await databases.create_roles(dsn)
        with ExitStack() as stack:
            yield _used(_started(VALUES, dsn=dsn, stack=stack))


@pytest.fixture(scope="module")
async def product_with_runs(product: Product) -> Product:
    """The same once it has run workflows."""
    await asyncio.to_thread(_run_workflows, product)
    return product


async def test_an_agent_with_the_role_of_agents_finds_what_was_applied_for_its_incident(product: Product) -> None:
    for namespace in (HOME, INCIDENTS):
        _bind(product.cluster, "agent", to="agent", namespace=namespace)

    answer = await call(product.server.url, "search_workflow_catalog", QUERY, headers=product.agent("agent"))

    assert "for-payments" in found(answer)
    assert "for-others" not in found(answer)
    assert answer_of(answer)["search_mode"] == "hybrid"
    assert "oom-raise-memory-limit" in found(answer), "the starter catalog was not applied"


async def test_the_incident_of_the_installation_page_gets_the_one_workflow_that_its_owners_accept(
    product: Product,
) -> None:
    cluster = product.cluster
    cluster.create_namespace("payments")
    cluster.kubectl("apply", f"--filename={EXAMPLE}")
    for namespace in (HOME, "payments"):
        _bind(cluster, "agent", to="holmes", namespace=namespace)
    wait_until(
        lambda: condition(cluster.get("rw", "checkout-oom-shed-carts", "--namespace=payments")).get("status") == "True",
        what="the workflow of the example to be served",
        shown=product.operator.output,
    )

    headers = product.agent("holmes", incident="rr-checkout-oom")
    answer = await call(product.server.url, "search_workflow_catalog", QUERY, headers=headers)

    assert found(answer) == ["checkout-oom-shed-carts"]


async def test_what_the_incident_demands_is_shown_to_who_may_edit_and_to_no_agent(product: Product) -> None:
    # `view` as well, which earlier releases said to give to agents.
    for account, roles in (("curious", ("agent", "view")), ("person", ("view", "edit"))):
        for role, namespace in itertools.product(roles, (HOME, INCIDENTS)):
            _bind(product.cluster, role, to=account, namespace=namespace)

    async def get(account: str, path: str, **query: str) -> dict[str, Any]:
        async with httpx2.AsyncClient(base_url=f"{product.server.url}/api/v1") as http:
            answer = await http.get(path, params=query, headers=product.agent(account))
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    seen = {}
    for account in ("curious", "person"):
        explained = await get(account, "/explain", workflow="for-others", query="OOMKilled")
        seen[account] = explained["excluded_by"]["reason"], (await get(account, "/incidents/rr-1"))["custom_labels"]

    assert seen == {
        "curious": ("an incident label excludes it", {}),
        "person": ("team: the incident says payments, the workflow declares others", {"team": ["payments"]}),
    }


async def test_an_agent_without_rights_gets_nothing_and_one_without_a_token_is_not_let_in(product: Product) -> None:
    stranger = await call(product.server.url, "search_workflow_catalog", QUERY, headers=product.agent("stranger"))
    async with httpx2.AsyncClient() as http:
        nobody = await http.post(f"{product.server.url}/api/v1/workflows/search", json=QUERY)

    assert "aianalyses" in refused(stranger)
    assert nobody.status_code == 401


def test_a_refused_change_is_told_in_an_event(product: Product) -> None:
    events = {(e["involvedObject"]["name"], e["type"], e["reason"]) for e in product.release.objects("events")}

    assert ("edited", "Warning", "VersionImmutable") in events


def test_the_webhook_answers_under_the_authority_that_the_api_server_trusts(product: Product) -> None:
    webhook, *_ = product.cluster.get("validatingwebhookconfiguration", WEBHOOKS)["webhooks"]
    client = webhook["clientConfig"]
    service = f"{client['service']['name']}.{client['service']['namespace']}.svc"
    trusted = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())

    with httpx2.Client(verify=trusted) as http:
        url = f"https://127.0.0.1:{product.webhook_port}{client['service']['path']}"
        question = _review(workflow("a", version="no version"))
        answer = http.send(http.build_request("POST", url, json=question, extensions={"sni_hostname": service}))

    assert answer.json()["response"]["allowed"] is False
    assert product.release.get("service", client["service"]["name"])["spec"]["ports"][0]["targetPort"] == "webhook"


def test_the_api_server_asks_the_operator_about_every_kind(product: Product) -> None:
    cluster, place = product.cluster, f"--namespace={INCIDENTS}"
    cluster.apply(approval("no"), namespace=INCIDENTS)

    for problem, document in {
        "spec.labels.severity": INVALID,
        "time zone": contract("a", match={"during": {"timeZone": "Europe/Nowhere"}}),
        "spec.requester": invocation("a", requester="somebody"),
        "cannot be changed": approval("no", decision="Reject"),
    }.items():
        with pytest.raises(KubectlFailed, match=problem):
            cluster.apply(document, namespace=INCIDENTS)

    assert cluster.get("iappr", "no", place)["spec"]["decision"] == "Approve"


def test_a_default_install_records_who_wrote_the_starter_catalog_and_says_that_it_can(
    product: Product, starter_catalog: Path
) -> None:
    applied = len(starter_documents(starter_catalog))
    written = "select count(*) from formulary.workflow_author where identity ->> 'username' = $1"

    assert fetch(product.dsn, written, f"system:serviceaccount:{HOME}:formulary-starter") == [(applied,)]
    assert product.operator.metric("formulary_webhook_configured", configuration=WEBHOOKS) == 1
    assert product.operator.metric("formulary_webhook_certificate_expiry_timestamp_seconds") > time.time()
    judged = {"kind": "remediationworkflows", "outcome": "allowed"}
    assert product.operator.metric("formulary_admission_reviews_total", **judged) >= applied


def test_helm_test_finds_nothing_amiss(product: Product) -> None:
    pod = charts.only(charts.render(VALUES), "Pod")["spec"]

    with container(product.cluster, pod, namespace=HOME) as found:
        _run(found.redirected(formulary=product.server.url))


async def test_every_permission_that_the_chart_grants_is_used_and_none_is_missing(product_with_runs: Product) -> None:
    product = product_with_runs
    await call(product.server.url, "search_workflow_catalog", QUERY, headers=product.agent("anybody"))

    _expect_exact_permissions(product, unused=LABELS | TARGETS)


@pytest.mark.long
async def test_with_least_rights_in_cluster_and_database_every_permission_is_used_and_none_is_missing(
    postgres: EmbeddedPostgres,
) -> None:
    async with databases.empty_database(postgres) as dsn:
        await databases.create_roles(dsn)
        with ExitStack() as stack:
            product = _started(NAMESPACED, dsn=dsn, stack=stack)
            _apply(product)
            await asyncio.to_thread(_run_workflows, product)
            await call(product.server.url, "search_workflow_catalog", QUERY, headers=product.agent("anybody"))
            product.operator.stop()  # a watch is in the audit log once it has ended

            _expect_exact_permissions(product, unused=LABELS | TARGETS | ASKING)


def _expect_exact_permissions(product: Product, *, unused: set[Permission]) -> None:
    for account in product.release.names("serviceaccounts"):
        granted = _granted(product.cluster, account)
        requests = product.cluster.requests(user=f"system:serviceaccount:{HOME}:{account}")

        assert [request for request in requests if request.code == 403] == []
        assert granted - unused - {p for p in granted for request in requests if _covers(p, request=request)} == set()


def _started(values: dict[str, Any], *, dsn: str, stack: ExitStack) -> Product:
    cluster = stack.enter_context(control_plane())
    cluster.create_namespace(INCIDENTS)
    addresses = {
        key: dsn.replace("//postgres@", f"//{user}@")
        for key, user in (("uri", "postgres"), ("server-uri", "formulary_server"), ("operator-uri", "formulary_writer"))
    }
    beside, starter = stack.enter_context(ThreadPoolExecutor(max_workers=1)), list[Future[None]]()

    def run(pod: dict[str, Any]) -> None:
        if pod["containers"][0]["name"] == "starter":
            starter.append(beside.submit(_run_job, cluster, pod))
        else:
            _run_job(cluster, pod)

    release = Release(cluster, namespace=HOME, addresses=addresses, run=run)
    release.install(values)

    def started(name: str, *, probe: int) -> tuple[Daemon, Container]:
        pod = release.get("deployment", f"formulary-{name}")["spec"]["template"]["spec"]
        ready = stack.enter_context(container(cluster, pod, namespace=HOME, name=f"{name}-0"))
        return stack.enter_context(running(ready, probe=probe)), ready

    operator, container_of_operator = started("operator", probe=8081)
    server, _ = started("server", probe=8080)
    operator.wait_ready()
    server.wait_ready()
    return Product(
        cluster=cluster,
        release=release,
        server=server,
        operator=operator,
        webhook_port=container_of_operator.ports.get(9443, 0),
        dsn=dsn,
        starter=starter,
    )


def _run_workflows(product: Product) -> None:
    """A run with a secret that succeeds and expires, one that is cancelled, an approval, and a rule."""
    cluster, shown = product.cluster, product.operator.output
    cluster.apply(remedy(), namespace=INCIDENTS)
    _await_condition(product, "rw", "restart", "Ready")
    with job_controller(cluster, INCIDENTS):
        made = product.release.get("secret", "formulary-input-key")["data"]["input.key"]
        keys = InputKeys.load(base64.b64decode(made).decode())
        healed = submit(product.dsn, server_request("healed", namespace=INCIDENTS, secret={"TOKEN": "hush"}), keys=keys)
        await_phase(cluster, healed.id, "Succeeded", namespace=INCIDENTS)
    cancelled = submit(product.dsn, server_request("cancelled", namespace=INCIDENTS))
    wait_until(lambda: job(cluster, cancelled.id, namespace=INCIDENTS), what="the Job", shown=shown)
    cluster.kubectl("delete", "wfi", cancelled.id, f"--namespace={INCIDENTS}")
    wait_until(lambda: not job(cluster, cancelled.id, namespace=INCIDENTS), what="the Job to go", shown=shown)
    cluster.apply(approval("late", run=healed.id), contract("lenient", effect="ALLOW"), namespace=INCIDENTS)
    _await_condition(product, "iappr", "late", "Accepted", status="False")
    _await_condition(product, "gcon", "lenient", "Ready")
    wait_until(
        lambda: product.release.get("configmap", "formulary-audit-checkpoints").get("data"),
        what="a checkpoint to be published",
        shown=shown,
    )
    fetch(product.dsn, "update formulary.invocation set finished_at = now() - interval '8 days' returning id")
    wait_until(lambda: not run_object(cluster, healed.id, namespace=INCIDENTS), what="the old run to go", shown=shown)


def _await_condition(product: Product, kind: str, name: str, condition_: str, *, status: str = "True") -> None:
    place = f"--namespace={INCIDENTS}"
    wait_until(
        lambda: condition(product.cluster.get(kind, name, place), condition_).get("status") == status,
        what=f"{condition_} of {name} to be {status}",
        shown=lambda: f"{product.cluster.get(kind, name, place)}\n{product.operator.output()}",
    )


def _lead_webhooks_to(cluster: ControlPlane, *, port: int) -> None:
    """Without a kube-proxy no Service leads anywhere, but one that stands for a name. Until now nothing was judged."""
    service = {"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": "", "clusterIPs": None}}
    merge = ("--type=merge", f"--patch={json.dumps(service)}")
    cluster.kubectl("patch", "service", "formulary-webhook", f"--namespace={HOME}", *merge)
    count = len(cluster.get("validatingwebhookconfiguration", WEBHOOKS)["webhooks"])
    ports = [
        {"op": "replace", "path": f"/webhooks/{index}/clientConfig/service/port", "value": port}
        for index in range(count)
    ]
    patch = ("--type=json", f"--patch={json.dumps(ports)}")
    cluster.kubectl("patch", "validatingwebhookconfiguration", WEBHOOKS, *patch)
    wait_until(lambda: _is_judged(cluster), what="the API server to hear of it")


def _is_judged(cluster: ControlPlane) -> bool:
    try:
        cluster.kubectl("create", "--dry-run=server", "--filename=-", f"--namespace={HOME}", input=text(INVALID))
    except KubectlFailed as refused:
        return "denied the request" in str(refused)
    return False


def _used(product: Product) -> Product:
    """Do what makes every part work: workflows good and bad, an incident, a certificate that must be renewed."""
    _apply(product)
    patch = ("--namespace", HOME, "--type=merge", f"--patch={_BROKEN}")
    product.cluster.kubectl("patch", "secret", "formulary-webhook-tls", *patch)
    product.operator.stop()
    product.operator.start().wait_ready()
    wait_until(
        lambda: product.release.get("secret", "formulary-webhook-tls")["data"]["tls.crt"] != "eA==",
        what="the certificate to be renewed",
        shown=product.operator.output,
    )
    _lead_webhooks_to(product.cluster, port=product.webhook_port)
    for applied in product.starter:
        applied.result()
    wait = ("--for=condition=Ready", "--timeout=120s", f"--namespace={HOME}")
    starters = (f"rw/{document['metadata']['name']}" for document in starter_documents(STARTER_CATALOG))
    product.cluster.kubectl("wait", *wait, *starters, seconds=150)
    return product


def _apply(product: Product) -> None:
    cluster = product.cluster
    for name, team in (("for-payments", "payments"), ("for-others", "others")):
        cluster.apply(workflow(name, customLabels={"team": team}), namespace=HOME)
    cluster.apply(analysis("incident", remediation_id="rr-1", labels={"team": ["payments"]}), namespace=INCIDENTS)
    cluster.apply(_source("alertmanager"), namespace=INCIDENTS)
    _await_condition(product, "incidentsources", "alertmanager", "Ready", status="False")
    cluster.apply(workflow("edited"), namespace=HOME)
    _await_reason(product, "edited", "Served")
    cluster.apply(workflow("edited", what="Something else."), namespace=HOME)
    _await_reason(product, "edited", "VersionImmutable")
    _await_reason(product, "for-others", "Served")


def _source(name: str) -> dict[str, Any]:
    """An incident source that lets nobody send: it names no Secret."""
    kind = {"apiVersion": "formulary.dev/v1alpha1", "kind": "IncidentSource"}
    return {**kind, "metadata": {"name": name}, "spec": {"type": "alertmanager", "namespaces": [INCIDENTS]}}


def _bind(cluster: ControlPlane, role: str, *, to: str, namespace: str) -> None:
    """Give an account a role of the chart; of `view` and `edit`, what those of a cluster take from it."""
    whom = (f"--clusterrole={HOME}-formulary-{role}", f"--serviceaccount=agents:{to}")
    cluster.kubectl("create", "rolebinding", f"{to}-{role}", *whom, f"--namespace={namespace}")


def _await_reason(product: Product, workflow: str, reason: str) -> None:
    wait_until(
        lambda: condition(product.release.get("rw", workflow)).get("reason") == reason,
        what=f"{workflow} to be {reason}",
        shown=product.operator.output,
    )


def _run_job(cluster: ControlPlane, pod: dict[str, Any]) -> None:
    with container(cluster, pod, namespace=HOME) as found:
        _run(found)


def _run(found: Container) -> None:
    program = Path(sys.executable).with_name(found.command[0])
    done = subprocess.run(
        [program, *found.command[1:]],
        env=found.environment,
        capture_output=True,
        text=True,
        timeout=_JOB_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{found.command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def _review(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": "kubernaut.ai", "version": "v1alpha1", "kind": "RemediationWorkflow"},
            "resource": {"group": "kubernaut.ai", "version": "v1alpha1", "resource": "remediationworkflows"},
            "namespace": HOME,
            "name": document["metadata"]["name"],
            "userInfo": {"username": "admin"},
            "object": document,
        },
    }


def _granted(cluster: ControlPlane, account: str) -> set[Permission]:
    """What the bindings of a ServiceAccount allow it."""
    return {
        (group, resource, verb, name)
        for rule in _rules(cluster, account)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def _rules(cluster: ControlPlane, account: str) -> Iterator[dict[str, Any]]:
    for binding in cluster.get("rolebindings,clusterrolebindings", "--all-namespaces")["items"]:
        subjects = {(s.get("namespace"), s["name"]) for s in binding.get("subjects", [])}
        if (HOME, account) in subjects:
            place = f"--namespace={binding['metadata'].get('namespace', HOME)}"
            yield from cluster.get(binding["roleRef"]["kind"].lower(), binding["roleRef"]["name"], place)["rules"]


def _covers(permission: Permission, *, request: Request) -> bool:
    group, resource, verb, name = permission
    subject = f"{request.resource}/{request.subresource}".rstrip("/")
    # What is applied on the server and was not there needs both verbs, and is logged as one.
    verbs = {"patch", "create"} if (request.verb, request.code) == ("patch", 201) else {request.verb}
    return (
        request.code != 403
        and (group, resource) == (request.group, subject)
        and verb in verbs
        and name in ("", request.name)
    )
