"""Keeps runbooks in step with the ConfigMaps of the namespaces that the settings list.

`knowledge/documents` runs it. It lists instead of watching: in each of these namespaces a Role of its own allows to
list ConfigMaps, nothing allows it for the whole cluster, and runbooks change once a week.
"""

import structlog

from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.domain.knowledge.markdown import runbook_documents
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.knowledge.documents import RunbookWriter
from formulary_operator.api.names import CONFIG_MAPS
from formulary_operator.kube.client import PAGE_SIZE, Json, KubeClient, KubernetesRefused

LABEL = "formulary.dev/runbooks"
_ORIGIN = "configmap:"
_ENDINGS = (".md", ".markdown")
_log = structlog.get_logger(__name__)


class Runbooks:
    """The runbooks of labelled ConfigMaps, each of which is one origin."""

    def __init__(self, *, namespaces: tuple[str, ...], client: KubeClient, writer: RunbookWriter) -> None:
        self._namespaces = namespaces
        self._client = client
        self._writer = writer
        self._written: dict[str, str] = {}
        """By origin, the resource version that was written last."""
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
            listed = await self._listed(namespace)
            if listed is None:
                unknown.add(namespace)
                continue
            for document in listed:
                seen.add(_origin(document))
                await self._write(document)
        for origin in await self._writer.origins(_ORIGIN) - seen:
            namespace = origin.removeprefix(_ORIGIN).partition("/")[0]
            if namespace not in unknown:
                await self._writer.replace(origin, [], namespace=namespace)
                self._written.pop(origin, None)
                _log.info("runbooks_removed", origin=origin)

    async def _listed(self, namespace: str) -> list[Json] | None:
        """The ConfigMaps of a namespace; None if that is not known: absence must be seen, not guessed."""
        try:
            found = await self._client.selected(CONFIG_MAPS.path(namespace=namespace), labels={LABEL: "true"})
        except KubernetesRefused as error:
            if namespace not in self._refused:
                _log.warning("runbooks_not_listed", namespace=namespace, reason=str(error))
            self._refused.add(namespace)
            return None
        self._refused.discard(namespace)
        if len(found) < PAGE_SIZE:
            return found
        _log.warning("too_many_runbook_configmaps", namespace=namespace, read=len(found))
        for document in found:
            await self._write(document)
        return None

    async def _write(self, document: Json) -> None:
        metadata = document["metadata"]
        origin, version = _origin(document), metadata["resourceVersion"]
        if self._written.get(origin) == version:
            return
        documents: list[Document] = []
        refused: list[str] = []
        for name, text in sorted((document.get("data") or {}).items()):
            if not name.endswith(_ENDINGS):
                continue
            source_file = f"configmap://{metadata['namespace']}/{metadata['name']}/{name}"
            try:
                documents += runbook_documents(text.encode(), namespace=metadata["namespace"], source_file=source_file)
            except InvalidInput as error:
                refused.append(source_file)
                _log.warning("runbook_rejected", reason=str(error))
        await self._writer.replace(origin, documents, namespace=metadata["namespace"], keep=refused)
        self._written[origin] = version
        _log.info("runbooks_loaded", origin=origin, documents=len(documents))


def _origin(document: Json) -> str:
    metadata = document["metadata"]
    return f"{_ORIGIN}{metadata['namespace']}/{metadata['name']}"
