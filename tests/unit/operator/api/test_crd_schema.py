"""How models become the schemas by which the API server judges."""

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from formulary_catalog.domain.workflows.manifest import FilledText, LabelValues, Model, RequiredLabelValues
from formulary_operator.api.schema import PRESERVE, Schema, structural_schema


def _member(kind: Any) -> Schema:
    """The schema of a field of this type."""
    schema = structural_schema(create_model("Holder", field=(kind, ...)))
    member: Schema = schema["properties"]["field"]
    return member


class Inner(BaseModel):
    """What it
    is for."""

    title: str
    default: int = Field(default=3, title="A title", description="Its\n\nmeaning.")


class Outer(BaseModel):
    model_config = ConfigDict(title="Outermost")

    plain: Inner
    described: Inner | None = Field(default=None, description="Another one.")


INNER = {
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string"},
        "default": {"type": "integer", "description": "Its meaning.", "default": 3},
    },
}


def test_parts_are_written_out_and_titles_left_out_but_not_the_fields_called_so() -> None:
    assert structural_schema(Outer) == {
        "type": "object",
        "required": ["plain"],
        "properties": {
            "plain": INNER | {"description": "What it is for."},
            "described": INNER | {"description": "Another one."},
        },
    }


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str | None, {"type": "string"}),
        (Annotated[str, Field(min_length=1, max_length=3, pattern="^a")] | None,
         {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a"}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Annotated[int, Field(gt=0, le=9)],
         {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9}),
        (Annotated[float, Field(lt=1)], {"type": "number", "maximum": 1, "exclusiveMaximum": True}),
        (bool, {"type": "boolean"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (list[Literal[1]], {"type": "array", "items": {"type": "integer", "enum": [1]}}),
        (dict[str, list[int]],
         {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}),
        (dict[Annotated[str, Field(max_length=3)], bool],
         {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (dict[str, Any], {"type": "object", PRESERVE: True}),
        (Any, {PRESERVE: True}),
        (list[Any], {"type": "array", "items": {PRESERVE: True}}),
        (bool | Annotated[str, Field(max_length=3)], {PRESERVE: True, "maxLength": 3}),
    ],
)  # fmt: skip
def test_types_and_rules_take_the_form_that_the_api_server_knows(kind: Any, schema: Schema) -> None:
    assert _member(kind) == schema


def test_one_or_many_has_no_type_and_the_rules_of_both() -> None:
    text = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": r"\S"}
    either = {PRESERVE: True, "minLength": 1, "maxLength": 253, "pattern": r"\S", "items": text}
    assert _member(LabelValues) == either
    assert _member(RequiredLabelValues) == either | {"minItems": 1}


def test_what_a_validator_refuses_as_blank_is_refused_by_a_pattern() -> None:
    assert _member(FilledText)["pattern"] == r"\S"


@pytest.mark.parametrize("empty", ["", 0, False, None, [], {}, Inner(title="a")])
def test_a_default_that_says_nothing_is_not_written_into_what_is_applied(empty: Any) -> None:
    schema = structural_schema(create_model("Holder", field=(Any, empty)))
    assert schema == {"type": "object", "properties": {"field": {PRESERVE: True}}}


class Tolerant(Model):
    """Keeps what it does not know, as all models of manifests do."""

    two_words: dict[str, bool]


def test_unknown_fields_are_pruned_unless_the_kind_belongs_to_somebody_else() -> None:
    map_of_booleans = {"type": "object", "additionalProperties": {"type": "boolean"}}
    pruning = {
        "description": "Keeps what it does not know, as all models of manifests do.",
        "type": "object",
        "required": ["twoWords"],
        "properties": {"twoWords": map_of_booleans},
    }
    assert structural_schema(Tolerant) == pruning
    assert structural_schema(Tolerant, keep_unknown=True) == pruning | {PRESERVE: True}


class Closed(Model):
    """Refuses what it does not know."""

    model_config = ConfigDict(extra="forbid")

    zone: str = "UTC"


def test_what_refuses_the_unknown_may_be_shown_it_and_be_left_without_defaults() -> None:
    zone = {"type": "string"}
    closed = {"description": "Refuses what it does not know.", "type": "object", "properties": {"zone": zone}}
    assert structural_schema(Closed, keep_unknown=True, defaults=False) == closed | {PRESERVE: True}
    assert structural_schema(Closed) == closed | {"properties": {"zone": zone | {"default": "UTC"}}}


def test_extensions_of_kubernetes_pass() -> None:
    extension = {"x-kubernetes-list-type": "set"}
    kind = Annotated[list[str], Field(json_schema_extra=dict(extension))]
    assert _member(kind) == {"type": "array", "items": {"type": "string"}, **extension}


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(set[str], "'uniqueItems'"), (tuple[int, str], "'prefixItems'"), (list[int] | list[str], "rules would mix")],
)
def test_what_has_no_structural_form_is_refused_rather_than_dropped(kind: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        _member(kind)
