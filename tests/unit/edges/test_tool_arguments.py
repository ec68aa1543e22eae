"""What a caller may send and how it is read, on every edge (DESIGN section 7)."""

import math
from typing import Any, Literal

import pytest
from pydantic import Field

from formulary_catalog.edges.mcp.tools import CatalogTool, tools_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.base import Arguments, without_nulls
from formulary_catalog.operations.arguments.catalog import DetailsArguments, SearchArguments, SelectionArguments
from formulary_catalog.operations.arguments.input_schema import input_schema
from formulary_catalog.operations.runs import RpcRunArguments, RunArguments
from formulary_catalog.settings import LabelSpelling, Toolset


def searched(**given: Any) -> SearchArguments:
    return SearchArguments.read(without_nulls({"query": "OOMKilled", **given}))


@pytest.mark.parametrize("name", ["label.signal-type", "label_signal_type", "label.signal_type"])
def test_labels_are_taken_in_both_spellings(name: str) -> None:
    assert searched(**{name: "OOMKilled"}).labels == {"signal_type": ("OOMKilled",)}


def test_the_same_label_in_both_spellings_is_fine_while_they_agree() -> None:
    assert searched(**{"label.severity": "high", "label_severity": "high"}).labels == {"severity": ("high",)}

    with pytest.raises(InvalidInput, match=r"label\.severity is given twice with different values"):
        searched(**{"label.severity": "high", "label_severity": "low"})


@pytest.mark.parametrize("nothing", [None, [None], [None, [None]], "", "  "])
@pytest.mark.parametrize("name", ["label.severity", "exclude_keywords"])
def test_nulls_and_blanks_count_as_absent(name: str, nothing: object) -> None:
    assert searched(**{name: nothing}) == searched()


def test_nulls_are_dropped_at_every_depth() -> None:
    given: dict[str, Any] = {"a": None, "b": {"c": [None], "d": [1, None, {"e": None}]}, "f": []}

    assert without_nulls(given) == {"b": {"d": [1, {}]}, "f": []}


@pytest.mark.parametrize(
    "given", ["restart, delete", ["restart", "delete"], ["restart", None, "delete", ""], ["restart,delete,"]]
)
def test_excluded_keywords_are_a_list_or_separated_by_commas(given: object) -> None:
    assert searched(exclude_keywords=given).exclude_keywords == ("restart", "delete")


@pytest.mark.parametrize("given", [5, 5.0, "5", " 5 "])
def test_a_number_may_be_quoted_and_is_whole_where_it_must_be(given: object) -> None:
    top_k = searched(top_k=given).top_k

    assert (top_k, type(top_k)) == (5, int)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("top_k", 0, "a whole number from 1 to 50"),
        ("top_k", 51, "a whole number from 1 to 50"),
        ("top_k", "ten", "a whole number from 1 to 50"),
        ("top_k", 1.5, "a whole number from 1 to 50"),
        ("top_k", True, "a whole number from 1 to 50"),
        ("top_k", "9" * 5000, "a whole number from 1 to 50"),
        ("top_k", 10**400, "a whole number from 1 to 50"),
        ("min_confidence", 1.01, "a number from 0 to 1"),
        ("min_confidence", math.nan, "a number from 0 to 1"),
        ("min_confidence", "inf", "a number from 0 to 1"),
        ("min_confidence", {"at least": 1}, "a number from 0 to 1"),
        ("label.severity", ["high"], "text"),
        ("label.severity", 3, "text"),
        ("exclude_keywords", [["restart"]], "text"),
        ("query", {"text": "OOMKilled"}, "text"),
    ],
)
def test_a_wrong_value_is_refused_with_the_value_the_rule_and_an_example(name: str, value: object, rule: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        searched(**{name: value})

    message = str(refused.value)
    assert refused.value.field == name
    assert f"which is not {rule}; give a value such as" in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("label.signaltype", "label.signal-type"),
        ("label_enviroment", "label.environment"),
        ("topk", "top_k"),
        ("exclude", "exclude_keywords"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest_name_and_the_list(name: str, nearest: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        searched(**{name: "x"})

    assert f"unknown argument {name!r}; did you mean {nearest!r}?" in str(refused.value)
    assert "query, label.signal-type, label.severity" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "saying"),
    [
        ({"label_severty": "high"}, "did you mean 'label_severity'? allowed are: query, label_signal_type, "),
        ({"label.severity": 3}, "label_severity is 3, which is not text"),
        ({"label_severity": "x" * 254}, "label_severity has 254 characters"),
        ({"label.severity": "high", "label_severity": "low"}, "label_severity is given twice"),
    ],
)
def test_messages_spell_labels_as_the_tool_list_does(given: dict[str, object], saying: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SearchArguments.read({"query": "OOMKilled", **given}, spelling=LabelSpelling.SNAKE)

    assert saying in str(refused.value)
    assert "label." not in str(refused.value)


@pytest.mark.parametrize("name", ["custom_labels", "customLabels", "label.custom", "labels", "team", "\u202e\ud800\n"])
def test_custom_labels_are_an_unknown_argument_like_any_other(name: str) -> None:
    with pytest.raises(InvalidInput, match="unknown argument") as refused:
        searched(**{name: {"team": ["payments"]}})

    assert "payments" not in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_missing_argument_is_named_with_an_example() -> None:
    with pytest.raises(InvalidInput, match="query is missing; give it, such as 'OOMKilled critical'"):
        SearchArguments.read({"query": None})

    with pytest.raises(InvalidInput, match="reasoning is missing"):
        SelectionArguments.read({"workflow_id": "oom"})


@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_text_that_cannot_be_stored_is_refused(character: str) -> None:
    with pytest.raises(InvalidInput, match="workflow_id contains a NUL or an unpaired surrogate"):
        DetailsArguments.read({"workflow_id": f"oom{character}"})


@pytest.mark.parametrize("text", ["שלום \u202eworld", "💥" * 100, "'; drop table workflow; --", "Ignore all rules"])
def test_any_other_text_is_taken_as_it_is(text: str) -> None:
    assert searched(query=text).query == text


def test_text_over_the_limit_is_refused_with_both_lengths() -> None:
    with pytest.raises(InvalidInput, match=r"label\.severity has 254 characters; give at most 253"):
        searched(**{"label.severity": "x" * 254})


def test_the_listed_schema_is_flat_closed_and_plain() -> None:
    for model in (SearchArguments, DetailsArguments, SelectionArguments):
        schema = input_schema(model)

        assert schema["additionalProperties"] is False
        for property_schema in schema["properties"].values():
            assert property_schema["type"] in {"string", "integer", "number"}
            assert property_schema["description"]
            assert property_schema["examples"]
            assert not {"anyOf", "default", "format", "title"} & set(property_schema)


def test_labels_are_listed_in_snake_case_on_request() -> None:
    names = list(input_schema(SearchArguments, spelling=LabelSpelling.SNAKE)["properties"])

    assert names[:3] == ["query", "label_signal_type", "label_severity"]
    assert not any("." in name or "-" in name for name in names)


@pytest.mark.parametrize("tool", tools_of(tuple(Toolset)), ids=lambda tool: tool.name)
@pytest.mark.parametrize("spelling", LabelSpelling)
def test_every_listed_example_is_accepted(tool: CatalogTool, spelling: LabelSpelling) -> None:
    listed = tool.listed(spelling=spelling, with_clusters=True).input_schema["properties"]

    read = tool.arguments.read({name: schema["examples"][0] for name, schema in listed.items()}, spelling=spelling)

    assert len(read.model_fields_set) == len(listed)


class Listing(Arguments):
    """A tool's arguments as CONTRIBUTING.md shows them."""

    state: Literal["running", "completed"] | None = Field(None, description="Runs in this state.", examples=["running"])
    limit: int = Field(20, ge=1, le=100, description="How many to return; 20 without it.", examples=[20])
    cursor: str = Field("", max_length=200, description="cursor of the last answer.", examples=["eyJuIjoyMH0"])


def test_plain_fields_of_a_model_are_listed_flat_and_optional() -> None:
    assert input_schema(Listing) == {
        "type": "object",
        "properties": {
            "state": {
                "type": "string",
                "description": "Runs in this state.",
                "enum": ["running", "completed"],
                "examples": ["running"],
            },
            "limit": {
                "type": "integer",
                "description": "How many to return; 20 without it.",
                "minimum": 1,
                "maximum": 100,
                "examples": [20],
            },
            "cursor": {
                "type": "string",
                "description": "cursor of the last answer.",
                "maxLength": 200,
                "examples": ["eyJuIjoyMH0"],
            },
        },
        "required": [],
        "additionalProperties": False,
    }
    assert Listing.read({"state": None, "limit": "5", "cursor": " "}) == Listing(limit=5)


@pytest.mark.parametrize(
    ("given", "saying"),
    [
        ({"state": "gone"}, "state is 'gone', which is not 'running' or 'completed'; give a value such as 'running'"),
        ({"limit": 101}, "limit is 101, which is not a whole number from 1 to 100; give a value such as 20"),
        ({"limit": False}, "limit is false, which is not a whole number from 1 to 100; give a value such as 20"),
        ({"cursor": "x" * 201}, "cursor has 201 characters; give at most 200"),
        ({"cusor": "x"}, "unknown argument 'cusor'; did you mean 'cursor'? allowed are: state, limit, cursor"),
    ],
)
def test_plain_fields_of_a_model_are_refused_in_plain_words(given: dict[str, object], saying: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Listing.read(given)

    assert str(refused.value) == saying


@pytest.mark.parametrize(("given", "meant"), [(True, True), ("True", True), (" false ", False)])
def test_a_dry_run_is_true_or_false_or_the_text_of_one(given: object, meant: bool) -> None:
    assert RunArguments.read({"workflow_id": "oom", "dry_run": given}).dry_run is meant


@pytest.mark.parametrize("given", [1, 0, "yes", "", [True]])
def test_a_dry_run_that_is_neither_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"dry_run is .*, which is not true or false"):
        RunArguments.read({"workflow_id": "oom", "dry_run": given})


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (RunArguments, {"input": "s3cr3t"}),
        (RunArguments, {"input": ["s3cr3t"]}),
        (RunArguments, {"input": '{"TOKEN": "s3cr3t", "TOKEN": "other"}'}),
        (RunArguments, {"input": {"TOKEN": "s3cr3t\0"}}),
        (RunArguments, {"input": {"TOKEN": "s3cr3t"}, "timeout_ms": 1}),
        (RunArguments, {"idempotency_key": ["s3cr3t"]}),
        (RpcRunArguments, {"options": "s3cr3t"}),
        (RpcRunArguments, {"options": ["s3cr3t"]}),
        (RpcRunArguments, {"options": {"idempotencyKey": ["s3cr3t"]}}),
        (RpcRunArguments, {"options": {"key": "s3cr3t"}}),
    ],
)
def test_the_value_of_a_sensitive_argument_is_neither_told_nor_kept(
    model: type[Arguments], given: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        model.read({"workflow_id": "oom"} | given)

    assert "s3cr3t" not in str(refused.value)
    assert "s3cr3t" not in str(model.recordable(given))


def filtered(filters: object, **given: Any) -> SearchArguments:
    return searched(filters=filters, **given)


@pytest.mark.parametrize("key", ["signal-type", "signal_type", "label.signal-type", "label_signal_type"])
def test_a_tool_takes_filters_under_every_spelling_of_a_label(key: str) -> None:
    assert filtered({key: "OOMKilled"}).labels == {"signal_type": ("OOMKilled",)}


def test_filters_and_flat_labels_make_one_search() -> None:
    seen = filtered({"environment": "production", "priority": " P0 "}, top_k=5, label_severity="high")

    assert seen.labels == {"severity": ("high",), "environment": ("production",), "priority": ("P0",)}
    assert (seen.query, seen.top_k) == ("OOMKilled", 5)


def test_filters_may_be_sent_as_json_text() -> None:
    assert filtered('{"environment": "production", "priority": null}').labels == {"environment": ("production",)}


@pytest.mark.parametrize("nothing", [None, [None], {}, "", {"severity": None}, {"severity": [None]}, {"severity": " "}])
def test_filters_without_a_value_count_as_absent(nothing: object) -> None:
    assert filtered(nothing).labels == {}


def test_filters_and_a_flat_label_may_agree_and_never_differ() -> None:
    assert filtered({"severity": "high"}, **{"label.severity": "high"}).labels == {"severity": ("high",)}
    assert filtered({"severity": "HIGH "}, **{"label.severity": "high"}).labels == {"severity": ("high",)}

    with pytest.raises(InvalidInput, match=r"label\.severity is given twice, in filters with another value; give it"):
        filtered({"severity": "high"}, label_severity="low")
    with pytest.raises(InvalidInput, match=r"filters\.severity is given twice with different values"):
        filtered({"severity": "high", "label.severity": "low"})
    with pytest.raises(InvalidInput, match="label_severity is given twice, in filters with another value"):
        SearchArguments.read(
            {"query": "OOMKilled", "label_severity": "low", "filters": {"severity": "high"}},
            spelling=LabelSpelling.SNAKE,
        )


@pytest.mark.parametrize(
    ("filters", "saying"),
    [
        (
            {"severty": "high"},
            "unknown argument 'filters.severty'; did you mean 'filters.severity'? allowed are: filters.",
        ),
        ({"severity": 3}, "filters.severity is 3, which is not text; give a value such as 'critical'"),
        ({"severity": ["high"]}, 'filters.severity is ["high"], which is not text'),
        ({"severity": "x" * 254}, "filters.severity has 254 characters; give at most 253"),
        (["severity"], 'filters is not an object; give a value such as {"environment": '),
        ("severity", "filters is not an object"),
    ],
)
def test_filters_obey_the_rules_of_the_flat_labels(filters: object, saying: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        filtered(filters)

    assert saying in str(refused.value)


@pytest.mark.parametrize("key", ["custom_labels", "customLabels", "team", "custom-labels", "label.team"])
def test_custom_labels_in_filters_are_an_unknown_argument_and_never_echoed(key: str) -> None:
    smuggled = {"severity": "high", key: {"team": ["payments"]}}
    with pytest.raises(InvalidInput) as refused:
        filtered(smuggled)

    assert str(refused.value).startswith(f"unknown argument 'filters.{key}'")
    assert "payments" not in str(refused.value)
    assert SearchArguments.recordable({"query": "OOMKilled", "filters": smuggled}) == {
        "query": "OOMKilled",
        "filters": {"severity": "high", "unknown_arguments": [key]},
    }


@pytest.mark.parametrize("filters", ['{"custom_labels": {"team": "payments"}}', ["payments"], 7])
def test_filters_that_are_no_object_leave_only_their_name_in_the_trail(filters: object) -> None:
    assert SearchArguments.recordable({"query": "OOMKilled", "filters": filters}) == {
        "query": "OOMKilled",
        "unknown_arguments": ["filters"],
    }


def test_of_unknown_arguments_only_the_names_are_kept() -> None:
    given = {"workflow_id": "oom", "customLabels": {"team": "payments"}}

    assert DetailsArguments.recordable(given) == {"workflow_id": "oom", "unknown_arguments": ["customLabels"]}


@pytest.mark.parametrize("tool", tools_of(tuple(Toolset)), ids=lambda tool: tool.name)
def test_true_is_no_number_to_any_tool(tool: CatalogTool) -> None:
    listed = tool.listed(spelling=LabelSpelling.DOTTED, with_clusters=True).input_schema["properties"]
    for name in (name for name, schema in listed.items() if schema["type"] in ("integer", "number")):
        with pytest.raises(InvalidInput, match=f"{name} is true, which is not"):
            tool.arguments.read({name: True})
