"""Whether an object works, as its own status says. Pure.

`runs/verifying` of the operator asks it before and after a run. A rollout that is under way is not ready: the old pods
say nothing of the new ones. Nor is what is scaled to nothing: it serves nobody.
"""

from collections.abc import Callable, Mapping
from typing import Any

Json = Mapping[str, Any]


def readiness_of(kind: str, manifest: Json) -> bool | None:
    """Whether it is ready; None where objects of its kind do not say. Those of custom resources may say anything."""
    status = manifest.get("status")
    if not isinstance(status, Mapping):
        status = {}
    if kind in _WORKLOADS:
        current = int(status.get("observedGeneration") or 0) >= int(manifest["metadata"].get("generation") or 0)
        return current and _WORKLOADS[kind](manifest.get("spec") or {}, status)
    if kind == "PersistentVolumeClaim":
        return bool(status.get("phase") == "Bound")
    if kind == "Job":
        return False if _condition(status, "Failed") else _condition(status, "Complete")
    ready = _condition(status, "Ready")
    return ready if ready is not None or kind == "Pod" else _condition(status, "Available")


def _deployment(spec: Json, status: Json) -> bool:
    wanted = _number(spec, "replicas", default=1)
    return 0 < wanted == _number(status, "replicas") and all(
        _number(status, name) >= wanted for name in ("updatedReplicas", "availableReplicas")
    )


def _stateful_set(spec: Json, status: Json) -> bool:
    wanted = _number(spec, "replicas", default=1)
    updated = status.get("currentRevision") == status.get("updateRevision")
    return _number(status, "readyReplicas") >= wanted > 0 and updated


def _replica_set(spec: Json, status: Json) -> bool:
    return _number(status, "readyReplicas") >= _number(spec, "replicas", default=1) > 0


def _daemon_set(spec: Json, status: Json) -> bool:
    wanted = _number(status, "desiredNumberScheduled")
    return all(_number(status, name) >= wanted for name in ("updatedNumberScheduled", "numberAvailable"))


def _number(values: Json, name: str, *, default: int = 0) -> int:
    value = values.get(name)
    return default if value is None else int(value)


def _condition(status: Json, name: str) -> bool | None:
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    found = [each.get("status") for each in listed if isinstance(each, Mapping) and each.get("type") == name]
    return found[0] == "True" if found else None


_WORKLOADS: Mapping[str, Callable[[Json, Json], bool]] = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "ReplicaSet": _replica_set,
    "DaemonSet": _daemon_set,
}
