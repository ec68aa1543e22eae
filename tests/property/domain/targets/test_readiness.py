"""Whether an object is ready, by the status that its controller writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.targets.readiness import readiness_of

ROLLED_OUT: dict[str, dict[str, Any]] = {
    "Deployment": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
    "StatefulSet": {"observedGeneration": 2, "readyReplicas": 2, "currentRevision": "b", "updateRevision": "b"},
    "DaemonSet": {
        "observedGeneration": 2,
        "desiredNumberScheduled": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    },
    "ReplicaSet": {"observedGeneration": 2, "readyReplicas": 2},
}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "status", "a"]), inner),
    max_leaves=8,
)


def ready(kind: str, status: Any) -> bool | None:
    return readiness_of(kind, {"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status})


@pytest.mark.parametrize("kind", ROLLED_OUT)
def test_a_workload_is_ready_once_all_of_its_newest_generation_is(kind: str) -> None:
    assert ready(kind, ROLLED_OUT[kind]) is True
    assert ready(kind, None) is False
    for name, value in ROLLED_OUT[kind].items():
        behind = "a" if isinstance(value, str) else value - 1
        # Of fewer that are wanted fewer are enough.
        expected = name == "desiredNumberScheduled"
        assert ready(kind, {**ROLLED_OUT[kind], name: behind}) is expected, name


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_what_is_scaled_to_nothing_is_not_ready(kind: str) -> None:
    status = {"observedGeneration": 2, "currentRevision": "b", "updateRevision": "b"}
    assert readiness_of(kind, {"metadata": {"generation": 2}, "spec": {"replicas": 0}, "status": status}) is False


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("Pod", {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ("Node", {"conditions": [{"type": "Ready", "status": "Unknown"}]}, False),
        ("Widget", {"conditions": [{"type": "Available", "status": "False"}]}, False),
        ("PersistentVolumeClaim", {"phase": "Pending"}, False),
        ("Job", {"conditions": [{"type": "Failed", "status": "True"}]}, False),
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, True),
        ("Service", {"loadBalancer": {}}, None),
        ("Namespace", {"phase": "Active"}, None),
    ],
)
def test_other_kinds_say_it_by_a_condition_or_not_at_all(kind: str, status: Any, expected: bool | None) -> None:
    assert ready(kind, status) is expected


@given(anything, anything)
def test_whatever_a_custom_resource_says_of_itself_is_read(status: Any, conditions: Any) -> None:
    assert ready("Widget", status) in (True, False, None)
    assert ready("Widget", {"conditions": conditions}) in (True, False, None)
