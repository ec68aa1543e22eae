"""Manifests as models, parsed once: a version id stands for its content, so what it parses to never changes."""

from collections.abc import Mapping
from typing import Any

from cachetools import LRUCache

from formulary_catalog.domain.labels import WorkflowLabels
from formulary_catalog.domain.workflow import RemediationWorkflow, labels_of

_CAPACITY = 2048


class ParsedWorkflows:
    """An LRU of parsed versions. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._cache: LRUCache[str, tuple[RemediationWorkflow, WorkflowLabels]] = LRUCache(maxsize=_CAPACITY)

    def get(self, version_id: str, document: Mapping[str, Any]) -> tuple[RemediationWorkflow, WorkflowLabels]:
        """The workflow and its labels."""
        known = self._cache.get(version_id)
        if known is None:
            workflow = RemediationWorkflow.model_validate(document)
            known = workflow, labels_of(workflow.spec, name=workflow.metadata.name)
            self._cache[version_id] = known
        return known
