"""The problem that a pasted text reports, and which of several names says most about its cause.

`alerts` and `objects` find names, `reading` chooses by `rank` and puts the words together.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from formulary_catalog.domain.text import cut_at_word, split_camel_case
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, fold

_MAX_WORDS, _MAX_PART, _MAX_HEAD = 600, 300, 100
_NAMELESS = 9
_OTHER_NAMES = {"errimagepull": "ImagePullBackOff", "unschedulable": "FailedScheduling"}
_CONSEQUENCES = {
    name: place
    for place, names in (
        (2, "crashloopbackoff podcrashlooping"),
        (3, "podpending podnotready podnothealthy unhealthy"),
        (4, "backoff failed killing progressdeadlineexceeded containerwaiting deploymentreplicasmismatch"),
        (4, "deploymentrolloutstuck replicasetmismatch replicasetreplicasmismatch statefulsetreplicasmismatch"),
    )
    for name in names.split()
}
"""Names that follow from another problem, alerts without `Kube`: the higher, the less they say of its cause."""
_NOISE = re.compile(
    r"""
      https?://[^\s"']+
    | \b\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]{5}|[ ]UTC)?
    | \b[A-Z][a-z]{2},[ ]\d\d[ ][A-Z][a-z]{2}[ ]\d{4}[ ][\d:]+[ ][+-]\d{4}
    | \b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?
    | [ ]in[ ]pod[ ]\S+ | ["'][\w.-]+[/:][\w./:@-]+["']
    | \bVALUE[ ]=[ ]\S+ | \bLABELS[ ]=[ ]map\[[^\]\n]*\]?
    """,
    re.VERBOSE,
)
"""Addresses, times, images and hashes: they say where, not what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem. `name`: its alert or reason, empty if there is only a message; `severity` of the same alert, folded;
    `words`: what else reports it."""

    name: str = ""
    severity: str = ""
    words: str = ""

    @property
    def text(self) -> str:
        """What is searched for."""
        return " ".join(filter(None, (self.name, self.severity, self.words)))


@dataclass(frozen=True, slots=True)
class Finding:
    """What a line reports of an object."""

    name: str
    said: str
    rank: int


def finding(name: str, said: str = "", *, is_cause: bool = False) -> Finding:
    """A finding by its canonical name."""
    name = canonical(name) or name
    return Finding(name, said, 1 if is_cause else rank(name))


def canonical(name: str) -> str:
    """The canonical signal that a reason means; empty if none."""
    return CANONICAL_BY_FOLD.get(fold(name)) or _OTHER_NAMES.get(fold(name), "")


def is_compound(word: str) -> bool:
    """Whether a word looks like the name of an alert or a reason."""
    return canonical(word) != "" or (word.isalnum() and len(split_camel_case(word)) > 1)


def rank(name: str) -> int:
    """The place of a name among those of one problem: canonical causes, others, what follows from them."""
    folded = fold(name).removeprefix("kubernetes").removeprefix("kube")
    return _CONSEQUENCES.get(folded, int(fold(name) not in CANONICAL_BY_FOLD)) if name else _NAMELESS


def is_consequence(name: str) -> bool:
    """Whether a name says no more than that something else is wrong: pods crash, wait or are missing."""
    return name != "" and rank(name) > 1


def joined(parts: Iterable[str]) -> str:
    """Parts that differ in more than numbers, without addresses and times, up to a length that is still read."""
    distinct: dict[str, str] = {}
    for part in parts:
        clean = _shortened(" ".join(_NOISE.sub(" ", part).split()))
        distinct.setdefault(re.sub(r"[\W\d]+", " ", clean).strip(), clean)
    distinct.pop("", None)
    return cut_at_word(" ".join(distinct.values()), limit=_MAX_WORDS)


def _shortened(part: str) -> str:
    """The beginning and the end of a part that is too long: a chain of errors ends with the cause."""
    if len(part) <= _MAX_PART:
        return part
    return f"{cut_at_word(part, limit=_MAX_HEAD)} {part[_MAX_HEAD - _MAX_PART :].partition(' ')[2]}"
