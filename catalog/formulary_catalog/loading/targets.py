"""How targets are read: an implementation that another package brings, found by name as authentication is.

`runtime` opens it for each process. The file that maps labels to constraints is read here, too. Without a cluster,
Namespaces and workloads in the manifests of `formulary up` and `stdio` are the targets: `loading.loader` hands over, at
each load, what it ignores otherwise. Everybody may read those, as everything on a laptop.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path

from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING, ContextMapping, context_mapping
from formulary_catalog.domain.targets.reading import Json, read_surroundings
from formulary_catalog.domain.targets.reference import TargetKind, TargetReference, known_kind
from formulary_catalog.domain.targets.surroundings import Surroundings, TargetReader
from formulary_catalog.errors import ContextError, StartupError
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.loading.documents import ManifestDocument
from formulary_catalog.loading.syntax import SyntaxProblem, parse_yaml
from formulary_catalog.settings import Settings

OFF = "off"
_GROUP = "formulary.targets"
_Key = tuple[str, str, str]
_WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})


@asynccontextmanager
async def target_contexts(
    settings: Settings, *, otherwise: TargetReader | None = None, kube_context: str = ""
) -> AsyncIterator[TargetContexts]:
    """The contexts of targets, read in the way of the settings; by `otherwise` where they name none.

    An implementation is an entry point of the group `formulary.targets`: called with `kube_context`, the name of a
    context of the caller's kubeconfig, it returns an asynchronous context manager that yields a `TargetReader`.

    Raises:
        StartupError: it is not known or cannot be set up, or the file of the mapping is wrong.
    """
    mapping = read_context_mapping(settings.context_file)
    if settings.context_target == OFF:
        yield TargetContexts(otherwise, mapping=mapping)
        return
    known = {point.name: point for point in entry_points(group=_GROUP)}
    if settings.context_target not in known:
        raise StartupError(
            f"FORMULARY_CONTEXT_TARGET is {settings.context_target!r}, which is not installed; known are: "
            f"{', '.join([OFF, *sorted(known)])}"
        )
    async with known[settings.context_target].load()(kube_context=kube_context) as reader:
        yield TargetContexts(reader, mapping=mapping)


def read_context_mapping(file: Path | None) -> ContextMapping:
    """The mapping of a file; the defaults where none is named.

    Raises:
        StartupError: it cannot be read, or a field breaks a rule.
    """
    if file is None:
        return DEFAULT_MAPPING
    try:
        document = parse_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxProblem) as error:
        raise StartupError(
            f"FORMULARY_CONTEXT_FILE {file}: {getattr(error, 'strerror', None) or error}; correct the file, or unset it"
        ) from None
    return context_mapping(document, source=f"FORMULARY_CONTEXT_FILE {file}")


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
