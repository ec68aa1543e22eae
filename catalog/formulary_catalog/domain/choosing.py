"""What to check where the words of a query fit several workflows alike (`reference/retrieval.md`, finding 10)."""

from collections.abc import Sequence
from itertools import takewhile

from formulary_catalog.domain.answers import WorkflowHit
from formulary_catalog.domain.presenting import shortened
from formulary_catalog.domain.workflow import RemediationWorkflow

ALIKE = 0.8
"""A hit fits about as well as the first one if its confidence is at least this share of it."""
_COMPARED = 3
_MAX_CHECK = 90


def what_to_check(page: Sequence[tuple[WorkflowHit, RemediationWorkflow]]) -> list[str]:
    """Notes for choosing among the first hits, best first; none where the first one stands out.

    Taken from what their authors wrote: the preconditions of each, and when not to use it.
    """
    alike = list(takewhile(lambda each: _is_alike(each[0], best=page[0][0]), page))
    checks = [f"{hit.workflow_id} ({check})" for hit, workflow in alike[:_COMPARED] if (check := _check(workflow))]
    if len(alike) < 2 or not checks:
        return []
    return [f"the first {len(alike)} fit about equally; to choose, check {'; '.join(checks)}"]


def _is_alike(hit: WorkflowHit, *, best: WorkflowHit) -> bool:
    return hit.confidence >= ALIKE * best.confidence > 0


def _check(workflow: RemediationWorkflow) -> str:
    description = workflow.spec.description
    texts = {"needs": description.preconditions, "when not": description.when_not_to_use}
    return " | ".join(f"{label}: {shortened(text, limit=_MAX_CHECK)}" for label, text in texts.items() if text)
