"""The words of operating Kubernetes: what means the same, and how it is spelt. `synonyms.yaml` holds the data."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints

from formulary_catalog.domain.text import split_camel_case, words

_WORD = re.compile(r"\w+")
_ENDINGS = re.compile(r"(?:ing|ed|es|(?<!s)s|e)$")
_MIN_STEM = 3
_Phrase = tuple[str, ...]
_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class Concept(BaseModel):
    """One thing that is said in many ways."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    concept: _Text
    said: tuple[_Text, ...]
    words: tuple[_Text, ...]


class Synonyms(BaseModel):
    """The data of `synonyms.yaml`, where the fields are explained."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocabulary: tuple[_Text, ...]
    concepts: tuple[Concept, ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """A concept, and the folded words that speak of it."""

    concept: Concept
    phrase: str


@cache
def synonyms() -> Synonyms:
    """The data that ships with the package."""
    source = resources.files(__package__).joinpath("synonyms.yaml").read_text(encoding="utf-8")
    return Synonyms.model_validate(yaml.load(source, Loader=yaml.CSafeLoader))


def mentions(text: str) -> list[Mention]:
    """The concepts that a text speaks of, in the order of the data."""
    index = _index()
    found: dict[int, _Phrase] = {}
    for reading in _readings(text):
        for start, first in enumerate(reading):
            for phrase, number in index.get(first, ()):
                if reading[start : start + len(phrase)] == phrase:
                    found.setdefault(number, phrase)
    return [Mention(concept=synonyms().concepts[number], phrase=" ".join(found[number])) for number in sorted(found)]


@lru_cache(maxsize=8192)
def folded(word: str) -> str:
    """A rough stem, the same for the forms of a word that differ in their ending."""
    lower = word.casefold()
    stem = _ENDINGS.sub("", lower)
    if len(stem) < _MIN_STEM:
        return lower
    return stem[:-1] if stem != lower and stem[-1] == stem[-2] else stem


def stems(text: str) -> frozenset[str]:
    """The rough stems of all words of a text, and of the parts of compound ones."""
    return frozenset(folded(part) for word in words(text) for part in (word, *split_camel_case(word)))


def with_names(text: str) -> str:
    """The text with the names of the data as they are written, such as `OOMKilled` for `oomkilled` and `OOM_KILLED`, so
    that they can be taken apart."""
    return _WORD.sub(lambda found: _names().get(_in_one(found[0]), found[0]), text)


@cache
def _names() -> Mapping[str, str]:
    """The compound words of the data, by what they are in one; not those that the vocabulary has as one word."""
    data = synonyms()
    texts = (text for each in data.concepts for text in (each.concept, *each.said, *each.words))
    names = {_in_one(word): word for text in texts for word in words(text) if len(split_camel_case(word)) > 1}
    return {in_one: name for in_one, name in names.items() if in_one not in data.vocabulary}


def _in_one(word: str) -> str:
    return word.casefold().replace("_", "")


@cache
def _index() -> Mapping[str, tuple[tuple[_Phrase, int], ...]]:
    """What may begin with a word: phrases, and the number of the concept that each belongs to."""
    index: dict[str, tuple[tuple[_Phrase, int], ...]] = {}
    for number, concept in enumerate(synonyms().concepts):
        for form in (concept.concept, *concept.said):
            for phrase in dict.fromkeys(_readings(form)):
                index[phrase[0]] = (*index.get(phrase[0], ()), (phrase, number))
    return index


def _readings(text: str) -> Iterator[_Phrase]:
    """The folded words of a text, as written and with compound words taken apart."""
    written = words(text)
    yield tuple(map(folded, written))
    yield tuple(folded(part) for word in written for part in split_camel_case(word))
