"""An input that a workflow's parameters accept, so that a run of it can be asked for: always the same one."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import Phase, find, settings
from hypothesis import strategies as st

TARGET = {"NAMESPACE": "incidents", "DEPLOYMENT": "web", "WORKLOAD": "deployment/web"}
"""The target of each incident, as workflows call its parts."""
_VALUES: Mapping[str, Any] = {"string": "web", "integer": 3, "float": 0.5, "boolean": True, "array": ["web"]}
_SETTINGS = settings(derandomize=True, database=None, deadline=None, phases=[Phase.generate], max_examples=1)
"""The first text that hypothesis draws is the simplest one."""


def example_input(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each parameter that is required."""
    return {each["name"]: _value(each) for each in spec["parameters"] if each["required"] and "default" not in each}


@cache
def matching(pattern: str) -> str:
    """The simplest text that matches a pattern."""
    return find(st.from_regex(pattern), lambda _: True, settings=_SETTINGS)


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
