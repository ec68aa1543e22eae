"""What to check where a query fits several workflows alike.

`search.pipeline` calls it with the page. Confidence cannot choose between such hits, the texts of their authors can:
the note quotes preconditions and when not to use a workflow. Pure.
"""

import math
from collections.abc import Sequence
from itertools import takewhile

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, WorkflowHit
from formulary_catalog.domain.text import shortened
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

ALIKE = 0.5
"""Hits fit about equally if the log odds of their confidence lie no further apart."""
_NAMED = 3
_MAX_NOTE = 300
"""Bytes."""
_LEAST = 1e-4
_SHORTEST = 20


def what_to_check(page: Sequence[tuple[WorkflowHit, RemediationWorkflow]]) -> list[str]:
    """A note for choosing among the first hits; none where the first one is clearly better, or none fits.

    It quotes their authors: the preconditions of each, and when not to use it.
    """
    if not page or page[0][0].confidence < WEAK_CONFIDENCE:
        return []
    best = _log_odds(page[0][0].confidence)
    alike = [*takewhile(lambda each: best - _log_odds(each[0].confidence) <= ALIKE, page)]
    if len(alike) < 2:
        return []
    head = f"the first {len(alike)} fit about equally; to choose, check "
    named = alike[:_NAMED]
    room = (_MAX_NOTE - len(head)) // len(named) - len("; ")
    checks = [check for hit, workflow in named if (check := _check(hit, workflow, room=room))]
    return [head + "; ".join(checks)] if checks else []


def _log_odds(confidence: float) -> float:
    likely = min(max(confidence, _LEAST), 1 - _LEAST)
    return math.log(likely / (1 - likely))


def _check(hit: WorkflowHit, workflow: RemediationWorkflow, *, room: int) -> str:
    """What distinguishes this one, within `room` bytes; empty if its author wrote nothing, or there is no room."""
    description = workflow.spec.description
    texts = (("when not", description.when_not_to_use), ("needs", description.preconditions))
    label, text = next(((label, text) for label, text in texts if text), ("", ""))
    head = f"{hit.workflow_id} ({label}: "
    left = room - len(head) - len(")")
    if not text or left < _SHORTEST:
        return hit.workflow_id if text and len(hit.workflow_id) <= room else ""
    # One character may take four bytes.
    quoted = next(each for limit in range(left, 0, -1) if len((each := shortened(text, limit=limit)).encode()) <= left)
    return f"{head}{quoted})"
