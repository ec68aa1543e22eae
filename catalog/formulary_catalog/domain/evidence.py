"""What a search knows about an allowed workflow before it is ranked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from sys import intern


class Place(IntEnum):
    """Where in a workflow a term of the query occurs, all words of it; of several places the most telling one."""

    NONE = 0
    SIGNAL = 1
    """A signal type that it declares."""
    WHAT = 2
    WHEN_TO_USE = 3
    NAME = 4
    """Its name, title, keywords or action type."""


_BY_FIELDS = tuple(Place(fields.bit_length()) for fields in range(1 << max(Place)))
"""The most telling place of what stands in a set of fields, which has a bit for each place that is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedText:
    """What the lexical index holds of one workflow: a set of fields for each lexeme, as bits."""

    namespace: str
    name: str
    fields: Mapping[str, int] = field(repr=False)


def places(texts: Sequence[IndexedText], *, terms: Iterable[Sequence[str]]) -> list[tuple[Place, ...]]:
    """Where each term stands in each of the texts, all its lexemes in one field; nowhere if it has none."""
    return list(zip(*(_places_of(lexemes, texts=texts) for lexemes in terms), strict=True)) or [()] * len(texts)


def _places_of(lexemes: Sequence[str], *, texts: Sequence[IndexedText]) -> list[Place]:
    if not lexemes:
        return [Place.NONE] * len(texts)
    fields = [text.fields.get(lexemes[0], 0) for text in texts]
    for lexeme in lexemes[1:]:
        fields = [common & text.fields.get(lexeme, 0) for common, text in zip(fields, texts, strict=True)]
    return [_BY_FIELDS[common] for common in fields]


def indexed_text(*, namespace: str, name: str, lexemes: Mapping[Place, Iterable[str]]) -> IndexedText:
    """From the lexemes of each field."""
    fields: dict[str, int] = {}
    for place, found in lexemes.items():
        for lexeme in found:
            lexeme = intern(lexeme)  # texts share most of their words, and many are remembered
            fields[lexeme] = fields.get(lexeme, 0) | 1 << (place - 1)
    return IndexedText(namespace=namespace, name=name, fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One allowed workflow and how it meets the query.

    `generic_labels` are those on which it says nothing, `confirmed_labels` the detected ones that it requires and that
    the incident has. `cosine` is None where no vector of the serving model is stored. `places` has one entry for each
    term of the query, in the order of the terms.
    """

    version_id: str
    namespace: str
    name: str
    generic_labels: int
    confirmed_labels: int
    cosine: float | None
    places: tuple[Place, ...]
