"""The two custom labels with a meaning of their own, so that one label on a namespace is enough (DESIGN section 4).

`restarts: no` allows nothing that restarts, evicts, reschedules or deletes pods of a workload, `data-loss: no` nothing
that can lose data. `yes` demands nothing. Both are always strict: a workflow that does not say `no` is excluded.
"""

from collections.abc import Iterable, Mapping

RESTARTS, DATA_LOSS = "restarts", "data-loss"
STANDARD_KEYS = frozenset({RESTARTS, DATA_LOSS})
YES, NO = "yes", "no"


def demanded(custom: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """What custom labels of a context demand. Of a standard key, one `no` demands it, and `yes` alone nothing."""
    found = {key: frozenset(values) for key, values in custom.items()}
    return {
        key: frozenset({NO}) if key in STANDARD_KEYS and NO in values else values
        for key, values in found.items()
        if not (key in STANDARD_KEYS and values == {YES})
    }


def declared(custom: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What custom labels of a workflow declare. Only `no` alone says no, `*` does not."""
    return {
        key: values if key not in STANDARD_KEYS or values == {NO} else frozenset({YES})
        for key, values in custom.items()
    }
