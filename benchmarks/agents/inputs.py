"""An input that a workflow's parameters accept, so that a run of it can be asked for: always the same one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from re import _constants as op
from re import _parser
from typing import Any

TARGET = {"NAMESPACE": "incidents", "DEPLOYMENT": "web", "WORKLOAD": "deployment/web"}
"""The target of each incident, as workflows call its parts."""
_VALUES: Mapping[str, Any] = {"string": "web", "integer": 3, "float": 0.5, "boolean": True, "array": ["web"]}


def example_input(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each parameter that is required."""
    return {each["name"]: _value(each) for each in spec["parameters"] if each["required"] and "default" not in each}


def matching(pattern: str) -> str:
    """A text that matches a pattern, by its first branches and shortest repetitions."""
    found = "".join(_texts(_parser.parse(pattern)))
    assert re.search(pattern, found), pattern
    return found


def _value(parameter: Mapping[str, Any]) -> Any:
    pattern, target = parameter.get("pattern", ""), TARGET.get(parameter["name"], "")
    if target and re.search(pattern, target):
        return target
    if parameter.get("enum"):
        return parameter["enum"][0]
    if pattern:
        return matching(pattern)
    value = _VALUES[parameter["type"]]
    return max(value, parameter["minimum"]) if "minimum" in parameter else value


def _texts(parsed: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    for what, argument in parsed:
        if what is op.LITERAL:
            yield chr(argument)
        elif what is op.IN:
            yield _member(argument)
        elif what in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, _, repeated = argument
            yield "".join(_texts(repeated)) * least
        elif what is op.SUBPATTERN:
            yield from _texts(argument[-1])
        elif what is op.BRANCH:
            yield from _texts(argument[1][0])
        elif what is op.ANY:
            yield "a"


def _member(choices: Sequence[tuple[Any, Any]]) -> str:
    what, argument = choices[0]
    if what is op.NEGATE:
        return "a"
    if what is op.CATEGORY:
        return "1" if argument is op.CATEGORY_DIGIT else "a"
    return chr(argument[0] if what is op.RANGE else argument)
