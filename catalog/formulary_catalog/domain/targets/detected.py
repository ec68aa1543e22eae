"""What can be seen of a target besides its labels: who manages it, what scales, protects and meshes it.

The facts have upstream's names (`detectedLabels` of a workflow). One that could not be found out is `UNKNOWN`: it meets
no requirement, so that a workflow with one is not offered.
"""

from collections.abc import Iterator, Mapping

from formulary_catalog.domain.targets.surroundings import ObjectMetadata, Surroundings, selects

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
