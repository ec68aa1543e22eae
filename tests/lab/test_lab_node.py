"""A real node on this machine: it runs pods, and nothing of it is left, however its owner ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.fault import read_faults
from lab.node.formulary_image import ROOT
from lab.node.images import BUSYBOX_IMAGE
from lab.node.layers import cache
from lab.node.node import Node, start_node
from lab.node.programs import NoNode, find_programs
from lab.product import install_product
from lab.trial import try_fault
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
_EVERY = 3
"""Of all faults, every third is tried here."""


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    try:
        find_programs()
    except NoNode as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with start_node() as running:
        yield running


def left_behind() -> dict[str, list[str]]:
    """What nodes could leave on this machine."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    processes = [path.read_bytes().replace(b"\0", b" ").decode() for path in _command_lines()]
    return {
        "files": [path.name for path in (cache() / "nodes").glob("*")],
        "cgroups": [str(path) for path in Path("/sys/fs/cgroup").glob("*/node-*")],
        "mounts": [line for line in mounts if "/nodes/node-" in line],
        "processes": [line for line in processes if "/nodes/node-" in line or "containerd" in line],
    }


def test_a_pod_runs_to_its_end_and_another_is_killed_for_its_memory(node: Node) -> None:
    node.kubectl("run", "ends", f"--image={BUSYBOX_IMAGE}", "--restart=Never", "--", "true")
    node.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "grows"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "app",
                        "image": BUSYBOX_IMAGE,
                        "command": ["tail", "/dev/zero"],
                        "resources": {"limits": {"memory": "20Mi"}},
                    }
                ],
            },
        }
    )

    wait_until(lambda: node.get("pod", "ends")["status"]["phase"] == "Succeeded", what="the pod's end")
    wait_until(lambda: node.get("pod", "grows")["status"]["phase"] == "Failed", what="the kill")
    (status,) = node.get("pod", "grows")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["reason"] == "OOMKilled"


def test_names_are_resolved_and_usage_is_measured(node: Node) -> None:
    look = ["nslookup", "kubernetes.default.svc.cluster.local"]
    node.kubectl("run", "asks", f"--image={BUSYBOX_IMAGE}", "--restart=Never", "--", *look)
    wait_until(lambda: node.get("pod", "asks")["status"]["phase"] == "Succeeded", what="an answer of the DNS")

    wait_until(lambda: "node1" in node.kubectl("top", "node"), what="metrics of the node")


def test_a_third_of_the_faults_is_tried_and_nothing_is_harmed(node: Node) -> None:
    faults = [fault for fault in read_faults()[::_EVERY] if fault.scope == "namespace"]
    with install_product(node, namespaces=[fault.namespace for fault in faults]) as product:
        outcomes = [try_fault(fault, node=node, product=product) for fault in faults]

    assert [(each.fault.name, each.problem) for each in outcomes if each.problem] == []
    assert [each.fault.name for each in outcomes if each.harmed] == []
    assert any(each.healed for each in outcomes)


def test_nothing_is_left_when_a_node_ends() -> None:
    before = left_behind()
    with start_node():
        assert left_behind() != before
    assert left_behind() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_nothing_is_left_of_a_node_whose_owner_is(number: signal.Signals) -> None:
    before = left_behind()
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    with subprocess.Popen(
        [sys.executable, "-m", "lab.node"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    ) as owner:
        assert owner.stdout is not None
        assert any("KUBECONFIG=" in line for line in owner.stdout)
        owner.send_signal(number)

    wait_until(lambda: left_behind() == before, what="the end of all of it")


def _command_lines() -> Iterator[Path]:
    for folder in Path("/proc").glob("[0-9]*"):
        if (folder / "cmdline").exists():
            yield folder / "cmdline"
