"""What is read of targets, for tests of their contexts."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.domain.targets.surroundings import ObjectMetadata, Surroundings
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.loading.documents import ManifestDocument, read_documents
from formulary_catalog.loading.files import example_targets
from formulary_catalog.loading.targets import ManifestTargets

NONE: Mapping[str, str] = {}
NO_TARGETS = TargetContexts(None, mapping=DEFAULT_MAPPING)
"""Of a server that reads no targets."""


def example_reader() -> ManifestTargets:
    """What `formulary up` reads of the examples that ship with the product."""
    reader = ManifestTargets(default_namespace="formulary")
    found = read_documents(example_targets(), name="targets.yaml")
    reader.replace(each for each in found if isinstance(each, ManifestDocument))
    return reader


def metadata(
    kind: str, name: str, labels: Mapping[str, str] = NONE, *, annotations: Mapping[str, str] = NONE
) -> ObjectMetadata:
    """An object with these labels and annotations, in the namespace `shop` if it is in one."""
    namespace = "" if kind in ("Namespace", "Node") else "shop"
    return ObjectMetadata(kind=kind, name=name, namespace=namespace, labels=labels, annotations=annotations)


def surroundings(
    *,
    namespace: Mapping[str, str] | None = None,
    pod: Mapping[str, str] = NONE,
    owner: Mapping[str, str] = NONE,
    node: Mapping[str, str] = NONE,
    **more: Any,
) -> Surroundings:
    """A Pod of the Deployment `checkout` in the namespace `shop`, on a node, with these labels."""
    found = metadata("Pod", "checkout-1", pod)
    values: dict[str, Any] = {
        "reference": TargetReference(namespace="shop", kind="Pod", name="checkout-1"),
        "api_version": "v1",
        "found": found,
        "owners": (metadata("ReplicaSet", "checkout-a"), metadata("Deployment", "checkout", owner)),
        "namespace": metadata("Namespace", "shop", {"environment": "production"} if namespace is None else namespace),
        "node": metadata("Node", "worker-1", node),
        "pods": found,
        "autoscaled": frozenset(),
        "budgets": (),
    }
    return Surroundings(**values | more)
