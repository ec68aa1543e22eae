"""What somebody may have meant by a name or a value that nothing has: the nearest that they may see.

`kernel.lookup` and `services.workflows.relations` call it for workflows and values that are not known. It looks only
among workflows that the caller sees and the incident allows: a suggestion must reveal no other.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable

from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.identity import workflow_id
from formulary_catalog.domain.workflows.labels import Constraints, fold
from formulary_catalog.store.workflows.names import Declared, NameReader

MOST = 5
_LOOKED_AT = 200
_ALIKE = 0.5
"""The share of letters that two names have in common from which one may be meant by the other."""
_MAX_COMPARED = 100
_ALIKE_VALUES = 0.7
"""The same for values, which are shorter."""
_MOST_VALUES = 3
_ALIKE_PARTS = 0.7
"""The same for what stands between hyphens, dots and slashes, which is short as well."""
_BETWEEN_PARTS = re.compile("[-./_]+")


class NearestNames:
    """Finds them among the workflows that are visible and allowed."""

    def __init__(self, names: NameReader) -> None:
        self._names = names

    async def of(self, name: str, *, constraints: Constraints, namespaces: frozenset[str] | None) -> list[str]:
        """At most `MOST` workflow ids, the nearest first.

        Raises:
            Unavailable: the database does not answer.
        """
        wanted = name.lower()[:_MAX_COMPARED]
        found = await self._names.alike(wanted, constraints=constraints, namespaces=namespaces, limit=_LOOKED_AT)
        spread = Counter(name for name, _ in found)
        near = nearest_names(wanted, list(spread))
        ids = [
            workflow_id(namespace=namespace, name=name, ambiguous=spread[name] > 1)
            for each in near
            for name, namespace in found
            if name == each
        ]
        return ids[:MOST]

    async def values(
        self, what: Declared, value: str, *, constraints: Constraints, namespaces: frozenset[str] | None
    ) -> list[str] | None:
        """At most three values that are near this one, the nearest first; None if some workflow has it.

        Raises:
            Unavailable: the database does not answer.
        """
        declared = await self._names.declared(what, constraints=constraints, namespaces=namespaces)
        key = str if what is Declared.NAMESPACE else fold
        known = {key(each): each for each in declared if each}
        wanted = key(value)[:_MAX_COMPARED]
        if wanted in known:
            return None
        near = difflib.get_close_matches(wanted, known, n=_MOST_VALUES, cutoff=_ALIKE_VALUES)
        written = [known[each] for each in near]
        if what is Declared.SIGNAL_TYPE and near:
            written = await self._names.signal_names(near, constraints=constraints, namespaces=namespaces)
        return [visible(each) for each in written]


def nearest_names(wanted: str, names: list[str]) -> list[str]:
    """The names that are like this one as a whole, or have parts that are like all of its parts; the nearest first."""
    alike = _alike(wanted, names, least=_ALIKE)
    parts = {name: _parts(name) for name in names}
    known = {part for each in parts.values() for part in each}
    like_parts = [_alike(part, known, least=_ALIKE_PARTS) for part in _parts(wanted)]
    for name in names if like_parts else ():
        shares = [max((like.get(part, 0.0) for part in parts[name]), default=0.0) for like in like_parts]
        if all(shares):
            alike[name] = max(alike.get(name, 0.0), sum(shares) / len(shares))
    return sorted(alike, key=lambda name: (-alike[name], names.index(name)))[:MOST]


def _alike(wanted: str, names: Iterable[str], *, least: float) -> dict[str, float]:
    """The share of letters in common with each name, where it is at least this one."""
    matcher = difflib.SequenceMatcher(b=wanted)
    shares = dict[str, float]()
    for name in names:
        matcher.set_seq1(name)
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= least and (share := matcher.ratio()) >= least:
            shares[name] = share
    return shares


def _parts(name: str) -> list[str]:
    return list(filter(None, _BETWEEN_PARTS.split(name)))
