"""What somebody may have meant by a name that nothing has: the nearest names that they may see."""

import difflib
from collections import Counter

from formulary_catalog.domain.search.results import workflow_id
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.store.workflows.names import NameReader

MOST = 5
_LOOKED_AT = 200
_ALIKE = 0.5
"""The share of letters that two names have in common from which one may be meant by the other."""
_MAX_COMPARED = 100


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
        near = difflib.get_close_matches(wanted, list(spread), n=MOST, cutoff=_ALIKE)
        ids = [
            workflow_id(namespace=namespace, name=name, ambiguous=spread[name] > 1)
            for each in near
            for name, namespace in found
            if name == each
        ]
        return ids[:MOST]
