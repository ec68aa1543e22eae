"""What is known of an allowed workflow before it is ranked, and where the words of a query occur in it.

`store/search/statement` fills it from the database, `domain/search/fit` adds it up. It holds numbers and positions,
no texts: a large catalog has many candidates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

import numpy as np

from formulary_catalog.domain.text import WordPlace

_BY_FIELDS = tuple(int(WordPlace(fields.bit_length())) for fields in range(1 << max(WordPlace)))
"""The most significant place of what is in a set of fields, which has a bit for each place that is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedText:
    """What the lexical index holds of one workflow: a set of fields for each lexeme, as bits."""

    namespace: str
    name: str
    fields: Mapping[str, int] = field(repr=False)


def places(texts: Sequence[IndexedText], *, terms: Sequence[Sequence[str]]) -> list[bytes]:
    """Where each term is in each of the texts, all its lexemes in one field; nowhere if it has none."""
    by_term = b"".join(bytes(_places_of(lexemes, texts=texts)) for lexemes in terms)
    by_text = np.frombuffer(by_term, np.uint8).reshape(len(terms), len(texts)).T
    return [row.tobytes() for row in by_text] if terms else [b""] * len(texts)


def _places_of(lexemes: Sequence[str], *, texts: Sequence[IndexedText]) -> list[int]:
    if not lexemes:
        return [WordPlace.NONE] * len(texts)
    fields = [text.fields.get(lexemes[0], 0) for text in texts]
    for lexeme in lexemes[1:]:
        fields = [common & text.fields.get(lexeme, 0) for common, text in zip(fields, texts, strict=True)]
    return [_BY_FIELDS[common] for common in fields]


def indexed_text(*, namespace: str, name: str, lexemes: Mapping[WordPlace, Iterable[str]]) -> IndexedText:
    """From the lexemes of each field."""
    fields: dict[str, int] = {}
    for place, found in lexemes.items():
        for lexeme in found:
            lexeme = intern(lexeme)  # texts share most of their words, and many are remembered
            fields[lexeme] = fields.get(lexeme, 0) | 1 << (place - 1)
    return IndexedText(namespace=namespace, name=name, fields=fields)


class CandidateEvidence(NamedTuple):
    """What speaks for one allowed workflow.

    `labels`: what its declared labels count, in log odds (`label_weights`). `severity`: the same of its severities for
    the one that the query mentions. `cosine`: of query and workflow; None where no vector of the serving model is
    stored. `places`: a `WordPlace` for each term of the query, in the order of the terms.
    """

    version_id: str
    namespace: str
    name: str
    labels: float
    severity: float
    cosine: float | None
    places: bytes
