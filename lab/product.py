"""Formulary on a node, installed by its chart, and an agent and a person who use it as theirs would."""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import httpx2
import yaml
from helm_python import Config

from lab.fault import Fault
from lab.node.images import FORMULARY_IMAGE
from lab.node.node import Node
from support import charts

NAMESPACE, AGENTS, AGENT = "formulary", "agents", "holmes"
_RELEASE = "formulary"
_INSTALL_SECONDS = 300
_CATALOG_SECONDS = 300.0
_INCIDENT_SECONDS = 30.0
_ENDED = ("completed", "failed", "timed_out", "cancelled", "halted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An answer to a search, and the id of that search."""

    workflow: str
    confidence: float
    search: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a run ended, or why there was none, which has no id. `approved`: a person had to approve it."""

    state: str
    message: str
    id: str = ""
    approved: bool = False


class Product:
    """The running release, as an agent with a token of its own sees it, and as the person who approves.

    A call belongs to an incident, by its remediation id, or to a `target`: NAMESPACE/KIND/NAME.
    """

    def __init__(self, node: Node, http: httpx2.Client, *, url: str, token: str) -> None:
        self._node = node
        self._http = http
        self.url = url
        self.token = token

    def report(self, fault: Fault) -> str:
        """Create the AIAnalysis of a fault, as the incident pipeline does. Returns its remediation id."""
        analysis = _analysis(fault)
        self._node.apply(analysis, namespace=fault.namespace)
        identifier = str(analysis["spec"]["remediationId"])
        self.await_incident(identifier)
        return identifier

    def await_incident(self, identifier: str) -> None:
        """Wait until an incident is known. Raises RuntimeError if that takes too long."""
        until = time.monotonic() + _INCIDENT_SECONDS
        while self._http.get(f"/api/v1/incidents/{identifier}").status_code != 200:
            if time.monotonic() > until:
                raise RuntimeError(f"incident {identifier} is not known in time")
            time.sleep(0.2)

    def search(self, query: str, *, incident: str = "", target: str = "") -> list[Hit]:
        """What the server offers under the constraints of an incident or a target."""
        answer = self._http.post(
            "/api/v1/workflows/search", json={"query": query, **_named(target)}, headers=_header(incident)
        )
        answer.raise_for_status()
        found = answer.json()
        return [
            Hit(workflow=each["workflow_id"], confidence=each["confidence"], search=found["search_id"])
            for each in found["workflows"]
        ]

    def details(self, workflow: str, *, incident: str = "", target: str = "") -> httpx2.Response:
        """The answer to the question for a workflow by its name."""
        return self._http.get(f"/api/v1/workflows/{workflow}", params=_named(target), headers=_header(incident))

    def parameters(self, workflow: str, *, incident: str) -> list[dict[str, Any]]:
        """What a workflow takes."""
        answer = self.details(workflow, incident=incident)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["parameters"]
        return found

    def run(self, workflow: str, *, incident: str, namespace: str, values: dict[str, str], seconds: float) -> Run:
        """Try it dry, ask for it, approve it where a person has to, and wait until it has ended."""
        dry = self.invoke(workflow, incident=incident, values=values, dry=True)
        if "error" in dry:
            return Run(state="refused", message=dry["error"]["message"])
        asked = self.invoke(workflow, incident=incident, values=values, dry=False)
        if "error" in asked:
            return Run(state="refused", message=asked["error"]["message"])
        run = asked["result"]["invocation_id"]
        until, approved = time.monotonic() + seconds, False
        while True:
            answer = self.look_at(run, wait_ms=2000)
            if answer["state"] in _ENDED or time.monotonic() > until:
                return Run(id=run, state=answer["state"], message=answer.get("message", ""), approved=approved)
            if answer["state"] == "awaiting_approval" and not approved:
                self._approve(run, namespace=namespace)
                approved = True

    def invoke(
        self,
        workflow: str,
        *,
        values: dict[str, str],
        dry: bool,
        incident: str = "",
        target: str = "",
        search: str = "",
    ) -> dict[str, Any]:
        """The answer to the request for a run, as JSON-RPC has it. `search` is the id of the search that found it."""
        options = {"timeoutMs": 180_000, "idempotencyKey": uuid.uuid4().hex, "dryRun": dry}
        body = {"workflow_id": workflow, "input": values, "options": options, "search_id": search, **_named(target)}
        answer = self._http.post(
            "/api/v1/invoke",
            json={"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": body},
            headers=_header(incident),
        )
        replied: dict[str, Any] = answer.json()
        return replied

    def look_at(self, run: str, *, wait_ms: int = 0) -> dict[str, Any]:
        """A run as it stands, at once or after a change within this time."""
        answer: dict[str, Any] = self._http.get(f"/api/v1/invocations/{run}", params={"wait_ms": wait_ms}).json()
        return answer

    def _approve(self, run: str, *, namespace: str) -> None:
        approval = {
            "apiVersion": "formulary.dev/v1alpha1",
            "kind": "InvocationApproval",
            "metadata": {"name": run},
            "spec": {"invocationId": run, "decision": "Approve", "reason": "the lab approves what is offered"},
        }
        self._node.kubectl("create", f"--namespace={namespace}", "--filename=-", input=json.dumps(approval))


def _header(incident: str) -> dict[str, str]:
    return {"X-Remediation-Id": incident} if incident else {}


def _named(target: str) -> dict[str, str]:
    return {"target": target} if target else {}


@contextmanager
def install_product(node: Node, *, namespaces: Sequence[str]) -> Iterator[Product]:
    """`helm install` for runs in these namespaces, and an agent that may ask for them."""
    for namespace in (NAMESPACE, AGENTS, *namespaces):
        node.create_namespace(namespace)
        if namespace in namespaces:
            node.apply(*_remedy_account(namespace), namespace=namespace)
    node.apply(local_volume(node))
    helm = Config(kubeconfig_path=node.kubeconfig, namespace=NAMESPACE)
    install = partial(helm.install, charts.chart(), _RELEASE, _values(namespaces), namespace=NAMESPACE)
    _interruptibly(partial(install, timeout=_INSTALL_SECONDS, wait="watcher"))
    await_catalog(node)
    token = node.service_account(AGENTS, AGENT, ttl=24 * 3600)
    account = f"--serviceaccount={AGENTS}:{AGENT}"
    # A run that names another namespace, such as one to copy a Secret from, takes the right to get it.
    node.kubectl("create", "clusterrole", "reads-namespaces", "--verb=get", "--resource=namespaces")
    node.kubectl("create", "clusterrolebinding", AGENT, "--clusterrole=reads-namespaces", account)
    for namespace in (NAMESPACE, *namespaces):
        role = f"--clusterrole={NAMESPACE}-{_RELEASE}-agent"
        node.kubectl("create", "rolebinding", AGENT, role, account, f"--namespace={namespace}")
    with (
        forwarded(node) as url,
        httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
    ):
        yield Product(node, http, url=url, token=token)


def _interruptibly(act: Callable[[], object]) -> None:
    """Do what no signal interrupts in a thread that nobody has to wait for."""
    done: Future[None] = Future()

    def follow() -> None:
        try:
            act()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    Thread(target=follow, daemon=True).start()
    done.result()


def _values(namespaces: Sequence[str]) -> dict[str, Any]:
    repository, _, tag = FORMULARY_IMAGE.rpartition(":")
    agents = [{"name": AGENT, "namespace": AGENTS, "in": list(namespaces)}]
    return {
        "image": {"repository": repository, "tag": tag},
        "database": {"mode": "bundled"},
        "starterCatalog": {"enabled": True},
        "execution": {"mode": "auto", "namespaces": list(namespaces), "agents": agents},
    }


def await_catalog(node: Node) -> None:
    """Wait until the operator has taken all that the starter Job applied."""
    wanted = len(list((charts.CHART.parents[1] / "catalog" / "workflows").glob("*.yaml")))
    until = time.monotonic() + _CATALOG_SECONDS
    while True:
        found = node.get("remediationworkflows.kubernaut.ai", f"--namespace={NAMESPACE}")["items"]
        if sum(each.get("status", {}).get("catalogStatus") == "Active" for each in found) >= wanted:
            return
        if time.monotonic() > until:
            raise RuntimeError(f"{len(found)} of {wanted} starter workflows are there, not all are Active")
        time.sleep(1)


@contextmanager
def forwarded(node: Node) -> Iterator[str]:
    """The address of the server on loopback of this machine.

    It leads to a pod. The Service has no endpoint while a fault, such as one of DNS, keeps its pods from being ready.
    """
    selector = node.get("service", _RELEASE, f"--namespace={NAMESPACE}")["spec"]["selector"]
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    pods = node.get("pods", f"--namespace={NAMESPACE}", f"--selector={labels}", "--field-selector=status.phase=Running")
    addresses = [pod["status"]["podIP"] for pod in pods["items"] if "deletionTimestamp" not in pod["metadata"]]
    if not addresses:
        raise RuntimeError(f"no pod of {_RELEASE} runs")
    with node.forwarded(addresses[0], 8080) as address:
        yield f"http://{address}"


def _analysis(fault: Fault) -> dict[str, Any]:
    kind, _, name = fault.target.partition("/")
    at = {} if kind == "Node" else {"namespace": fault.namespace}
    return {
        "apiVersion": "kubernaut.ai/v1alpha1",
        "kind": "AIAnalysis",
        "metadata": {"name": fault.name},
        "spec": {
            "remediationId": f"rr-{fault.name}",
            "remediationRequestRef": {"name": fault.name},
            "analysisTypes": ["Investigation", "RootCause", "WorkflowSelection"],
            "analysisRequest": {
                "signalContext": {
                    "fingerprint": uuid.uuid4().hex[:16],
                    "severity": fault.severity,
                    "signalName": fault.signal,
                    "environment": fault.environment,
                    "businessPriority": "P1",
                    "targetResource": {"kind": kind, "name": name, **at},
                    "enrichmentResults": {"kubernetesContext": {"detectedLabels": {"gitOpsManaged": False}}},
                }
            },
        },
    }


def _remedy_account(namespace: str) -> list[dict[str, Any]]:
    """The account of runs: its owner gives it whatever starter workflows may need there."""
    meta = {"name": "formulary-remediation", "namespace": namespace}
    text = f"""
- apiVersion: v1
  kind: ServiceAccount
  metadata: {{name: formulary-remediation, namespace: {namespace}, labels: {{formulary.dev/runs: allowed}}}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {{name: remediation-{namespace}}}
  roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
  subjects: [{{kind: ServiceAccount, name: {meta["name"]}, namespace: {namespace}}}]
"""
    found: list[dict[str, Any]] = yaml.safe_load(text)
    return found


def local_volume(node: Node) -> dict[str, Any]:
    """Where the database lies, embedded or bundled: a node has no provisioner."""
    path = node.home / "database"
    path.mkdir(exist_ok=True)
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "database"},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
