"""What to check before one of the first hits is run, in the words of its author.

`search.pipeline` calls it with the page. Whether a workflow is excluded in a situation, neither words nor vectors tell
(`docs/search.md`); who reads the answer can, if it stands there. Pure.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, WorkflowHit
from formulary_catalog.domain.search.synonyms import folded, stems
from formulary_catalog.domain.search.terms import rarity
from formulary_catalog.domain.text import sentences, shortened, split_camel_case, words
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

ALIKE = 0.5
"""Hits fit about equally if the log odds of their confidence lie no further apart."""
_MAX_NOTE = 300
"""Bytes."""
_NAMED = 3
_LEAST = 1e-4
_SHORTEST = 20
"""Bytes of a quotation that tell anything."""


def what_to_check(page: Sequence[tuple[WorkflowHit, RemediationWorkflow]], *, query: str) -> list[str]:
    """A note for who chooses: what the first hit is not for, or what it needs; none where none fits.

    Where several fit about equally, of up to three of them. What speaks most of the query comes first, since a note may
    be cut further.
    """
    if not page or page[0][0].confidence < WEAK_CONFIDENCE:
        return []
    best = _log_odds(page[0][0].confidence)
    alike = [*takewhile(lambda each: best - _log_odds(each[0].confidence) <= ALIKE, page)]
    head = "before a run, check "
    if len(alike) > 1:
        head = f"the first {len(alike)} fit about equally; to choose, check "
    named = alike[:_NAMED]
    room = (_MAX_NOTE - len(head)) // len(named) - len("; ")
    checks, label = [], ""
    for hit, workflow in named:
        field, text = _written(workflow)
        before = f"{field} of " if field != label else ""
        if check := _check(before + hit.workflow_id, text, room=room, query=query):
            checks.append(check)
            label = field
    return [head + "; ".join(checks)] if checks else []


def _log_odds(confidence: float) -> float:
    likely = min(max(confidence, _LEAST), 1 - _LEAST)
    return math.log(likely / (1 - likely))


def _written(workflow: RemediationWorkflow) -> tuple[str, str]:
    """What its author wrote that is to be checked, and in which field; empty where nothing is."""
    description = workflow.spec.description
    texts = (("when_not_to_use", description.when_not_to_use), ("preconditions", description.preconditions))
    return next(((field, text) for field, text in texts if _parts(text)), ("", ""))


def _check(name: str, text: str, *, room: int, query: str) -> str:
    """The text of a workflow within `room` bytes; empty if there is none, or no room."""
    left = room - len(f"{name} ()")
    if not text or left < _SHORTEST:
        return name if text and len(name) <= room else ""
    ordered = _telling_first(text, query=query)[: left + 1]  # one more, so that it shows where it is cut
    # One character may take four bytes.
    quoted = next(
        each for limit in range(left, 0, -1) if len((each := shortened(ordered, limit=limit)).encode()) <= left
    )
    return f"{name} ({quoted})"


def _telling_first(text: str, *, query: str) -> str:
    """The text from the sentence on that holds most of the query, then what is before it."""
    asked = {folded(part): rarity(part) for word in words(query) for part in (word, *split_camel_case(word))}
    parts = _parts(text)
    said = [sum(asked[stem] for stem in holds & asked.keys()) for _, holds in parts]
    first = said.index(max(said))
    written = [part for part, _ in parts]
    return " … ".join(" ".join(each) for each in (written[first:], written[:first]) if each)


@lru_cache(maxsize=1000)
def _parts(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The sentences of a text with their stems. The same workflows come first again and again."""
    return tuple((each, stems(each)) for each in sentences(text))
