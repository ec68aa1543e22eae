"""Events on a real API server."""

import socket
from collections.abc import AsyncIterator

import pytest
import structlog

from formulary_operator.kube.events import MAX_MESSAGE_BYTES, EventRecorder
from support.control_plane import Cluster
from support.kube_clients import connected, connected_to
from support.manifest import workflow


@pytest.fixture
async def recorder(cluster: Cluster) -> AsyncIterator[EventRecorder]:
    async with connected(cluster.kubeconfig) as client:
        yield EventRecorder(client, instance="operator-0")


@pytest.mark.smoke
async def test_describe_shows_what_was_recorded(cluster: Cluster, namespace: str, recorder: EventRecorder) -> None:
    cluster.apply(workflow("restart"), namespace=namespace)
    document = cluster.get("rw", "restart", f"--namespace={namespace}")
    await recorder.record(document, type="Warning", reason="Invalid", message="spec.version: must be semantic")
    await recorder.record(document, type="Normal", reason="Served", message="version 1.0.0 is served")
    described = cluster.kubectl("describe", "rw", "restart", f"--namespace={namespace}")
    events = [line.split() for line in described.partition("Events:")[2].splitlines()[3:]]
    assert sorted((event[0], event[1], *event[3:]) for event in events) == [
        ("Normal", "Served", "formulary-operator", *"version 1.0.0 is served".split()),
        ("Warning", "Invalid", "formulary-operator", *"spec.version: must be semantic".split()),
    ]


async def test_a_long_message_is_cut_and_the_longest_name_has_room(
    cluster: Cluster, namespace: str, recorder: EventRecorder
) -> None:
    name = ".".join(["a" * 63] * 3 + ["b" * 44 + "-c"])
    cluster.apply(workflow(name), namespace=namespace)
    document = cluster.get("rw", name, f"--namespace={namespace}")
    await recorder.record(document, type="Warning", reason="Invalid", message="ä" * MAX_MESSAGE_BYTES)
    (event,) = cluster.get("events", f"--namespace={namespace}")["items"]
    assert len(event["message"].encode()) <= MAX_MESSAGE_BYTES
    assert event["message"].endswith("ä…")
    assert event["involvedObject"]["uid"] == document["metadata"]["uid"]
    assert (event["reportingComponent"], event["reportingInstance"]) == ("formulary-operator", "operator-0")


async def test_an_event_that_cannot_be_written_is_logged_and_no_error() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        async with connected_to(f"http://127.0.0.1:{held.getsockname()[1]}") as client:
            document = workflow("restart")
            document["metadata"]["namespace"] = "shop"
            with structlog.testing.capture_logs() as logs:
                await EventRecorder(client, instance="operator-0").record(
                    document, type="Normal", reason="Served", message="version 1.0.0 is served"
                )
    assert [(line["event"], line["event_reason"]) for line in logs] == [("event_not_written", "Served")]
