"""Whose turn it is on the next page of alerts or signals, so that all pages together list each of them once.

`services/workflows/coverage` pages with it. Demand changes between pages and names do not, so pages go in the order of
names. Only the first page begins with what is wanted most; cursors say which those were, and later pages leave them
out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from formulary_catalog.domain.workflows.labels import fold

LEADERS = 16
"""So many come first. Cursors name them, and are bounded."""
_BEGINNING, _DIGEST = 24, 16
_UNORDERED = re.compile(r"[^a-z0-9]+")


class Listed(NamedTuple):
    """What of a list was on the pages so far: the digests of those that came first, and all up to the last place."""

    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What is still to be listed, by place: those that come first, and the others in order."""

    listed: Listed
    leaders: list[str]
    others: list[str]

    @property
    def places(self) -> list[str]:
        """All of them, in order."""
        return [*self.leaders, *self.others]

    def after(self, number: int) -> Listed:
        """What was listed once a page has the first so many of them."""
        first = "".join(place[-_DIGEST:] for place in self.leaders[:number])
        others = self.others[: max(number - len(self.leaders), 0)]
        return Listed(self.listed.first + first, others[-1] if others else self.listed.last)


def place_of_name(name: str) -> str:
    """The place of an alert or signal in the order of names: its beginning, and a digest for what is cut off.

    Names may be longer than a cursor. One name has one place, however it is capitalized.
    """
    folded = fold(name)
    return f"{_UNORDERED.sub('', folded)[:_BEGINNING]} {sha256(folded.encode()).hexdigest()[:_DIGEST]}"


def turn_of(demand: Mapping[str, int], *, listed: Listed) -> Turn:
    """What is to be listed of these places after what was listed, with the demand for each."""
    if not any(listed):
        leaders = sorted(filter(demand.get, demand), key=lambda place: (-demand[place], place))[:LEADERS]
        return Turn(listed, leaders, sorted(demand.keys() - set(leaders)))
    first = {listed.first[start : start + _DIGEST] for start in range(0, len(listed.first), _DIGEST)}
    return Turn(listed, [], sorted(place for place in demand if place > listed.last and place[-_DIGEST:] not in first))
