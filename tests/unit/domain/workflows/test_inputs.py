"""The input of a run: what it must be, what becomes of it, and what is told about what is wrong."""

from typing import Any

import pytest

from formulary_catalog.domain.workflows.inputs import check_input, input_schema, schema_problem
from formulary_catalog.domain.workflows.invocable import not_invocable_because
from formulary_catalog.domain.workflows.manifest import Parameter, RemediationWorkflow
from formulary_catalog.errors import InputRefused, NotInvocable
from support.manifest import workflow


def parameter(name: str = "VALUE", *, type: str = "string", required: bool = False, **others: Any) -> Parameter:
    return Parameter.model_validate(
        {"name": name, "type": type, "required": required, "description": "A value.", **others}
    )


def problems(parameters: list[Parameter], given: dict[str, Any]) -> list[tuple[str, str, str]]:
    with pytest.raises(InputRefused) as refusal:
        check_input(parameters, given)
    assert all(problem["field"] in str(refusal.value) for problem in refusal.value.problems)
    return [(problem["field"], problem["rule"], problem["value"]) for problem in refusal.value.problems]


def test_defaults_fill_in_and_nulls_count_as_absent() -> None:
    checked = check_input(
        [parameter("A", default="x"), parameter("B", type="integer", default=3), parameter("C")], {"A": None, "B": 4}
    )
    assert checked.plain == {"A": "x", "B": 4}


def test_a_required_parameter_with_a_default_need_not_be_given() -> None:
    assert check_input([parameter(required=True, default="x")], {}).plain == {"VALUE": "x"}


@pytest.mark.parametrize(
    ("type", "given", "taken"),
    [
        ("integer", "3", 3),
        ("float", "2.5", 2.5),
        ("float", "2", 2),
        ("boolean", "true", True),
        ("array", '["a"]', ["a"]),
        ("string", "3", "3"),
        ("string", "true", "true"),
    ],
)
def test_the_text_of_a_value_is_taken_as_the_value_where_no_text_is_wanted(type: str, given: str, taken: Any) -> None:
    assert check_input([parameter(type=type)], {"VALUE": given}).plain == {"VALUE": taken}


@pytest.mark.parametrize(
    ("type", "given"),
    [
        ("integer", "3.5"),
        ("integer", True),
        ("integer", "true"),
        ("float", False),
        ("boolean", "1"),
        ("boolean", 0),
        ("array", "a,b"),
        ("array", {"a": 1}),
        ("string", 3),
        ("string", ["a"]),
    ],
)
def test_a_value_of_another_type_is_refused(type: str, given: Any) -> None:
    ((field, rule, _),) = problems([parameter(type=type)], {"VALUE": given})
    assert (field, rule) == ("VALUE", f"must be of type {type}")


@pytest.mark.parametrize(
    ("others", "given", "rule"),
    [
        ({"enum": ["a", "b"]}, "c", 'must be one of ["a", "b"]'),
        ({"pattern": "^[a-z]+$"}, "A", "must match ^[a-z]+$"),
        ({"type": "integer", "minimum": 1}, 0, "must be at least 1"),
        ({"type": "float", "maximum": 1.5}, 2, "must be at most 1.5"),
    ],
)
def test_each_rule_is_told_with_the_value(others: dict[str, Any], given: Any, rule: str) -> None:
    ((field, told, value),) = problems([parameter(**others)], {"VALUE": given})
    assert (field, told) == ("VALUE", rule)
    assert str(given) in value


@pytest.mark.parametrize(
    ("type", "given"),
    [
        ("float", "NaN"),
        ("float", "1e400"),
        ("float", float("inf")),
        ("integer", "9" * 30),
        ("integer", 10**400),
        ("array", '["secret", NaN]'),
        ("array", '["secret", "\\u0000"]'),
        ("array", ["secret", "\ud800"]),
        ("array", [{"a\0": "secret"}]),
        ("array", "[" * 200 + "]" * 200),
        ("string", "secret\0"),
    ],
)
@pytest.mark.parametrize("sensitive", [True, False])
def test_what_can_be_neither_stored_nor_handed_on_is_refused(type: str, given: Any, sensitive: bool) -> None:
    ((field, rule, value),) = problems([parameter(type=type, sensitive=sensitive)], {"VALUE": given})
    assert (field, value) == ("VALUE", "(not shown)")
    assert "stored and handed on" in rule


def test_all_problems_are_told_at_once() -> None:
    parameters = [parameter("A", required=True), parameter("B", type="integer"), parameter("C", enum=["x"])]
    assert {field for field, _, _ in problems(parameters, {"B": "no", "C": "y", "D": 1})} == {"A", "B", "C", "D"}


def test_what_another_depends_on_must_be_given_with_it() -> None:
    parameters = [parameter("USER"), parameter("GROUP", depends_on=["USER"])]
    assert check_input(parameters, {"USER": "a"}).plain == {"USER": "a"}
    ((field, rule, _),) = problems(parameters, {"GROUP": "b"})
    assert (field, rule) == ("USER", "required where GROUP is given")


def test_sensitive_values_are_kept_apart_and_never_told() -> None:
    parameters = [parameter("TOKEN", sensitive=True, pattern="^[a-f]+$"), parameter("PLAIN")]
    checked = check_input(parameters, {"TOKEN": "abc", "PLAIN": "x"})
    assert (checked.plain, checked.secret) == ({"PLAIN": "x"}, {"TOKEN": "abc"})
    assert "abc" not in repr(checked)
    for given in ({"TOKEN": "hunter2"}, {"TOKEN": 7_777_777}, {"TOKNE": "hunter2"}):
        told = problems(parameters, given)
        assert not any(secret in str(told) for secret in ("hunter2", "7777777"))


def test_without_secrets_an_unknown_value_is_shown() -> None:
    ((field, rule, value),) = problems([parameter("A")], {"B": "x"})
    assert (field, rule, value) == ("B", "unknown; known are A", '"x"')


def test_a_long_value_is_cut() -> None:
    ((_, _, value),) = problems([parameter(enum=["a"])], {"VALUE": "x" * 10_000})
    assert len(value) <= 80


def test_a_pattern_cannot_stop_the_server() -> None:
    ((_, rule, _),) = problems([parameter(pattern="^(a+)+$")], {"VALUE": "a" * 5000 + "!"})
    assert rule.startswith("must match")


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ([], "declares no parameters"),
        ([parameter("A"), parameter("A")], "more than once"),
        ([parameter(pattern="(")], "no regular expression"),
        ([parameter(pattern="(?=a)b")], "look-around"),
    ],
)
def test_parameters_that_make_no_schema_cannot_be_invoked_and_say_why(parameters: list[Parameter], why: str) -> None:
    assert why in schema_problem(parameters)
    with pytest.raises(NotInvocable, match=why):
        check_input(parameters, {})


def test_an_engine_that_is_not_supported_cannot_be_invoked() -> None:
    declared = [parameter().model_dump(by_alias=True, exclude_none=True)]
    good, bad = [
        RemediationWorkflow.model_validate(workflow("w", parameters=declared, execution={"engine": engine})).spec
        for engine in ("tekton", "ansible")
    ]
    assert not_invocable_because(good) == ""
    assert "ansible" in not_invocable_because(bad)


def test_the_schema_is_closed_and_says_what_is_required() -> None:
    schema = input_schema([parameter("A", required=True), parameter("B", depends_on=["A"])])
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["A"]
    assert schema["dependentRequired"] == {"B": ["A"]}
