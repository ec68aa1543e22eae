"""How namespaces share the room for alerts of a cluster: one with very many rules must not crowd out all others.

The operator asks for it, before it writes what `services/workflows/coverage` compares. Which alerts are kept depends on
nothing but how many each object has, so that they stay the same from one comparison to the next.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

_O = TypeVar("_O", bound=tuple[str, str])
"""An object of the cluster: its namespace and its name."""


def shared_room(sizes: Mapping[_O, int], *, room: int) -> dict[_O, int]:
    """How many alerts of each object are kept: of each namespace its share, from its objects in the order of names."""
    left = shares(by_namespace(sizes), room=room)
    kept: dict[_O, int] = {}
    for each in sorted(sizes):
        kept[each] = min(sizes[each], left[each[0]])
        left[each[0]] -= kept[each]
    return kept


def shares(wanted: Mapping[str, int], *, room: int) -> dict[str, int]:
    """What each gets of the room: all that it wants, or else as much as any other, but for 1 (max-min fairness)."""
    given: dict[str, int] = {}
    # Who wants least is asked first: what it leaves of its part is for the others.
    for number, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        given[name] = min(wanted[name], room // (len(wanted) - number))
        room -= given[name]
    return given


def by_namespace(counts: Mapping[_O, int]) -> Counter[str]:
    """The sums of the namespaces."""
    sums: Counter[str] = Counter()
    for each, count in counts.items():
        sums[each[0]] += count
    return sums
