"""What a run may act on whose context is a target: parameters that name a namespace or a workload.

`services/runs/preparation` calls it before the input is checked, and the operator for what people create. Only labels
of the target, its owners, its node and its namespace were read, so a run that named another object would escape what
the owners of that one demand.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.targets.reference import KINDS, known_kind
from formulary_catalog.domain.workflows.manifest import Parameter
from formulary_catalog.errors import InvalidInput

_NAMESPACE = "NAMESPACE"
"""Also the last word of every parameter that names one, such as SOURCE_NAMESPACE."""
_WORKLOADS = frozenset({"WORKLOAD", "TARGET_WORKLOAD"})
_NAMES = frozenset({"TARGET_NAME", "TARGET_RESOURCE_NAME"})
_OF_KIND = {each.kind.upper(): each.kind for each in KINDS if each.kind != "Namespace"} | {
    "PVC": "PersistentVolumeClaim",
    "CLAIM": "PersistentVolumeClaim",
    "HPA": "HorizontalPodAutoscaler",
}
"""Parameters that name an object of one kind."""
_CONTROLLERS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "Pod")
"""What a workload is, the outermost first."""


def bound_input(
    parameters: Iterable[Parameter], given: Mapping[str, Any], *, context: RequestContext | None
) -> Mapping[str, Any]:
    """The input of a run with what the target says of it.

    Raises:
        InvalidInput: a parameter names something else than the target and its owners.
    """
    if context is None or context.analysis:
        return given
    bound = dict(given)
    for parameter in parameters:
        allowed = _allowed(parameter.name.upper(), context=context)
        if allowed is None:
            continue
        value = given.get(parameter.name)
        if value in (None, ""):
            if allowed:
                bound[parameter.name] = allowed[0]
                continue
            value = parameter.default
        if value not in (None, "") and _folded(value) not in map(_folded, allowed):
            raise InvalidInput(
                f"input.{parameter.name} names another object than the target of this call, {context.target}, whose "
                f"constraints were applied; {_instead(allowed)}",
                field="input",
            )
    return bound


def _allowed(name: str, *, context: RequestContext) -> list[str] | None:
    """What a parameter of this name may be, what it is without a value first; None where it names no object."""
    objects = [(context.target_kind, context.target_name), *(_parts(owner) for owner in context.target_owners)]
    if name == _NAMESPACE or name.endswith(f"_{_NAMESPACE}"):
        return [context.target_namespace] if context.target_namespace else []
    if name in _NAMES:
        return [] if context.target_kind == "Namespace" else [name for _, name in objects]
    if name in _WORKLOADS:
        workloads = [each for kind in _CONTROLLERS for each in objects if each[0] == kind]
        return [f"{kind.lower()}/{name}" for kind, name in workloads] + [name for _, name in workloads]
    kind = _OF_KIND.get(name.removesuffix("_NAME"))
    if context.target_node:
        objects.append(("Node", context.target_node))
    return [name for each, name in objects if each == kind] if kind else None


def _parts(owner: str) -> tuple[str, str]:
    kind, _, name = owner.partition("/")
    return kind, name


def _folded(value: object) -> str:
    """`deploy/checkout` and `Deployment/checkout` are the same."""
    kind, slash, name = str(value).strip().partition("/")
    known = known_kind(kind) if slash else None
    return f"{known.kind}/{name}" if known is not None else str(value).strip()


def _instead(allowed: list[str]) -> str:
    search = "name that object as the target, of the search and of the run"
    return f"give {allowed[0]}, or {search}" if allowed else search
