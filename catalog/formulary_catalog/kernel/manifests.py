"""Manifests as models, parsed once: a version id identifies its content, so what it parses to never changes.

`kernel.search.pipeline` and `kernel.lookup` get each hit from here, as do explanations and runs. Parsing is slow next
to the rest of a search. Texts of the models hold only characters that people can see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from cachetools import LRUCache
from pydantic import ValidationError

from formulary_catalog.domain.search.caution import Indications, indications
from formulary_catalog.domain.visible import all_visible
from formulary_catalog.domain.workflows.invocable import not_invocable_because
from formulary_catalog.domain.workflows.labels import WorkflowLabels
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, labels_of
from formulary_catalog.metrics import Metrics

_CAPACITY = 384  # of 14 to 25 KB each
_COMPARED = ("customLabels", "custom_labels", "detectedLabels", "detected_labels")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedWorkflow:
    """A manifest as a model, with what is derived from it; `not_invocable_because` is empty where it can be run.

    The texts of `workflow` are `visible`, so that nothing hidden is ever shown. The labels are as they
    are stored. What is run is too: a workflow whose commands hide something cannot be run at all.
    """

    workflow: RemediationWorkflow
    labels: WorkflowLabels
    indicated: Indications
    not_invocable_because: str


class ParsedWorkflows:
    """An LRU of parsed versions. For the event loop's thread alone."""

    def __init__(self, *, metrics: Metrics) -> None:
        self._metrics = metrics
        self._cache: LRUCache[str, ParsedWorkflow] = LRUCache(maxsize=_CAPACITY)

    def cached(self, version_id: str) -> ParsedWorkflow | None:
        """The workflow, if it need not be read again."""
        known = self._cache.get(version_id)
        self._metrics.count_cache_lookup("workflows", hit=known is not None, entries=len(self._cache))
        return known

    def get(self, version_id: str, document: Mapping[str, Any]) -> ParsedWorkflow | None:
        """The workflow and what is derived from it.

        None if this version cannot read what an earlier one stored: that must not fail the others.
        """
        if (known := self._cache.get(version_id)) is not None:
            return known
        try:
            stored = RemediationWorkflow.model_validate(document)
            shown = _shown(document)
            workflow = stored if shown == document else RemediationWorkflow.model_validate(shown)
        except ValidationError:
            _log.warning("stored_workflow_unreadable", version_id=version_id)
            return None
        parsed = ParsedWorkflow(
            workflow=workflow,
            labels=labels_of(stored.spec, name=stored.metadata.name),
            indicated=indications(workflow),
            not_invocable_because=not_invocable_because(stored.spec),
        )
        self._cache[version_id] = parsed
        return parsed


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with texts that are `visible`, but for the labels that are compared and never shown."""
    compared = {part: document["spec"][part] for part in _COMPARED if part in document["spec"]}
    return {**document, "spec": {**all_visible(document["spec"]), **compared}}
