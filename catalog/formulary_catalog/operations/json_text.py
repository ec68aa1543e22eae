"""JSON as callers send it: how deep it may nest, how it is parsed, and how messages show its values."""

import json
import re
from collections.abc import Callable
from typing import Any

from formulary_catalog.errors import InvalidInput

META_KEY = "kubernaut.ai/remediation-id"
"""The member of `_meta` that names the incident of a call."""
_MAX_SHOWN = 60
_META = "_meta"
"""Some clients of MCP write it twice. Where nothing of weight is lost, the last one counts, as for the SDK."""
MAX_DEPTH = 32
"""Far more than any call needs, and far less than what makes a recursive reader give up."""
# Possessive, and happy with a string that never ends: linear on whatever is sent.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def parsed(text: str, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text; `parse_constant` as of `json.loads`, which takes `NaN` without it.

    Raises:
        ValueError: it is no JSON.
        InvalidInput: an object has a member twice; one of the two would be lost without a word. It is not named: it
            may be a custom label.
    """
    return json.loads(text, object_pairs_hook=_object, parse_constant=parse_constant)


def shown(value: object) -> str:
    """A value for a message: short, on one line, with everything unprintable escaped."""
    text = repr(value[:_MAX_SHOWN]) if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= 2 * _MAX_SHOWN else text[: 2 * _MAX_SHOWN] + "..."


def _names_no_incident(meta: object) -> bool:
    return isinstance(meta, dict) and META_KEY not in meta


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in members:
        if name in read and not (name == _META and _names_no_incident(read[name])):
            raise InvalidInput("an object in the body has a member twice; give each once", field="body")
        read[name] = value
    return read


def nested_too_deep(body: bytes) -> bool:
    """Whether objects and lists stand in one another more than `MAX_DEPTH` deep; `body` need not be valid JSON."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False
