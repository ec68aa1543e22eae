"""Checkpoints of the audit trail in a ConfigMap, which the owner of the database alone cannot change."""

from collections.abc import Sequence

from formulary_catalog.domain.audit.checkpoint import Seen
from formulary_catalog.errors import NotFound
from formulary_catalog.store.audit.publishing import KEPT, parse_lines, spell_lines
from formulary_operator.api.names import CONFIG_MAPS, Json
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.events import EventRecorder

_KEY = "checkpoints"


class ConfigMapPlace:
    """A ConfigMap that is there already: to change one by name takes less rights than to make any."""

    def __init__(self, client: KubeClient, *, events: EventRecorder, namespace: str, name: str) -> None:
        self._client = client
        self._events = events
        self._path = CONFIG_MAPS.path(namespace=namespace, name=name)
        self._name = f"{namespace}/{name}"
        self._read: Json | None = None

    async def read(self) -> tuple[Seen, ...]:
        """What it holds, the newest last.

        Raises:
            NotFound: it is not there.
            InvalidInput: it holds something else.
        """
        self._read = await self._client.get(self._path)
        if self._read is None:
            raise NotFound(
                f"there is no ConfigMap {self._name} to publish checkpoints in; upgrade the release, or create an "
                "empty one",
                reference=self._name,
            )
        return parse_lines((self._read.get("data") or {}).get(_KEY, ""), place=f"ConfigMap {self._name}")

    async def write(self, published: Sequence[Seen], new: Sequence[Seen]) -> None:
        """Add the newest to it, unless it has changed since it was read."""
        version = self._read["metadata"]["resourceVersion"] if self._read is not None else ""
        patch = {"metadata": {"resourceVersion": version}, "data": {_KEY: spell_lines([*published, *new][-KEPT:])}}
        await self._client.merge(self._path, patch)

    async def warn(self, message: str) -> None:
        """Write an Event about it, as far as it is there."""
        if self._read is not None:
            regarding = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, **self._read}
            await self._events.record(regarding, type="Warning", reason="TrailBroken", message=message)
