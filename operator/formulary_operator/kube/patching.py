"""JSON merge patches (RFC 7386): the smallest one that turns what is there into what should be there.

`reporting` calls it for each status. An empty patch means that nothing is sent, so an unchanged object causes no write
and no event of the watch. Pure.
"""

from collections.abc import Mapping
from typing import Any

from formulary_operator.api.names import Json


def merge_patch(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """The patch; empty if nothing differs.

    Only what `wanted` names is looked at, null being the same as absent; within a member everything counts.
    """
    patch: Json = {}
    for key, value in wanted.items():
        before, after = current.get(key), _without_nulls(value)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            if inner := merge_patch(before, {**dict.fromkeys(before), **after}):
                patch[key] = inner
        elif before != after:
            patch[key] = after
    return patch


def _without_nulls(value: Any) -> Any:
    """As an API server keeps it that is sent a patch: a null within a map is a deletion, in a list it stays."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
