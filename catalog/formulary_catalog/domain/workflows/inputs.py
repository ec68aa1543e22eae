"""The input of a workflow: its JSON Schema, made from its parameters, and what a run is given after the check."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from formulary_catalog.domain.text import storable
from formulary_catalog.domain.workflows.manifest import Parameter
from formulary_catalog.errors import InputRefused, NotInvocable

_TYPES = {"string": "string", "integer": "integer", "boolean": "boolean", "array": "array", "float": "number"}
_MAX_SHOWN = 80
_MAX_PROBLEMS = 10
_HIDDEN = "(sensitive)"
_ABSENT, _REQUIRED = "nothing", "required"
_MAX_DEPTH = 32
_WHOLE = range(-(2**63), 2**63)
_PASSED_ON = (
    f"must be what can be stored and handed on: finite numbers of at most 64 bits, texts without NUL and unpaired "
    f"surrogates, lists and objects in one another at most {_MAX_DEPTH} deep"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedInput:
    """Values of a run, with defaults. `secret` holds those of sensitive parameters, `plain` all others."""

    plain: Mapping[str, Any]
    secret: Mapping[str, Any] = field(repr=False)


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """JSON Schema (2020-12) of the input object; closed, so that a misspelt parameter is refused."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: _property(parameter) for parameter in parameters},
        "additionalProperties": False,
    }
    if required := [parameter.name for parameter in parameters if parameter.required]:
        schema["required"] = required
    if dependent := {parameter.name: parameter.depends_on for parameter in parameters if parameter.depends_on}:
        schema["dependentRequired"] = dependent
    return schema


def schema_problem(parameters: Sequence[Parameter]) -> str:
    """Why nothing can be checked against these parameters, so that the workflow cannot be invoked; empty if it can."""
    if not parameters:
        return "it declares no parameters, so that nothing says what input it takes; add spec.parameters"
    if repeated := repeated_parameter(parameters):
        return f"spec.parameters has {repeated!r} more than once; name each once"
    for parameter in parameters:
        try:
            _validator([parameter])
        except jsonschema_rs.ValidationError:
            return f"the pattern of parameter {parameter.name} is no regular expression without look-around; correct it"
    return ""


def repeated_parameter(parameters: Sequence[Parameter]) -> str:
    """The first name, in order, that more than one of the parameters has; empty if there is none."""
    counts = Counter(parameter.name for parameter in parameters)
    return min((name for name, count in counts.items() if count > 1), default="")


def check_input(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> CheckedInput:
    """The complete values of a run. Nulls count as absent, the text of a number or boolean as that.

    Raises:
        NotInvocable: the parameters themselves are no schema.
        InputRefused: with every field, rule and value that is wrong; values of sensitive parameters are not shown.
    """
    if problem := schema_problem(parameters):
        raise NotInvocable(f"the workflow cannot be invoked: {problem}")
    by_name = {parameter.name: parameter for parameter in parameters}
    values = {name: _coerced(value, by_name.get(name)) for name, value in given.items() if value is not None}
    # Only what is given needs what it depends on; a default needs nothing.
    if problems := _problems(values, parameters=by_name):
        raise InputRefused(
            f"the input is invalid, nothing was run: {'; '.join(map(_said, problems))}", problems=problems
        )
    defaults = {name: parameter.default for name, parameter in by_name.items() if parameter.default is not None}
    complete = defaults | values
    return CheckedInput(
        plain={name: value for name, value in complete.items() if not by_name[name].sensitive},
        secret={name: value for name, value in complete.items() if by_name[name].sensitive},
    )


def _said(problem: Mapping[str, str]) -> str:
    field, rule, value = problem["field"], problem["rule"], problem["value"]
    if value != _ABSENT:
        return f"{field}: {rule}, given {value}"
    return f"{field}: missing" if rule == _REQUIRED else f"{field}: missing, {rule}"


def _validator(parameters: Sequence[Parameter]) -> jsonschema_rs.Draft202012Validator:
    # This engine matches in linear time: a pattern must not be able to stop the server.
    return jsonschema_rs.Draft202012Validator(input_schema(parameters), pattern_options=jsonschema_rs.RegexOptions())


def _problems(values: Mapping[str, Any], *, parameters: Mapping[str, Parameter]) -> list[dict[str, str]]:
    unknown = f"unknown; known are {', '.join(parameters)}"
    # It may be the misspelt name of a sensitive one.
    hides = any(parameter.sensitive for parameter in parameters.values())
    found = [
        _problem(name, rule=unknown, value=_HIDDEN if hides else values[name], hidden=hides)
        for name in sorted(values.keys() - parameters.keys())
    ]
    known = {name: value for name, value in values.items() if name in parameters}
    sound = {name: value for name, value in known.items() if _is_sound(value)}
    found += [_problem(name, rule=_PASSED_ON, value="(not shown)", hidden=True) for name in known.keys() - sound.keys()]
    for error in _validator(list(parameters.values())).iter_errors(sound):
        if error.instance_path:  # what is missing is reported below: a default fills in for what is required too
            name = str(error.instance_path[0])
            hidden = parameters[name].sensitive
            rule = _rule(error, parameter=parameters[name])
            found.append(_problem(name, rule=rule, value=_HIDDEN if hidden else known[name], hidden=hidden))
    for parameter in parameters.values():
        needed = parameter.required and parameter.default is None
        dependents = [other.name for other in parameters.values() if parameter.name in other.depends_on]
        wanted_by = [name for name in dependents if name in known]
        if parameter.name not in known and (needed or (wanted_by and parameter.default is None)):
            rule = _REQUIRED if needed else f"{_REQUIRED} where {', '.join(wanted_by)} is given"
            found.append(_problem(parameter.name, rule=rule, value=_ABSENT, hidden=True))
    return found[:_MAX_PROBLEMS]


def _is_sound(value: Any, *, depth: int = 0) -> bool:
    """Whether PostgreSQL and Kubernetes can hold the value as it is; the text of a list may hide what they cannot."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return value in _WHOLE
    if isinstance(value, Mapping):
        return _is_sound([*value, *value.values()], depth=depth)
    if isinstance(value, list):
        return depth < _MAX_DEPTH and all(_is_sound(item, depth=depth + 1) for item in value)
    return True


def _rule(error: jsonschema_rs.ValidationError, *, parameter: Parameter) -> str:
    rules: dict[str, str] = {
        "type": f"must be of type {parameter.type}",
        "enum": f"must be one of {json.dumps(parameter.enum)}",
        "pattern": f"must match {parameter.pattern}",
        "minimum": f"must be at least {parameter.minimum:g}" if parameter.minimum is not None else "",
        "maximum": f"must be at most {parameter.maximum:g}" if parameter.maximum is not None else "",
    }
    return rules.get(str(error.kind.name)) or f"breaks the rule {error.kind.name}"


def _problem(name: str, *, rule: str, value: Any, hidden: bool = False) -> dict[str, str]:
    shown = str(value) if hidden else json.dumps(value, ensure_ascii=False, default=str)
    return {"field": name, "rule": rule, "value": shown[:_MAX_SHOWN]}


def _coerced(value: Any, parameter: Parameter | None) -> Any:
    """Models quote numbers, booleans and lists; a text parameter keeps its text."""
    if parameter is None or parameter.type == "string" or not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    wanted = {"integer": int, "float": int | float, "boolean": bool, "array": list}[parameter.type]
    fits = isinstance(parsed, wanted) and (parameter.type == "boolean" or not isinstance(parsed, bool))
    return parsed if fits else value


def _property(parameter: Parameter) -> dict[str, Any]:
    described = {
        "type": _TYPES[parameter.type],
        "enum": parameter.enum,
        "pattern": parameter.pattern,
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        "default": parameter.default,
    }
    return {keyword: value for keyword, value in described.items() if value is not None}
