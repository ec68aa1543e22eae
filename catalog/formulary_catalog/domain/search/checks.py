"""What to check before one of the first hits is run, in the words of its author.

`search.pipeline` calls it with the page. Whether a workflow is excluded in a situation, neither words nor vectors tell
(`docs/search.md`); who reads the answer can, if it stands there. Pure.
"""

import math
from collections.abc import Sequence
from itertools import takewhile

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, WorkflowHit
from formulary_catalog.domain.search.synonyms import stems
from formulary_catalog.domain.search.terms import rarity
from formulary_catalog.domain.text import one_line, sentences, shortened
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

ALIKE = 0.5
"""Hits fit about equally if the log odds of their confidence lie no further apart."""
MAX_NOTE = 300
"""Bytes."""
_NAMED = 3
_LEAST = 1e-4
_SHORTEST = 20
_LEFT_OUT = "… "


def what_to_check(page: Sequence[tuple[WorkflowHit, RemediationWorkflow]], *, query: str) -> list[str]:
    """A note for who chooses: what the first hit is not for, or what it needs; none where none fits.

    Where several fit about equally, of up to three of them. Of a long text that part which speaks most of the query.
    """
    if not page or page[0][0].confidence < WEAK_CONFIDENCE:
        return []
    best = _log_odds(page[0][0].confidence)
    alike = [*takewhile(lambda each: best - _log_odds(each[0].confidence) <= ALIKE, page)]
    head = "before a run, check "
    if len(alike) > 1:
        head = f"the first {len(alike)} fit about equally; to choose, check "
    named = alike[:_NAMED]
    room = (MAX_NOTE - len(head)) // len(named) - len("; ")
    checks = [check for hit, workflow in named if (check := _check(hit, workflow, room=room, query=query))]
    return [head + "; ".join(checks)] if checks else []


def _log_odds(confidence: float) -> float:
    likely = min(max(confidence, _LEAST), 1 - _LEAST)
    return math.log(likely / (1 - likely))


def _check(hit: WorkflowHit, workflow: RemediationWorkflow, *, room: int, query: str) -> str:
    """When not to use this one, within `room` bytes; empty if its author wrote nothing, or there is no room."""
    description = workflow.spec.description
    texts = (("when not", description.when_not_to_use), ("needs", description.preconditions))
    label, text = next(((label, one_line(text)) for label, text in texts if text.strip()), ("", ""))
    head = f"{hit.workflow_id} ({label}: "
    left = room - len(head) - len(")")
    if not text or left < _SHORTEST:
        return hit.workflow_id if text and len(hit.workflow_id) <= room else ""
    if len(text.encode()) > left:
        text = _telling(text, query=query)
    # One character may take four bytes.
    quoted = next(each for limit in range(left, 0, -1) if len((each := shortened(text, limit=limit)).encode()) <= left)
    return f"{head}{quoted})"


def _telling(text: str, *, query: str) -> str:
    """The text from the sentence on that holds most of the query; in its order, since sentences refer to the one
    before."""
    asked = stems(query)
    parts = sentences(text)
    said = [sum(map(rarity, stems(part) & asked)) for part in parts]
    first = said.index(max(said))
    return f"{_LEFT_OUT if first else ''}{' '.join(parts[first:])}"
