"""Keeps runbooks in step with the ConfigMaps of the namespaces that the settings list.

`knowledge/documents` runs it. It lists instead of watching: in each of these namespaces a Role of its own allows to
list ConfigMaps, nothing allows it for the whole cluster, and runbooks change once a week. Only one ConfigMap is held at
a time, and only if it changed.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog

from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.domain.knowledge.markdown import runbook_documents
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.knowledge.runbooks import CONFIG_MAP, RunbookWriter
from formulary_operator.api.names import CONFIG_MAPS, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused

LABEL = "formulary.dev/runbooks"
MAX_NAMESPACE_BYTES = 16 * 1024**2
"""Bytes of Markdown of one namespace, first ConfigMaps by name first: some 16,000 sections, five minutes to embed."""
_ENDINGS = (".md", ".markdown")
_log = structlog.get_logger(__name__)


class _Read(NamedTuple):
    """A ConfigMap as it was read last: its resource version, the bytes of its runbooks, whether there was room."""

    version: str
    size: int
    written: bool

    def stands(self, version: str, *, room: int) -> bool:
        """Whether reading it again would change nothing."""
        return self.version == version and (self.written or self.size > room)


class Runbooks:
    """The runbooks of labelled ConfigMaps, each of which is one origin."""

    def __init__(
        self,
        *,
        namespaces: tuple[str, ...],
        client: KubeClient,
        writer: RunbookWriter,
        max_bytes: int = MAX_NAMESPACE_BYTES,
    ) -> None:
        self._namespaces = namespaces
        self._client = client
        self._writer = writer
        self._max_bytes = max_bytes
        self._read: dict[str, _Read] = {}
        """By origin."""
        self._refused: set[str] = set()
        """Namespaces that may not be listed, as far as that was logged."""

    async def compare(self) -> None:
        """Bring the runbooks in step with what is there now; those of ConfigMaps that are gone go.

        Raises:
            Unavailable: the API server or the database does not answer; what was done stays.
        """
        seen: set[str] = set()
        unknown: set[str] = set()
        for namespace in self._namespaces:
            try:
                seen |= await self._compare_namespace(namespace)
            except KubernetesRefused as error:  # absence must be seen, not guessed
                unknown.add(namespace)
                if namespace not in self._refused:
                    _log.warning("runbooks_not_listed", namespace=namespace, reason=str(error))
                self._refused.add(namespace)
            else:
                self._refused.discard(namespace)
        for origin in await self._writer.origins(CONFIG_MAP) - seen:
            if origin.removeprefix(CONFIG_MAP).partition("/")[0] not in unknown:
                await self._writer.remove(origin)
                self._read.pop(origin, None)
                _log.info("runbooks_removed", origin=origin)

    async def _compare_namespace(self, namespace: str) -> set[str]:
        """The origins that are there. What does not fit any more stays as it was."""
        seen: set[str] = set()
        room = self._max_bytes
        async for metadata in self._labelled(namespace):
            origin = f"{CONFIG_MAP}{namespace}/{metadata['name']}"
            seen.add(origin)
            known = self._read.get(origin)
            if known is None or not known.stands(metadata["resourceVersion"], room=room):
                known = await self._read_again(origin, metadata, room=room)
            if known is not None and known.written:
                room -= known.size
        return seen

    async def _labelled(self, namespace: str) -> AsyncIterator[Json]:
        """The metadata of each ConfigMap that is a source, by name."""
        async for page in self._client.metadata_pages(CONFIG_MAPS.path(namespace=namespace), labels={LABEL: "true"}):
            for each in page:
                yield each["metadata"]

    async def _read_again(self, origin: str, metadata: Json, *, room: int) -> _Read | None:
        """Read a ConfigMap and write what it says if there is room for it; None if it has gone meanwhile."""
        namespace = metadata["namespace"]
        document = await self._client.listed(CONFIG_MAPS.path(namespace=namespace), name=metadata["name"])
        if document is None:
            return None
        files = {
            f"configmap://{namespace}/{metadata['name']}/{name}": text.encode()
            for name, text in sorted((document.get("data") or {}).items())
            if name.endswith(_ENDINGS)
        }
        size = sum(map(len, files.values()))
        if size > room:
            _log.warning("runbooks_too_large", origin=origin, size=size, limit=self._max_bytes)
        else:
            await self._write(origin, files, namespace=namespace)
        self._read[origin] = _Read(document["metadata"]["resourceVersion"], size, size <= room)
        return self._read[origin]

    async def _write(self, origin: str, files: dict[str, bytes], *, namespace: str) -> None:
        documents: list[Document] = []
        refused: list[str] = []
        for source_file, content in files.items():
            try:
                documents += runbook_documents(content, namespace=namespace, source_file=source_file)
            except InvalidInput as error:
                refused.append(source_file)
                _log.warning("runbook_rejected", reason=str(error))
        await self._writer.replace(origin, documents, keep=refused)
        _log.info("runbooks_loaded", origin=origin, documents=len(documents))
