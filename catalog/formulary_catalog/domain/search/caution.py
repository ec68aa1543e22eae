"""A warning where the author of a workflow says that it is not for what the query describes.

`kernel.search.pipeline` asks for the workflows of a page. A model does not understand the negation in `whenNotToUse`.
That words of the query are in one of its clauses, and fewer in the texts that speak for the workflow, can be counted,
and a clause that the query repeats can be seen. Most of what authors warn of is missed (`docs/search.md`), so `checks`
quotes them for who reads the answer.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from formulary_catalog.domain.search.confidence import CONFIDENCE_DIGITS, log_odds_of
from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.synonyms import folded, stems
from formulary_catalog.domain.search.terms import Term
from formulary_catalog.domain.text import sentences, words
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

CAUTION_WEIGHT = 2.0
"""What a caution takes from the confidence, in log odds: of the first answers to judged queries that carry one, hardly
any is right (`docs/search.md`)."""
_LEAST_SHARE, _LEAST_WORDS, _LEAST_OF_MANY = 0.3, 2, 3
"""The share of what is significant in the query that a clause of `whenNotToUse` has to hold, by rarity, and in how many
words, of a query that has more than six."""
_MANY = 6
_PHRASE, _TELLING = 4, 2
"""So many words in a row, articles aside, are a clause that the query says, if so many of them are telling."""
_ARTICLES = frozenset(("a", "an", "the"))
_FUNCTION_WORDS = frozenset(
    """
    about after all and any are as at be been before but by can could did do does each every for from had has
    have he her his how i if in into is it its just may might more must my no none nor not of off on one only
    or our out over own she should so some still than that their them then there these they this those to too
    under up was we were what when where which while who why will with without would yet you your
    """.split()
)
"""Words that tell nothing of what is wrong: a row of these is in any text."""
_MOST_SHOWN = 6
_NAME = re.compile(r"(?<![a-z0-9])[a-z0-9]+(?:-[a-z0-9]+){2,}")
"""What workflows are called: other ones that the author refers to."""
_NEGATED = re.compile(r"\b(?:no|not|without|never)\s+[\w.-]+", re.IGNORECASE)
"""What a text says is not so: "its log has no OutOfMemoryError", "not healthy"."""


class Indications(NamedTuple):
    """The stems of what a workflow's author says that it is for, and that it is not for.

    `against`: of each clause of `whenNotToUse`. `phrases`: its words in a row that are in no text for the workflow.
    `denied`: what is not so where it helps. It speaks for the workflow where the query denies it as well.
    """

    against: tuple[frozenset[str], ...]
    in_favour: frozenset[str]
    denied: frozenset[str] = frozenset()
    phrases: frozenset[tuple[str, ...]] = frozenset()


def indications(workflow: RemediationWorkflow) -> Indications:
    """What the texts of a workflow say; names of other workflows do not count, nor what is not so."""
    description = workflow.spec.description
    in_favour = f"{workflow.metadata.name} {description.when_to_use} {description.what}"
    clauses = sentences(_NAME.sub(" ", description.when_not_to_use))
    return Indications(
        against=tuple(map(stems, clauses)),
        in_favour=stems(_NEGATED.sub(" ", in_favour)),
        denied=_denied(in_favour),
        phrases=frozenset(phrase for clause in clauses for phrase in _phrases(clause)) - _phrases(in_favour).keys(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """What a query says, as cautions compare it. The same for all workflows, so it is made once.

    `significant`: how rare its telling words are; `stem_of` has their stems. `denied`: the stems of what it says is not
    so. `phrases`: its words in a row, by their stems.
    """

    significant: Mapping[str, float]
    stem_of: Mapping[str, str]
    denied: frozenset[str]
    phrases: Mapping[tuple[str, ...], tuple[str, ...]]

    @classmethod
    def of(cls, query: str, *, wanted: Wanted, terms: Sequence[Term]) -> "QueryWords":
        """Words count as they are in the query, not their synonyms or pieces."""
        written = {word.casefold(): word for word in words(query)}
        significant = {
            written[term]: part.rarity for part in wanted.significant if (term := terms[part.terms[0]].word) in written
        }
        return cls(
            significant=significant,
            stem_of={word: folded(word) for word in significant},
            denied=_denied(query),
            phrases=_phrases(query),
        )


def caution(indicated: Indications, query: QueryWords) -> str:
    """What a clause of `whenNotToUse` says of the query: its significant words, or words in a row, if the texts for the
    workflow hold less of them."""
    spoken_of = _held(indicated, query) or _repeated(indicated, query)
    return f"its when_not_to_use speaks of: {' '.join(spoken_of)}" if spoken_of else ""


def _held(indicated: Indications, query: QueryWords) -> Sequence[str]:
    """The significant words of the query that a clause has."""
    significant, stem_of = query.significant, query.stem_of
    least = _LEAST_OF_MANY if len(significant) > _MANY else _LEAST_WORDS
    by_clause = [[word for word, stem in stem_of.items() if stem in clause] for clause in indicated.against]
    found, held = max(
        ((sum(significant[word] for word in held), held) for held in by_clause if len(held) >= least),
        default=(0.0, []),
    )
    if not held or found < _LEAST_SHARE * sum(significant.values()):
        return ()
    in_favour = indicated.in_favour | (indicated.denied & query.denied)
    if found <= sum(rarity for word, rarity in significant.items() if stem_of[word] in in_favour):
        return ()
    return held[:_MOST_SHOWN]


def _repeated(indicated: Indications, query: QueryWords) -> Sequence[str]:
    """Words in a row that the query repeats of a clause."""
    if indicated.phrases.isdisjoint(query.phrases):
        return ()
    return next(said for phrase, said in query.phrases.items() if phrase in indicated.phrases)


def cautioned(confidence: float) -> float:
    """The confidence of a workflow that carries a caution, 0..1."""
    return round(1 / (1 + math.exp(CAUTION_WEIGHT - log_odds_of(confidence))), CONFIDENCE_DIGITS)


def _denied(text: str) -> frozenset[str]:
    return stems(" ".join(_NEGATED.findall(text)))


def _phrases(text: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The words in a row of a text that tell anything, by their stems."""
    said = [word for word in words(text) if word.casefold() not in _ARTICLES]
    rows = [tuple(said[at : at + _PHRASE]) for at in range(len(said) - _PHRASE + 1)]
    telling = (row for row in rows if sum(word.casefold() not in _FUNCTION_WORDS for word in row) >= _TELLING)
    return {tuple(map(folded, row)): row for row in telling}
