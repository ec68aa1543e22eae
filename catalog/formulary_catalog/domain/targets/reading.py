"""How a target and what surrounds it is read, from a cluster and from manifests alike: which objects, in which order.

A `TargetReader` calls it with its own `ObjectSource`. Nothing that counts is left out in silence: what cannot be read
is an error, or makes `Surroundings` say that it is not complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from formulary_catalog.domain.targets.reference import TargetKind, TargetReference, known_kind
from formulary_catalog.domain.targets.surroundings import (
    ObjectMetadata,
    Surroundings,
    metadata_of,
    pod_selector,
    scaled_by,
    selector_of,
)
from formulary_catalog.errors import ContextError, TargetMissing

Json = Mapping[str, Any]
BUDGETS = TargetKind(kind="PodDisruptionBudget", api_version="policy/v1", resource="poddisruptionbudgets")
_WITH_PODS = frozenset({"Pod", "Deployment", "StatefulSet", "DaemonSet"})
"""Read whole, for the template of their pods, or the node of one; of the others the metadata is enough."""
_WORKLOADS = _WITH_PODS | {"ReplicaSet", "Job", "CronJob"}
_MOST_OWNERS = 6


class ObjectSource(Protocol):
    """Where objects are read. `place` is what messages call it."""

    place: str

    async def get(self, kind: TargetKind, *, namespace: str, name: str, whole: bool) -> Json | None:
        """One object, its metadata alone unless `whole`; None if it does not exist.

        Raises:
            ContextError: it may not be read.
            Unavailable: it cannot be read now.
        """

    async def listed(self, kind: TargetKind, *, namespace: str) -> Sequence[Json] | None:
        """All objects of a namespace; None if they may not be read.

        Raises:
            Unavailable: they cannot be read now.
        """


@dataclass(frozen=True, slots=True)
class _Chain:
    """An object and its owners, as they were read; the manifests are in the same order as their metadata."""

    manifests: tuple[Json, ...]
    metadata: tuple[ObjectMetadata, ...]
    complete: bool


async def read_surroundings(reference: TargetReference, *, kind: TargetKind, objects: ObjectSource) -> Surroundings:
    """What surrounds a target.

    Raises:
        ContextError: it or its namespace does not exist, or may not be read.
        Unavailable: it cannot be read now.
    """
    reference = replace(reference, kind=kind.kind)
    is_namespace = reference.kind == "Namespace"
    home = reference.name if is_namespace else reference.namespace if kind.namespaced else ""
    namespace = await _namespace(home, objects=objects) if home else None
    around = Surroundings(reference=reference, api_version=kind.api_version, found=namespace, namespace=namespace)
    if is_namespace:
        return around
    if known_kind(reference.kind) is None:
        if namespace is None:
            raise ContextError(
                f"{reference}: labels of a {reference.kind} are not read, and it is in no namespace whose labels could "
                "count; name the workload, the node or the namespace that is affected"
            )
        note = f"labels of a {reference.kind} are not read; those of namespace {namespace.name} apply"
        return replace(around, found=None, complete=False, note=note)
    manifest = await objects.get(
        kind, namespace=reference.namespace, name=reference.name, whole=reference.kind in _WITH_PODS
    )
    if manifest is None:
        if reference.kind != "Pod":
            raise TargetMissing(
                f"{reference} does not exist {objects.place}, so nothing is returned; check its kind, namespace and "
                "name, or name what exists"
            )
        note = f"pod {reference.name} was not found; the labels of namespace {reference.namespace} apply"
        return replace(around, found=None, complete=False, note=note)
    chain = await _chain(manifest, reference=reference, objects=objects)
    found, *owners = chain.metadata
    around = replace(around, found=found, owners=tuple(owners), complete=chain.complete)
    if reference.kind not in _WORKLOADS:
        return around
    scaling = await objects.listed(AUTOSCALERS, namespace=reference.namespace)
    protecting = await objects.listed(BUDGETS, namespace=reference.namespace)
    selectors = None if protecting is None else [selector_of(each) for each in protecting]
    return replace(
        around,
        node=await _node(manifest, objects=objects) if reference.kind == "Pod" else None,
        pods=found if reference.kind == "Pod" else _template(chain),
        selector=_selector(chain),
        autoscaled=None if scaling is None else frozenset(map(scaled_by, scaling)),
        budgets=None if selectors is None else tuple(each for each in selectors if each is not None),
    )


async def _namespace(name: str, *, objects: ObjectSource) -> ObjectMetadata:
    kind = _kind("Namespace")
    found = await objects.get(kind, namespace="", name=name, whole=False)
    if found is None:
        raise TargetMissing(f"namespace {name} does not exist {objects.place}, so nothing is returned; check its name")
    return metadata_of(found, kind=kind.kind)


async def _node(pod: Json, *, objects: ObjectSource) -> ObjectMetadata | None:
    """The node that a pod runs on; None before it runs on one, and after that is gone."""
    name = (pod.get("spec") or {}).get("nodeName")
    found = await objects.get(_kind("Node"), namespace="", name=str(name), whole=False) if name else None
    return metadata_of(found, kind="Node") if found is not None else None


async def _chain(manifest: Json, *, reference: TargetReference, objects: ObjectSource) -> _Chain:
    """The object and its owners, up to one that cannot be read."""
    kinds, manifests, complete = [reference.kind], [manifest], True
    seen = {(reference.kind, reference.name)}
    while (owner := controller_of(manifests[-1])) is not None:
        kind, name = known_kind(str(owner.get("kind", ""))), str(owner.get("name", ""))
        if kind is None or kind.group != str(owner.get("apiVersion", "")).rpartition("/")[0]:
            complete = False
            break
        if (kind.kind, name) in seen or len(seen) > _MOST_OWNERS:
            raise ContextError(f"the owners of {reference} lead in a circle or too far, so nothing is returned")
        seen.add((kind.kind, name))
        namespace = reference.namespace if kind.namespaced else ""
        found = await objects.get(kind, namespace=namespace, name=name, whole=kind.kind in _WITH_PODS)
        if found is None:
            complete = False
            break
        kinds.append(kind.kind)
        manifests.append(found)
    metadata = tuple(metadata_of(each, kind=kind) for each, kind in zip(manifests, kinds, strict=True))
    return _Chain(manifests=tuple(manifests), metadata=metadata, complete=complete)


def controller_of(manifest: Json) -> Json | None:
    """The reference to what controls an object."""
    owners = (manifest.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller") is True), None)


def _template(chain: _Chain) -> ObjectMetadata | None:
    """Labels and annotations of the pods that a workload or its owner makes."""
    for manifest, metadata in zip(chain.manifests, chain.metadata, strict=True):
        template = (manifest.get("spec") or {}).get("template")
        if isinstance(template, Mapping) and metadata.kind in _WITH_PODS:
            made = metadata_of(template, kind="Pod")
            return replace(made, name=metadata.name, namespace=metadata.namespace)
    return None


def _selector(chain: _Chain) -> str:
    """How the workload among an object and its owners selects its pods; empty for what has none that is read whole."""
    for manifest, metadata in zip(chain.manifests, chain.metadata, strict=True):
        if metadata.kind in _WITH_PODS - {"Pod"}:
            return pod_selector(manifest)
    return ""


def _kind(name: str) -> TargetKind:
    kind = known_kind(name)
    assert kind is not None, name
    return kind


AUTOSCALERS = _kind("HorizontalPodAutoscaler")
