"""Manifests as models, parsed once: a version id stands for its content, so what it parses to never changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from cachetools import LRUCache
from pydantic import ValidationError

from formulary_catalog.domain.invocable import not_invocable_because
from formulary_catalog.domain.labels import WorkflowLabels
from formulary_catalog.domain.workflow import RemediationWorkflow, labels_of

_CAPACITY = 2048
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedWorkflow:
    """A manifest as a model, with what is derived from it; `not_invocable_because` is empty where it can be run."""

    workflow: RemediationWorkflow
    labels: WorkflowLabels
    not_invocable_because: str


class ParsedWorkflows:
    """An LRU of parsed versions. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._cache: LRUCache[str, ParsedWorkflow] = LRUCache(maxsize=_CAPACITY)

    def readable(self, version_id: str, document: Mapping[str, Any]) -> bool:
        """Whether this version can read what an earlier one stored; what it cannot read must not fail the others."""
        try:
            self.get(version_id, document)
        except ValidationError:
            _log.warning("stored_workflow_unreadable", version_id=version_id)
            return False
        return True

    def get(self, version_id: str, document: Mapping[str, Any]) -> ParsedWorkflow:
        """The workflow and what is derived from it. Raises pydantic's ValidationError if it is not `readable`."""
        known = self._cache.get(version_id)
        if known is None:
            workflow = RemediationWorkflow.model_validate(document)
            known = ParsedWorkflow(
                workflow=workflow,
                labels=labels_of(workflow.spec, name=workflow.metadata.name),
                not_invocable_because=not_invocable_because(workflow.spec),
            )
            self._cache[version_id] = known
        return known
