"""What was recorded as JSON, read without trust: programs of other releases and tampering hands have written it too."""

import json
from collections.abc import Mapping
from typing import Any

_LONG = 400
_LARGE = 1e15


class Recorded:
    """An object of JSON. What is absent or of another type reads as empty."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Any) -> None:
        self._fields: Mapping[Any, Any] = fields if isinstance(fields, Mapping) else {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def text(self, *names: str) -> str:
        """The first of the fields that holds something, as text."""
        return next((said for name in names if (said := as_text(self._fields.get(name)))), "")

    def number(self, name: str) -> float | None:
        """A number; None if it is none that can be reckoned with."""
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGE:
            return None
        return float(value)

    def flag(self, name: str) -> bool:
        """Whether this is true."""
        return self._fields.get(name) is True

    def inner(self, name: str) -> "Recorded":
        """An object inside."""
        return Recorded(self._fields.get(name))

    def each(self, name: str) -> list["Recorded"]:
        """The objects of a list inside."""
        value = self._fields.get(name)
        return [Recorded(item) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []

    def texts(self, name: str) -> list[str]:
        """The elements of a list inside, as text."""
        value = self._fields.get(name)
        return [said for item in value if (said := as_text(item))] if isinstance(value, list) else []

    def as_dict(self) -> dict[str, Any]:
        """The object as it was recorded."""
        return dict(self._fields)

    def pairs(self) -> list[tuple[str, str]]:
        """All that says something, as text."""
        return [(str(name), said) for name, value in self._fields.items() if (said := as_text(value))]


def as_text(value: Any) -> str:
    """A value as people read it: text as it is, all else as JSON, cut where it is very long."""
    if value is None or value == {} or value == []:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} characters)"
