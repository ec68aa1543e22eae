"""Targets without a cluster: Namespaces and workloads in the manifests of `formulary up` and `stdio`.

`loading.loader` hands it what it ignores otherwise, at each load. Everybody may read it, as everything on a laptop.
"""

from collections.abc import Iterable, Sequence

from formulary_catalog.domain.targets.reading import Json, read_surroundings
from formulary_catalog.domain.targets.reference import TargetKind, TargetReference, known_kind
from formulary_catalog.domain.targets.surroundings import Surroundings
from formulary_catalog.errors import ContextError
from formulary_catalog.loading.documents import ManifestDocument

_Key = tuple[str, str, str]
_WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})


class ManifestTargets:
    """A `TargetReader` on manifests. `default_namespace` is that of objects which name none."""

    place = "in the manifests"

    def __init__(self, *, default_namespace: str) -> None:
        self._default_namespace = default_namespace
        self._objects: dict[_Key, Json] = {}

    def replace(self, documents: Iterable[ManifestDocument]) -> None:
        """What there is from now on."""
        self._objects = {self._key(each.content): each.content for each in documents}

    def workloads(self) -> Sequence[TargetReference]:
        named = sorted((namespace, kind, name) for kind, namespace, name in self._objects if kind in _WORKLOADS)
        return [TargetReference(namespace=namespace, kind=kind, name=name) for namespace, kind, name in named]

    async def kind_of(self, reference: TargetReference) -> TargetKind:
        if (known := known_kind(reference.kind)) is not None:
            return known
        for (kind, _, _), manifest in self._objects.items():
            if kind.casefold() == reference.kind.casefold():
                return TargetKind(kind=kind, api_version=str(manifest.get("apiVersion", "")), resource=kind.casefold())
        raise ContextError(
            f"{reference}: no {reference.kind} is {self.place}; name the workload or the namespace that is affected"
        )

    async def read(self, reference: TargetReference, *, kind: TargetKind) -> Surroundings:
        return await read_surroundings(reference, kind=kind, objects=self)

    async def get(self, kind: TargetKind, *, namespace: str, name: str, whole: bool) -> Json | None:
        return self._objects.get((kind.kind, namespace, name))

    async def listed(self, kind: TargetKind, *, namespace: str) -> Sequence[Json]:
        return [each for (of, within, _), each in self._objects.items() if (of, within) == (kind.kind, namespace)]

    def _key(self, manifest: Json) -> _Key:
        kind, metadata = str(manifest.get("kind", "")), manifest.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        known = known_kind(kind)
        is_namespaced = known is None or known.namespaced
        namespace = str(metadata.get("namespace") or self._default_namespace) if is_namespaced else ""
        return kind, namespace, str(metadata.get("name", ""))
