"""What one label on a namespace does, with the chart installed and an agent that only names what is broken."""

import json
import time
from typing import Any

import pytest

from lab.node.images import BUSYBOX_IMAGE
from lab.node.node import Node
from lab.product import Product
from support.holmes import Chat, ToolCall, converse
from support.teams import CALM, STRICT, TURNED
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
FORBIDS = "constraint.formulary.dev/restarts=no"
QUESTION = "Deployment carts: a memory leak grows until the pods are OOMKilled"
RESTART = "oom-restart-leaking-process"
AGREED_SECONDS = 11.0
"""From `kubectl label` to the changed answer: metadata is kept for ten."""


def carts(namespace: str) -> str:
    return f"{namespace}/Deployment/carts"


@pytest.fixture(scope="module", autouse=True)
def teams(node: Node, product: Product) -> None:
    """The same Deployment in each namespace, and one label that differs."""
    template = {
        "metadata": {"labels": {"app": "carts"}},
        "spec": {"containers": [{"name": "app", "image": BUSYBOX_IMAGE}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "carts"}}, "template": template}
    for namespace in (CALM, STRICT, TURNED):
        labels = ["environment=staging", *([FORBIDS] if namespace == STRICT else [])]
        node.kubectl("label", "--overwrite", "namespace", namespace, *labels)
        node.apply(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "carts"}, "spec": spec},
            namespace=namespace,
        )


def names(product: Product, namespace: str) -> list[str]:
    return [hit.workflow for hit in product.search(QUESTION, target=carts(namespace))]


def test_one_question_has_two_answers_and_the_forbidden_one_is_not_found_by_its_name(product: Product) -> None:
    calm, strict = names(product, CALM), names(product, STRICT)

    assert RESTART in calm
    assert strict
    assert RESTART not in strict
    assert product.details(RESTART, target=carts(CALM)).status_code == 200
    assert product.details(RESTART, target=carts(STRICT)).status_code == 404
    asked = product.invoke(RESTART, values={}, dry=True, target=carts(STRICT))
    assert (asked["error"]["code"], "not found" in asked["error"]["message"]) == (-32001, True)


def test_holmesgpt_without_a_header_gets_exactly_that(product: Product) -> None:
    def chat(namespace: str) -> Chat:
        target = {"target_namespace": namespace, "target_kind": "Deployment", "target_name": "carts"}
        search = ToolCall(tool="search_workflow_catalog", arguments={"query": QUESTION, **target})
        by_name = ToolCall(tool="get_workflow_details", arguments={"workflow_id": RESTART, **target})
        return Chat(headers={}, calls=(search, by_name))

    held = converse(
        url=f"{product.url}/mcp", token=product.token, chats={"calm": chat(CALM), "strict": chat(STRICT)}
    ).chats
    (calm, allowed), (strict, forbidden) = held["calm"].calls, held["strict"].calls

    for call, namespace in ((calm, CALM), (strict, STRICT)):
        assert call.status == "success", call.read_by_model
        assert call.data is not None
        found = [each["workflow_id"] for each in json.loads(call.data)["workflows"]]
        assert found == names(product, namespace)[: len(found)]
        assert (RESTART in found) == (namespace == CALM)
    assert (allowed.status, forbidden.status) == ("success", "error")
    assert f"'{RESTART}' is not found among the workflows allowed here" in forbidden.read_by_model


def test_lying_about_the_target_gains_nothing(node: Node, product: Product) -> None:
    found = next(hit for hit in product.search(QUESTION, target=carts(CALM)) if hit.workflow == RESTART)
    here = {"NAMESPACE": STRICT, "WORKLOAD": "deployment/carts", "SELECTOR": "app=carts"}

    for said in (
        {"target": carts(STRICT)},
        {"target": carts(STRICT), "search": found.search},
        {"search": found.search},
    ):
        asked = product.invoke(RESTART, values=here, dry=False, **said)
        assert "error" in asked, said
    allowed = names(product, STRICT)[0]
    elsewhere = product.invoke(allowed, values={}, dry=False, target=carts(STRICT), search=found.search)
    assert "search_id is not that of a search for" in elsewhere["error"]["message"]
    assert node.get("workflowinvocations.formulary.dev", f"--namespace={STRICT}")["items"] == []
    assert node.get("jobs", f"--namespace={STRICT}")["items"] == []


def test_an_object_that_names_no_target_is_held_to_the_labels_of_its_namespace(node: Node, product: Product) -> None:
    wanted = {
        "workflowRef": {"workflowId": "scheduling-relax-affinity"},
        "input": {"NAME": "carts"},
    }
    asked = {"apiVersion": "formulary.dev/v1alpha1", "kind": "WorkflowInvocation", "metadata": {"name": "by-hand"}}
    node.apply({**asked, "spec": wanted}, namespace=STRICT)

    def status() -> dict[str, Any]:
        found = node.get("workflowinvocations.formulary.dev", "by-hand", f"--namespace={STRICT}")
        return dict(found.get("status", {}))

    wait_until(lambda: status().get("phase") == "Failed", what="the refusal", shown=lambda: str(status()))
    assert status()["reason"] == "Denied"


def test_a_label_changes_the_answer_within_eleven_seconds(
    node: Node, product: Product, capsys: pytest.CaptureFixture[str]
) -> None:
    assert RESTART in names(product, TURNED)  # which is kept for ten seconds from now on
    began = time.monotonic()
    node.kubectl("label", "namespace", TURNED, FORBIDS)
    wait_until(lambda: RESTART not in names(product, TURNED), what="the changed answer", seconds=30)
    took = time.monotonic() - began
    with capsys.disabled():
        print(f"\nfrom kubectl label to the changed answer: {took:.1f} s")

    assert took <= AGREED_SECONDS
    assert product.details(RESTART, target=carts(TURNED)).status_code == 404
