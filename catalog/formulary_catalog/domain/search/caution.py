"""A warning where the author of a workflow says that it is not for what the query describes.

`search.pipeline` asks for the workflows of a page. A model does not understand the negation in `whenNotToUse`; that the
words of the query are in one of its clauses, and fewer in the texts that speak for the workflow, can be counted. That
misses most of what authors warn of (`docs/search.md`), so `checks` quotes the clauses for who reads the answer.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from formulary_catalog.domain.search.confidence import CONFIDENCE_DIGITS
from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.synonyms import folded, stems
from formulary_catalog.domain.search.terms import Term
from formulary_catalog.domain.text import sentences, words
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

CAUTION_WEIGHT = 2.0
"""What a caution takes from the confidence, in log odds: of the first answers to judged queries that carry one, hardly
any is right (`docs/search.md`)."""
_LEAST_SHARE, _LEAST_WORDS = 0.3, 2
"""The share of what is significant in the query that a clause of `whenNotToUse` has to hold, by rarity, and in how many
words."""
_MOST_SHOWN = 6
_NAME = re.compile(r"(?<![a-z0-9])[a-z0-9]+(?:-[a-z0-9]+){2,}")
"""What workflows are called: other ones that the author refers to."""
_NEGATED = re.compile(r"\b(?:no|not|without|never)\s+[\w.-]+", re.IGNORECASE)
"""What a text says is not so: "its log has no OutOfMemoryError", "not healthy"."""
_DENIED = re.compile(
    r"\b(?:no|not|nor|without|never|nobody|nothing|none|\w+n['\u2019]t)(?:\s+[\w.'-]*\w){1,3}", re.IGNORECASE
)
"""What a query says is not so, as far as its next three words: "nobody excluded them on purpose"."""
_EXCLUDING = re.compile(r"\b(?:not|nor|never)\s+(?:if|when|where|while|for|to|once|after|in|on)\b", re.IGNORECASE)
"""How a clause begins that says when not to use a workflow: this denies nothing of the situation."""
_LEAST_CONFIDENCE = 10.0**-CONFIDENCE_DIGITS


class Clause(NamedTuple):
    """The stems of a sentence of `whenNotToUse`. `denied`: of what is not so in that situation."""

    stems: frozenset[str]
    denied: frozenset[str] = frozenset()


class Indications(NamedTuple):
    """The stems of what a workflow's author says that it is for, and that it is not for.

    `denied`: what is not so where it helps. It speaks for the workflow where the query denies it as well.
    """

    against: tuple[Clause, ...]
    in_favour: frozenset[str]
    denied: frozenset[str] = frozenset()


def indications(workflow: RemediationWorkflow) -> Indications:
    """What the texts of a workflow say; names of other workflows do not count, nor what is not so."""
    description = workflow.spec.description
    in_favour = f"{workflow.metadata.name} {description.when_to_use} {description.what}"
    return Indications(
        against=tuple(map(_clause, sentences(_NAME.sub(" ", description.when_not_to_use)))),
        in_favour=stems(_NEGATED.sub(" ", in_favour)),
        denied=_denied(in_favour),
    )


def caution(indicated: Indications, *, query: str, wanted: Wanted, terms: Sequence[Term]) -> str:
    """What a clause of `whenNotToUse` says of the query: its significant words, if texts for the workflow hold less.

    Words count as they are in the query, not their synonyms or pieces.
    """
    if not indicated.against:
        return ""
    written = {word.casefold(): word for word in words(query)}
    significant = {
        written[term]: part.rarity for part in wanted.significant if (term := terms[part.terms[0]].word) in written
    }
    denied = stems(" ".join(_DENIED.findall(query)))
    by_clause = [_held(significant, clause, denied=denied) for clause in indicated.against]
    held = max(by_clause, key=lambda each: sum(each.values()))
    found = sum(held.values())
    if len(held) < _LEAST_WORDS or found < _LEAST_SHARE * sum(significant.values()):
        return ""
    in_favour = indicated.in_favour | (indicated.denied & _denied(query))
    if found <= sum(rarity for word, rarity in significant.items() if folded(word) in in_favour):
        return ""
    return f"its when_not_to_use speaks of: {' '.join([*held][:_MOST_SHOWN])}"


def cautioned(confidence: float) -> float:
    """The confidence of a workflow that carries a caution, 0..1."""
    likely = min(max(confidence, _LEAST_CONFIDENCE), 1 - _LEAST_CONFIDENCE)
    log_odds = math.log(likely / (1 - likely)) - CAUTION_WEIGHT
    return round(1 / (1 + math.exp(-log_odds)), CONFIDENCE_DIGITS)


def _clause(sentence: str) -> Clause:
    said = _EXCLUDING.sub(" ", sentence)
    return Clause(stems=stems(said), denied=stems(" ".join(_DENIED.findall(said))))


def _held(significant: Mapping[str, float], clause: Clause, *, denied: frozenset[str]) -> dict[str, float]:
    """What a clause holds of the words of a query, where both say that it is so, or both that it is not."""
    return {
        word: rarity
        for word, rarity in significant.items()
        if (stem := folded(word)) in clause.stems and (stem in denied) == (stem in clause.denied)
    }


def _denied(text: str) -> frozenset[str]:
    return stems(" ".join(_NEGATED.findall(text)))
