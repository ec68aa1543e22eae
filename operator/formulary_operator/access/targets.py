"""Reads the targets of calls from the cluster: metadata of the object, its owners, its namespace and its node.

The catalog finds it by the name in FORMULARY_CONTEXT_TARGET, and has asked before whether the caller may get the
target. The server's own rights are those of the chart's role `context`: `get` on the kinds of
`domain/targets/reference`, `list` on what scales and protects, and nothing else.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cachetools import TTLCache

from formulary_catalog.domain.targets.reading import Json, read_surroundings
from formulary_catalog.domain.targets.reference import TargetKind, TargetReference, known_kind
from formulary_catalog.domain.targets.surroundings import Surroundings
from formulary_catalog.errors import ContextError, Unavailable
from formulary_operator.api.names import Resource
from formulary_operator.kube.client import KubeClient, KubernetesRefused, KubernetesUnavailable

_KINDS_KEPT_SECONDS = 60.0


class KubernetesTargets:
    """A `TargetReader` of the catalog."""

    place = "in the cluster"

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._kinds: TTLCache[str, list[TargetKind]] = TTLCache(1, ttl=_KINDS_KEPT_SECONDS)

    def workloads(self) -> Sequence[TargetReference]:
        return ()

    async def kind_of(self, reference: TargetReference) -> TargetKind:
        if (known := known_kind(reference.kind)) is not None:
            return known
        try:
            kinds = self._kinds.get("all") or await self._discovered()
        except (KubernetesUnavailable, KubernetesRefused) as error:
            raise _silent() from error
        for kind in kinds:
            if reference.kind.casefold() in (kind.kind.casefold(), kind.resource):
                return kind
        raise ContextError(
            f"{reference}: the cluster knows no kind {reference.kind}; name the workload or the namespace that is "
            "affected"
        )

    async def read(self, reference: TargetReference, *, kind: TargetKind) -> Surroundings:
        return await read_surroundings(reference, kind=kind, objects=self)

    async def get(self, kind: TargetKind, *, namespace: str, name: str, whole: bool) -> Json | None:
        path = _resource(kind).path(namespace=namespace, name=name)
        try:
            return await (self._client.get(path) if whole else self._client.metadata(path))
        except KubernetesUnavailable as error:
            raise _silent() from error
        except KubernetesRefused as error:
            raise ContextError(
                f"this server may not read {kind.resource} ({error.status} {error.reason}), so the constraints of the "
                "target are not known and nothing is returned; its operators have to grant it get on them, as the "
                "chart does with context.target: kubernetes"
            ) from error

    async def listed(self, kind: TargetKind, *, namespace: str) -> Sequence[Json] | None:
        path = _resource(kind).path(namespace=namespace)
        try:
            return [item async for page in self._client.pages(path) for item in page]
        except KubernetesUnavailable as error:
            raise _silent() from error
        except KubernetesRefused:
            return None  # what they say is not known then, and workflows that ask for it are not offered

    async def _discovered(self) -> list[TargetKind]:
        found = [
            TargetKind(
                kind=str(each.get("kind", "")),
                api_version=api_version,
                resource=str(each.get("name", "")),
                namespaced=each.get("namespaced") is True,
            )
            for api_version in await self._client.groups()
            for each in await self._kinds_of(api_version)
            if "/" not in each.get("name", "/")  # a part of another one
        ]
        self._kinds["all"] = found
        return found

    async def _kinds_of(self, api_version: str) -> list[Json]:
        try:
            return [*await self._client.kinds(api_version)]
        except (KubernetesUnavailable, KubernetesRefused):
            return []  # of an API that another server answers, which is away: its kinds are no targets meanwhile


@asynccontextmanager
async def open_targets(*, kube_context: str = "") -> AsyncIterator[KubernetesTargets]:
    """The entry point that the catalog finds under `FORMULARY_CONTEXT_TARGET=kubernetes`.

    Raises:
        StartupError: there is no way to an API server.
    """
    client = await KubeClient.connect(seconds=3.0, context=kube_context)
    try:
        yield KubernetesTargets(client)
    finally:
        await client.close()


def _resource(kind: TargetKind) -> Resource:
    return Resource(group=kind.group, version=kind.api_version.rpartition("/")[2], plural=kind.resource, kind=kind.kind)


def _silent() -> Unavailable:
    return Unavailable(
        "the Kubernetes API does not answer, so the constraints of the target are not known and nothing is returned; "
        "retry in a few seconds"
    )
