"""A real node on this machine: it runs pods, and faults on it are tried."""

import pytest

from lab.fault import Fault
from lab.node.images import BUSYBOX_IMAGE
from lab.node.node import Node
from lab.product import Product
from lab.trial import try_fault
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("programs")]


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


def test_a_third_of_the_faults_is_tried_and_nothing_is_harmed(
    node: Node, product: Product, faults: list[Fault]
) -> None:
    outcomes = [try_fault(fault, node=node, product=product) for fault in faults]

    assert [(each.fault.name, each.problem) for each in outcomes if each.problem] == []
    assert [each.fault.name for each in outcomes if each.harmed] == []
    assert any(each.healed for each in outcomes)
