"""How rare a word is in texts about operating Kubernetes: how much it says that a workflow holds it."""

import math
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources

import yaml

from formulary_catalog.domain.search.synonyms import folded
from formulary_catalog.domain.text import words


@lru_cache(maxsize=16_384)
def rarity(term: str) -> float:
    """The inverse document frequency of a term, that of its rarest word where it has several."""
    return max((_of_word(folded(word)) for word in words(term)), default=0.0)


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
