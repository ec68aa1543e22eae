"""How deep a JSON text is nested, found out before anything parses it or walks through it."""

import re

MAX_DEPTH = 32
"""Far more than any call needs, and far less than what makes a recursive reader give up."""

# Possessive, and happy with a string that never ends: linear on whatever is sent.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def nested_too_deep(body: bytes) -> bool:
    """Whether objects and lists stand in one another more than `MAX_DEPTH` deep; `body` need not be valid JSON."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False
