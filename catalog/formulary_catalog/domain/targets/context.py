"""From what was read of a target to the context of a call: what the owners of the target demand (DESIGN section 6).

The namespace's word counts most. A label of the object, its owners or its node adds keys that the namespace does not
have, and never changes one: owners of workloads can narrow, not widen. In doubt there is no context, but an error.

What can be seen besides labels (who manages the target, what scales, protects and meshes it) has upstream's names, as
the `detectedLabels` of a workflow. What could not be found out is `UNKNOWN`: it meets no requirement, so that a
workflow with one is not offered.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from formulary_catalog.domain.incidents import CONTEXT_DIMENSIONS, RequestContext
from formulary_catalog.domain.targets.mapping import ContextMapping, first_label
from formulary_catalog.domain.targets.surroundings import ObjectMetadata, Surroundings, selects
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS, YES, wire_name
from formulary_catalog.errors import ContextError

UNKNOWN = ""
_YES, NO = "true", "false"
GITOPS_MANAGED = "gitOpsManaged"
_ARGO, _FLUX = "argocd", "flux"
_GITOPS_LABELS = {
    "argocd.argoproj.io/instance": _ARGO,
    "argocd.argoproj.io/managed-by": _ARGO,
    "fluxcd.io/sync-gc-mark": _FLUX,
    "kustomize.toolkit.fluxcd.io/name": _FLUX,
    "helm.toolkit.fluxcd.io/name": _FLUX,
}
_GITOPS_ANNOTATIONS = {
    "argocd.argoproj.io/tracking-id": _ARGO,
    "argocd.argoproj.io/managed-by": _ARGO,
    "fluxcd.io/sync-checksum": _FLUX,
}
_NOT_OFF = frozenset({"false", "disabled"})
_WORKLOADS = frozenset({"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One constraint, and which label of which object says so.

    `name` is a field of `RequestContext`, or the key of a custom label.
    """

    name: str
    value: str = field(repr=False)
    custom: bool
    source: ObjectMetadata
    label: str


def demands_on(around: Surroundings, *, mapping: ContextMapping, known: Collection[str] = frozenset()) -> list[Demand]:
    """What the labels around a target demand, one demand for each constraint.

    `known` are the dimensions that the alert of a call gives, which no label has to.

    Raises:
        ContextError: the namespace, or an object in none, has no label that is required.
    """
    sources = list(_sources(around))
    found: dict[tuple[bool, str], Demand] = {}
    for source in sources:
        for demand in _demands_of(source, mapping=mapping):
            earlier = found.get(key := (demand.custom, demand.name))
            # `yes` demands nothing, so what the other objects say narrows what it leaves open.
            if earlier is None or (_demands_nothing(earlier) and not _demands_nothing(demand)):
                found[key] = demand
    first = sources[0]
    for name, wanted in mapping.dimensions.items():
        if wanted.required and name not in known and first_label(wanted, first.labels) is None:
            raise ContextError(_unlabelled(first, name=name, label=wanted.labels[0], others=wanted.labels[1:]))
    return list(found.values())


def target_context(
    around: Surroundings, *, mapping: ContextMapping, known: Collection[str] = frozenset()
) -> RequestContext:
    """The context of a call about this target; `known` as of `demands_on`.

    Raises:
        ContextError: as `demands_on`.
    """
    demands = demands_on(around, mapping=mapping, known=known)
    reference = around.reference
    namespace = reference.home or ""
    return RequestContext(
        namespace=namespace,
        name="",
        remediation_id="",
        **{demand.name: demand.value for demand in demands if not demand.custom},
        target_namespace=namespace,
        target_api_version=around.api_version,
        target_kind=reference.kind,
        target_name=reference.name,
        target_owners=tuple(f"{owner.kind}/{owner.name}" for owner in around.owners),
        target_node=around.node.name if around.node is not None else "",
        target_selector=around.selector,
        custom_labels={demand.name: (demand.value,) for demand in demands if demand.custom},
        strict_keys=frozenset(mapping.strict),
        detected_labels=detected_facts(around),
        note=around.note,
    )


def further_context(around: Surroundings, *, mapping: ContextMapping) -> RequestContext:
    """What the owners of an object demand that a run names besides what it is about: it holds for the run, too.

    No label is required of it. Of what was detected, only that GitOps manages it, or may do so, counts. Of a pod that
    is gone, nobody says that it may.
    """
    context = target_context(around, mapping=mapping, known=CONTEXT_DIMENSIONS)
    managed = context.detected_labels[GITOPS_MANAGED]
    demands_nothing = managed == NO or (managed == UNKNOWN and around.found is None)
    return replace(context, detected_labels={} if demands_nothing else {GITOPS_MANAGED: managed})


def _sources(around: Surroundings) -> Iterator[ObjectMetadata]:
    """The objects whose labels count, the one that binds first."""
    if around.namespace is not None:
        yield around.namespace
    yield from around.workload
    if around.node is not None:
        yield around.node


def _demands_of(source: ObjectMetadata, *, mapping: ContextMapping) -> Iterator[Demand]:
    for name, labels in mapping.dimensions.items():
        if (label := first_label(labels, source.labels)) is not None:
            yield Demand(name=name, value=source.labels[label], custom=False, source=source, label=label)
    for key, value, label in mapping.custom(source.labels):
        # Owners write `No` and mean no; every other custom label counts exactly as it is written.
        value = value.lower() if key in STANDARD_KEYS else value
        yield Demand(name=key, value=value, custom=True, source=source, label=label)


def _demands_nothing(demand: Demand) -> bool:
    return demand.custom and demand.name in STANDARD_KEYS and demand.value == YES


def _unlabelled(source: ObjectMetadata, *, name: str, label: str, others: list[str]) -> str:
    what = f"{source.kind.lower()} {source.name}"
    labels = " or ".join((label, *others))
    return (
        f"{what} has no label {labels}, so its {wire_name(name)} is not known and nothing is returned; its owners "
        f"repair that with: kubectl label {what} {label}=VALUE"
    )


def detected_facts(around: Surroundings) -> dict[str, str]:
    """Each fact with its value: `true`, `false`, `UNKNOWN`, or the name of a tool."""
    is_workload = around.reference.kind in _WORKLOADS
    tool = _gitops_tool(around)
    complete = around.found is not None and around.complete
    mesh = _mesh(around)
    has_pods = is_workload and around.pods is not None
    return {
        GITOPS_MANAGED: _YES if tool else _known(complete, False),
        "gitOpsTool": tool or (NO if complete else UNKNOWN),
        "helmManaged": _known(complete or _is_helm(around), _is_helm(around)),
        "stateful": _known(is_workload and (complete or _is_stateful(around)), _is_stateful(around)),
        "hpaEnabled": _known(is_workload and around.autoscaled is not None and complete, _is_autoscaled(around)),
        "pdbProtected": _known(has_pods and around.budgets is not None, has_pods and _is_protected(around)),
        "serviceMesh": mesh or (NO if has_pods else UNKNOWN),
    }


def _known(known: bool, holds: bool) -> str:
    return UNKNOWN if not known else _YES if holds else NO


def _signs(around: Surroundings) -> Iterator[ObjectMetadata]:
    """Where signs of a manager may be, nearest first; the namespace last."""
    if around.pods is not None:
        yield around.pods
    yield from around.workload
    if around.namespace is not None:
        yield around.namespace


def _gitops_tool(around: Surroundings) -> str:
    for each in _signs(around):
        for names, found in ((_GITOPS_ANNOTATIONS, each.annotations), (_GITOPS_LABELS, each.labels)):
            if tool := next((tool for name, tool in names.items() if found.get(name)), ""):
                return tool
    return ""


def _is_helm(around: Surroundings) -> bool:
    return any(
        each.labels.get("app.kubernetes.io/managed-by") == "Helm" and "meta.helm.sh/release-name" in each.annotations
        for each in around.workload
    )


def _is_stateful(around: Surroundings) -> bool:
    return any(each.kind == "StatefulSet" for each in around.workload)


def _is_autoscaled(around: Surroundings) -> bool:
    scaled = around.autoscaled or frozenset()
    return any((each.kind, each.name) in scaled for each in around.workload)


def _is_protected(around: Surroundings) -> bool:
    labels: Mapping[str, str] = around.pods.labels if around.pods is not None else {}
    return any(selects(selector, labels) for selector in around.budgets or ())


def _mesh(around: Surroundings) -> str:
    """The mesh of the pods, which may leave the one of their namespace."""
    pods, namespace = around.pods, around.namespace
    if pods is not None:
        injected = pods.annotations.get("sidecar.istio.io/inject", pods.labels.get("sidecar.istio.io/inject", ""))
        if "sidecar.istio.io/status" in pods.annotations or _is_on(injected) or pods.labels.get("istio.io/rev"):
            return "istio"
        linked = pods.annotations.get("linkerd.io/inject", "")
        if _is_on(linked):
            return "linkerd"
        if injected or linked:
            return ""
    if namespace is not None and around.reference.kind in _WORKLOADS:
        if namespace.labels.get("istio-injection") == "enabled" or namespace.labels.get("istio.io/rev"):
            return "istio"
        if _is_on(namespace.annotations.get("linkerd.io/inject", "")):
            return "linkerd"
    return ""


def _is_on(text: str) -> bool:
    return bool(text) and text not in _NOT_OFF
