"""Misspelt words of operating Kubernetes, put right."""

from collections.abc import Iterator, Mapping
from functools import cache

from formulary_catalog.domain.search.synonyms import folded, synonyms
from formulary_catalog.domain.text import split_camel_case, words

_MIN_LENGTH = 5
_TWO_MISTAKES_FROM = 9
"""Words this long are still recognised with two mistakes in them."""


def corrected(word: str) -> str | None:
    """The word of the vocabulary that was meant by a lower-case word; None for one that is known, or like no other.

    A mistake is a letter too many, one missing, one wrong, or two that changed places.
    """
    # What is longer is like no word of the vocabulary, and has forms without number.
    if not _MIN_LENGTH <= len(word) <= _longest() or not word.isalpha() or folded(word) in _known():
        return None
    likely = {candidate for form in _mutilated(word) for candidate in _index().get(form, ())}
    near = [(mistakes, candidate) for candidate in likely if (mistakes := distance(word, candidate)) <= _allowed(word)]
    return min(near)[1] if near else None


def distance(one: str, other: str) -> int:
    """How many mistakes lie between two words (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(other, start=1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            swapped = i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted
            row.append(min(best, last[j - 2] + 1) if swapped else best)
    return row[-1]


def _allowed(word: str) -> int:
    return 2 if len(word) >= _TWO_MISTAKES_FROM else 1


@cache
def _longest() -> int:
    """How many letters a word may have that is meant to be one of the vocabulary."""
    return max(len(word) + _allowed(word) for word in synonyms().vocabulary)


@cache
def _index() -> Mapping[str, tuple[str, ...]]:
    """The words of the vocabulary by what is left of them when as many letters are lost as mistakes are allowed."""
    index: dict[str, tuple[str, ...]] = {}
    for word in synonyms().vocabulary:
        for form in _mutilated(word):
            index[form] = (*index.get(form, ()), word)
    return index


def _mutilated(word: str) -> Iterator[str]:
    """The word itself, and without one letter, or two."""
    forms = {word}
    for _ in range(_allowed(word)):
        forms |= {form[:at] + form[at + 1 :] for form in forms for at in range(len(form))}
    return iter(forms)


@cache
def _known() -> frozenset[str]:
    """Every word of the data, folded: none of them is a mistake for another."""
    data = synonyms()
    texts = [*data.vocabulary, *(text for each in data.concepts for text in (each.concept, *each.said, *each.words))]
    return frozenset(folded(part) for text in texts for word in words(text) for part in (word, *split_camel_case(word)))
