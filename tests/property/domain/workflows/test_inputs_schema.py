"""Whatever parameters declare, the check of an input agrees with the schema that callers are shown."""

from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from formulary_catalog.domain.workflows.inputs import check_input, input_schema
from formulary_catalog.domain.workflows.manifest import Parameter
from formulary_catalog.errors import InputRefused

_NAMES = ("ALPHA", "BETA", "GAMMA")
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text("abc1", max_size=4),
    "integer": st.integers(-20, 20),
    "float": st.floats(-20, 20, allow_nan=False),
    "boolean": st.booleans(),
    "array": st.lists(st.integers(0, 3), max_size=3),
}
_ANY = st.one_of(*_VALUES.values())


@st.composite
def parameters(draw: st.DrawFn) -> list[Parameter]:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True))
    return [_parameter(draw, name, others=[other for other in names if other != name]) for name in names]


def _parameter(draw: st.DrawFn, name: str, *, others: list[str]) -> Parameter:
    type_ = draw(st.sampled_from(sorted(_VALUES)))
    values = _VALUES[type_]
    declared: dict[str, Any] = {
        "name": name,
        "type": type_,
        "required": draw(st.booleans()),
        "description": "A value.",
        "enum": draw(st.none() | st.lists(values, min_size=1, max_size=3)),
        "default": draw(st.none() | values),
        "dependsOn": draw(st.lists(st.sampled_from(others), max_size=1)) if others else [],
        "sensitive": draw(st.booleans()),
    }
    if type_ == "string":
        declared["pattern"] = draw(st.none() | st.sampled_from(["^a", "b$", "^[abc]+$"]))
    if type_ in ("integer", "float"):
        declared |= {"minimum": draw(st.none() | st.just(-5)), "maximum": draw(st.none() | st.just(5))}
    return Parameter.model_validate(declared)


inputs = st.dictionaries(st.sampled_from((*_NAMES, "OTHER")), _ANY, max_size=3)


def _accepts(declared: list[Parameter], values: dict[str, Any]) -> bool:
    try:
        check_input(declared, values)
    except InputRefused:
        return False
    return True


@given(parameters(), inputs)
def test_what_the_shown_schema_accepts_is_accepted(declared: list[Parameter], values: dict[str, Any]) -> None:
    assume(jsonschema.Draft202012Validator(input_schema(declared)).is_valid(values))
    assert _accepts(declared, values)


@given(parameters(), inputs)
def test_what_is_accepted_is_valid_once_its_defaults_are_in(declared: list[Parameter], values: dict[str, Any]) -> None:
    assume(_accepts(declared, values))
    # Whether a text stands for a value is decided by the check alone; and a default is the author's word.
    assume(not any(isinstance(value, str) for value in values.values()))
    defaults = {parameter.name: parameter.default for parameter in declared if parameter.default is not None}
    schema = input_schema(declared)
    # Only what is given needs what it depends on.
    given_ones = {
        part: {name: rule for name, rule in schema.get(part, {}).items() if name in values}
        for part in ("properties", "dependentRequired")
    }
    completed = jsonschema.Draft202012Validator({**schema, **given_ones, "additionalProperties": True})
    assert completed.is_valid(defaults | values)


@given(parameters(), inputs)
def test_every_value_is_handed_on_once_plain_or_secret(declared: list[Parameter], values: dict[str, Any]) -> None:
    assume(_accepts(declared, values))
    checked = check_input(declared, values)
    sensitive = {parameter.name for parameter in declared if parameter.sensitive}
    assert set(checked.secret) <= sensitive
    assert set(checked.plain).isdisjoint(sensitive)
    assert set(values) <= set(checked.plain) | set(checked.secret)


@given(parameters(), inputs, st.text("xyz", min_size=12, max_size=12))
def test_no_refusal_tells_the_value_of_a_sensitive_parameter(
    declared: list[Parameter], values: dict[str, Any], secret: str
) -> None:
    sensitive = [parameter.name for parameter in declared if parameter.sensitive]
    assume(sensitive)
    with pytest.raises(InputRefused) as refusal:
        check_input(declared, {**values, **dict.fromkeys((*sensitive, "OTHER"), secret)})
    assert secret not in str(refusal.value) + str(refusal.value.problems)
