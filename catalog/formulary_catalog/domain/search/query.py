"""Takes a query apart: `<signal_type> <severity> [keywords]`, or natural language (DESIGN section 5).

`kernel/search/planning` calls it. What the query mentions is evidence for ranking and excludes nothing, because a model
that guesses a severity must not hide the right workflow.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from formulary_catalog.domain.pasted.problems import is_consequence
from formulary_catalog.domain.pasted.reading import read_pasted
from formulary_catalog.domain.search.synonyms import folded, with_names
from formulary_catalog.domain.search.terms import NEVER_SEEN, RARE, rarity
from formulary_catalog.domain.text import split_camel_case, with_split_words, words
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, SEVERITIES, WILDCARD, fold

_NEVER_ADJECTIVES = frozenset({"critical", "warning", "info"})
"""Severities that say nothing else after the name of an alert; "low" may: "PostgreSQL low on disk"."""
_MAX_PROBLEMS = 4
_SAYS_WHERE = re.compile(r"[\d/()-]|^[\w.]+@")
"""Names of objects: they have digits, hyphens or slashes, or stand in brackets."""
_EMPTY = frozenset(
    "pod pods container deployment namespace cluster is in on of for has been the a waiting state reason longer than "
    "minutes non ready restarting restart times high low warning critical kube crash loop looping back off "
    "since this morning today yesterday night now still again team service app payments checkout orders shop".split()
)
"""Words of alerts, statuses and people that say nothing of a cause, and usual names of services."""
_OF_A_CAUSE = 1.5 * RARE
"""A query that says less names a symptom that many causes share, such as one name and no more, or two usual words."""
_DENIES = frozenset(("no", "not", "without", "never"))
_OPENING, _CLOSING = "([{<\"'`", ":,;.!?)]}>\"'`"
"""What may stand around a word in a sentence."""


class QuerySigns(NamedTuple):
    """What a query tells, for the confidence of what answers it.

    `printed`: it is of a program, which says more than what is wrong. `symptom`: that program reports a signal that
    several causes have in common. `no_cause`: it names a symptom alone.
    """

    printed: bool = False
    symptom: bool = False
    no_cause: bool = False


NO_SIGNS = QuerySigns()


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query taken apart.

    `signal` is the first word, which may name a signal type: it does if it is canonical or if an allowed workflow
    declares it. `severity` is the second word if it is one, folded. Both are empty where there is none. `text` is what
    ranks. `cause` is a canonical signal that the query names beside one that only follows from others. `problem`: the
    name of what a pasted query reports, if it has one; `pasted`: whether a program printed it.
    """

    signal: str
    severity: str
    text: str
    cause: str = ""
    problem: str = ""
    pasted: bool = False

    @property
    def ranking_signal(self) -> str:
        """The signal type, folded, that speaks for a workflow which declares it."""
        return fold(self.cause or self.signal)

    @property
    def alert(self) -> str:
        """The name, folded, in front of a cause: a signal type only if an allowed workflow declares it, too."""
        named = fold(self.signal)
        return named if self.cause and named not in CANONICAL_BY_FOLD else ""

    @property
    def signs(self) -> QuerySigns:
        """How much it tells, whatever the catalog holds."""
        return QuerySigns(
            printed=self.pasted,
            symptom=self.pasted and (fold(self.signal) in CANONICAL_BY_FOLD or is_consequence(self.signal)),
            no_cause=cause_rarity(self.text) < _OF_A_CAUSE,
        )

    def inferred(self, *, signal_declared: bool) -> dict[str, str]:
        """What the query mentions, by dimension; `signal_declared`: an allowed workflow declares the first word."""
        if not signal_declared and fold(self.signal) not in CANONICAL_BY_FOLD:
            return {}
        read = {"signal_type": self.signal, "severity": self.severity}
        return {dimension: visible(value) for dimension, value in read.items() if value}


def cause_rarity(text: str) -> float:
    """How rare the words of a query are together that may tell a cause, in texts about operating Kubernetes.

    A compound name counts by its pieces: `HighErrorRate` says no more than "high error rate". What only follows from
    other problems counts nothing, nor do names of objects and words that no such text holds: names of services, mostly.
    """
    written = [word for part in text.split() if not _SAYS_WHERE.search(part) for word in words(part)]
    without = {folded(piece) for word in written if is_consequence(word) for piece in split_camel_case(word)}
    pieces = [piece for word in written for piece in split_camel_case(word) if piece.casefold() not in _EMPTY]
    counted = {folded(piece): rarity(piece) for piece in pieces}
    return sum(min(rare, RARE) for stem, rare in counted.items() if stem not in without and rare < NEVER_SEEN)


def parse_query(query: str) -> ParsedQuery:
    """Take a query apart, also one that was pasted: of several problems the first.

    A severity in second place is left out of the text after a canonical signal type: it harms the embedding. After the
    compound name of an alert, only those are that cannot be adjectives.
    """
    return parse_problems(query)[0]


def parse_problems(query: str) -> tuple[ParsedQuery, ...]:
    """Take each problem of a query apart, the first ones of a long notification. At least one."""
    read = read_pasted(query)
    severe = sorted(
        read.problems, key=lambda each: SEVERITIES.index(each.severity) if each.severity else len(SEVERITIES)
    )
    return tuple(
        replace(_parsed(each.text), problem=visible(each.name), pasted=read.machine)
        for each in read.problems
        if each in severe[:_MAX_PROBLEMS]
    )


def _parsed(text: str) -> ParsedQuery:
    parts = text.split()
    signal = _signal(parts)
    second = fold(_bare(parts[1])) if signal and len(parts) > 1 else ""
    severity = second if second in SEVERITIES else ""
    compound = len(split_camel_case(with_names(signal))) > 1
    left_out = severity and (fold(signal) in CANONICAL_BY_FOLD or (compound and severity in _NEVER_ADJECTIVES))
    text = _readable(parts[:1] + parts[2:] if left_out else parts)
    cause = _cause(parts) if is_consequence(signal) else ""
    return ParsedQuery(signal=signal, severity=severity, text=text, cause=cause)


def as_declared(inferred: Mapping[str, str], *, declared: Iterable[str]) -> Mapping[str, str]:
    """What was inferred, its signal as the first of those declared that means it spells it.

    Canonical signals have one spelling.
    """
    signal = fold(inferred.get("signal_type", ""))
    if not signal or signal in CANONICAL_BY_FOLD:
        return inferred
    spelled = next((each for each in declared if fold(each) == signal), None)
    return inferred if spelled is None else {**inferred, "signal_type": visible(spelled)}


def _cause(parts: Sequence[str]) -> str:
    """The first canonical signal behind the first word that is no consequence itself, and is not denied."""
    for place, word in enumerate(parts[1:], start=1):
        name = CANONICAL_BY_FOLD.get(fold(_bare(word)), "")
        denied = not _DENIES.isdisjoint(each.casefold() for each in parts[max(place - 2, 0) : place])
        if name and not is_consequence(name) and not denied:
            return name
    return ""


def _signal(parts: Sequence[str]) -> str:
    """The word that may name a signal type; empty where none can, as for the bullet of a pasted list."""
    word = _bare(parts[0]) if parts else ""
    return "" if word == WILDCARD else CANONICAL_BY_FOLD.get(fold(word), word)


def _bare(word: str) -> str:
    return word.lstrip(_OPENING).rstrip(_CLOSING)


def _readable(parts: Sequence[str]) -> str:
    return with_split_words(with_names(" ".join(parts)))
