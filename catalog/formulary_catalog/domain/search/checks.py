"""What to check before one of the first hits is run, in the words of its author.

`kernel.search.pipeline` calls it with the page. Whether a workflow is excluded in a situation, neither words nor
vectors tell (`docs/search.md`); who reads the answer can, if it stands there. Pure.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import takewhile

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, WorkflowHit
from formulary_catalog.domain.search.confidence import log_odds_of
from formulary_catalog.domain.search.synonyms import folded, stems
from formulary_catalog.domain.search.terms import rarity
from formulary_catalog.domain.text import sentences, shortened, split_camel_case, words
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

ALIKE = 0.5
"""Hits fit about equally if the log odds of their confidence lie no further apart."""
_MAX_NOTE = 300
"""Bytes."""
_NAMED = 3
_SHORTEST = 20
"""Bytes of a quotation that tell anything."""
_ADVISES = "|".join(
    f"(?<={before})"
    for before in (
        ": ",
        r"\(",
        "`",
        "'",
        '"',
        *(f"(?i:{verb}) " for verb in ("take", "use", "run", "try", "see", "prefer", "to")),
    )
)
_NAME = re.compile(
    rf"(?<![\w.-])(?!kube-|\d)(?:[a-z0-9.]+(?:-+[a-z0-9.]*[a-z0-9]){{2,}}"
    rf"|(?:{_ADVISES})[a-z0-9.]+-+[a-z0-9.]*[a-z0-9])(?![\w/-])"
)
"""What reads as the name of a workflow: three words with hyphens, or two where a sentence advises something. Parts of
Kubernetes such as `kube-state-metrics`, and dates, are none.

Whether such a workflow exists is not asked: an answer must not depend on what the caller may not find.
"""
_NOT_ALLOWED = "[not allowed here]"


Page = Sequence[tuple[WorkflowHit, RemediationWorkflow]]


def names_to_check(page: Page) -> set[str]:
    """What the note may quote that reads as the name of a workflow."""
    return {name for _, workflow in _alike(page)[:_NAMED] for name in _NAME.findall(_written(workflow)[1])}


def what_to_check(page: Page, *, query: str, allowed: Collection[str] | None = None) -> list[str]:
    """A note for who chooses: what the first hit is not for, or what it needs; none where none fits.

    Where several fit about equally, of up to three of them. What speaks most of the query comes first, since a note may
    be cut further. `allowed`: under an incident, the names of workflows that may be quoted. No other is, since a model
    would take it for advice.
    """
    alike = _alike(page)
    if not alike:
        return []
    head = "before a run, check "
    if len(alike) > 1:
        head = f"the first {len(alike)} fit about equally; to choose, check "
    named = alike[:_NAMED]
    room = (_MAX_NOTE - len(head)) // len(named) - len("; ")
    checks, label = [], ""
    for hit, workflow in named:
        field, text = _written(workflow)
        if allowed is not None:
            text = _NAME.sub(lambda found: found[0] if found[0] in allowed else _NOT_ALLOWED, text)
        before = f"{field} of " if field != label else ""
        if check := _check(before + hit.workflow_id, text, room=room, query=query):
            checks.append(check)
            label = field
    return [head + "; ".join(checks)] if checks else []


def _alike(page: Page) -> Page:
    """The first hits, which fit about equally; none where none fits."""
    if not page or page[0][0].confidence < WEAK_CONFIDENCE:
        return []
    best = log_odds_of(page[0][0].confidence)
    return [*takewhile(lambda each: best - log_odds_of(each[0].confidence) <= ALIKE, page)]


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
