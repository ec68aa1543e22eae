"""JSON as callers send it, and values as messages show them."""

import json
from collections.abc import Callable
from typing import Any

from formulary_catalog.errors import InvalidInput

_MAX_SHOWN = 60


def parsed(text: str, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text; `parse_constant` as of `json.loads`, which takes `NaN` without it.

    Raises:
        ValueError: it is no JSON.
        InvalidInput: an object has a member twice; one of the two would be lost without a word.
    """
    return json.loads(text, object_pairs_hook=_object, parse_constant=parse_constant)


def shown(value: object) -> str:
    """A value for a message: short, on one line, with everything unprintable escaped."""
    text = repr(value[:_MAX_SHOWN]) if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= 2 * _MAX_SHOWN else text[: 2 * _MAX_SHOWN] + "..."


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in members:
        if name in read:
            raise InvalidInput(f"{shown(name)} is given twice; give it once", field=name)
        read[name] = value
    return read
