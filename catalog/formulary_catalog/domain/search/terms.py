"""The terms of a query: its words, corrections of misspelt ones, and synonyms; and how rare each is.

`kernel/search/planning` makes them; `store/search/lexemes` looks up where each occurs, and `domain/search/fit` weighs
it. The rarer a word is in texts about operating Kubernetes, the more it says that a workflow holds it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import yaml

from formulary_catalog.domain.search.spelling import corrected
from formulary_catalog.domain.search.synonyms import folded, mentions
from formulary_catalog.domain.text import searchable_words, words

MAX_TERMS = 128
RARE = 5.0
"""So rare are words that at most two of the counted texts hold."""
USUAL_RARITY = 4.0
"""How rare two usual words are together. The share is taken of so much more than the query has: to hold the one word of
a short query is little evidence."""
_VAGUE = frozenset(
    "broken broke problem problems problematic issue issues trouble troubles wrong wrongly weird weirdly strange "
    "strangely odd oddly crazy funny misbehaves misbehaving something anything somehow suddenly apparently help please "
    "urgent urgently asap happens happening happened".split()
)
"""Words that say no more than that something is wrong. People say them of everything; texts about operating Kubernetes
seldom do, so they would count as rare, and as telling."""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for: a word, or several that must all be there.

    `origin` is equal for terms of the same part of the query: of those, only the best found counts.
    """

    word: str
    origin: str


@lru_cache(maxsize=512)
def query_terms(text: str) -> tuple[Term, ...]:
    """The terms of a query, its own words first, at most `MAX_TERMS`; compound words are followed by their parts."""
    return _distinct(text)


def _distinct(text: str) -> tuple[Term, ...]:
    terms: dict[str, Term] = {}
    for term in _terms(text):
        terms.setdefault(term.word, term)
    return tuple(terms.values())[:MAX_TERMS]


def _terms(text: str) -> Iterator[Term]:
    own = searchable_words(text, limit=MAX_TERMS)
    meant = {word: right for word in own if (right := corrected(word)) is not None}
    for word in own:
        yield Term(word=word, origin=folded(word))
    for word, right in meant.items():
        yield Term(word=right, origin=folded(word))
    for mention in mentions(" ".join([text, *meant.values()])):
        for word in mention.concept.words:
            yield Term(word=word.casefold(), origin=mention.phrase)


def rare_words(terms: Iterable[Term]) -> list[str]:
    """Those of the terms that texts about operating Kubernetes hardly hold, such as codes and names of products."""
    return [term.word for term in terms if rarity(term.word) > RARE]


@lru_cache(maxsize=16_384)
def rarity(term: str) -> float:
    """The inverse document frequency of a term, that of its rarest word where it has several; 0 for a vague word."""
    return max((_of_word(folded(word)) for word in words(term) if word.casefold() not in _VAGUE), default=0.0)


def _of_word(stem: str) -> float:
    texts, frequencies = _counted()
    holding = frequencies.get(stem, 0)
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


@cache
def _counted() -> tuple[int, Mapping[str, int]]:
    """The number of texts that were counted, and how many of them hold each word, by its stem."""
    source = resources.files(__package__).joinpath("word_frequencies.yaml").read_text(encoding="utf-8")
    data = yaml.load(source, Loader=yaml.CSafeLoader)
    return data["texts"], {stem: int(count) for count, stems in data["held_by"].items() for stem in stems.split()}


NEVER_SEEN = _of_word("")
"""How rare a word is that none of these texts holds, or one alone."""
