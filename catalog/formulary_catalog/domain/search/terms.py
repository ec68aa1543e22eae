"""The terms of a query: its words, corrections of misspelt ones, and synonyms.

`search/planning` makes them; `store/search/lexemes` looks up where each occurs, and `domain/search/fit` weighs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from formulary_catalog.domain.search.spelling import corrected
from formulary_catalog.domain.search.synonyms import folded, mentions
from formulary_catalog.domain.text import searchable_words

MAX_TERMS = 128


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
