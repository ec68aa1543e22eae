"""Arguments that are one of fixed choices: taken in any case, refused with the choices."""

from typing import Any

import pytest

from formulary_catalog.domain.knowledge.documents import Collection
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.workflows.relations import Relation
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.browsing import ListArguments, RelatedArguments, SectionArguments
from formulary_catalog.operations.arguments.input_schema import input_schema
from formulary_catalog.operations.arguments.reading import InvocationsArguments, TracesArguments
from formulary_catalog.operations.knowledge import DocumentSearchArguments

OF_WORKFLOW = {"workflow_id": "w"}
OF_ENTITY = {"entity": "w"}
QUERY = {"query": "q"}


@pytest.mark.parametrize(
    ("model", "others", "name", "given", "read"),
    [
        (ListArguments, {}, "risk_level", " LOW ", "low"),
        (ListArguments, {}, "risk_level", " ", ""),
        (ListArguments, {}, "risk_level", None, ""),
        (ListArguments, {}, "status", "disabled", "Disabled"),
        (ListArguments, {}, "status", "", "Active"),
        (SectionArguments, OF_WORKFLOW, "section", "When-Not-To-Use", "when_not_to_use"),
        (RelatedArguments, OF_ENTITY, "relations", "escalatesto, REQUIRES,escalatesTo", ("escalatesTo", "requires")),
        (RelatedArguments, OF_ENTITY, "relations", ["requires", "escalatesTo"], ("requires", "escalatesTo")),
        (RelatedArguments, OF_ENTITY, "relations", " ", ()),
        (DocumentSearchArguments, QUERY, "collection", "Runbooks", Collection.RUNBOOKS),
        (DocumentSearchArguments, QUERY, "collection", "all", ""),
        (InvocationsArguments, {}, "phase", "awaitingapproval", Phase.AWAITING_APPROVAL),
        (InvocationsArguments, {}, "phase", "awaiting_approval", Phase.AWAITING_APPROVAL),
        (TracesArguments, {}, "outcome", "Timed-Out", "timed_out"),
        (TracesArguments, {}, "outcome", "none", "none"),
    ],
)
def test_a_choice_is_taken_in_any_case(
    model: type[Arguments], others: dict[str, Any], name: str, given: object, read: object
) -> None:
    assert getattr(model.read({**others, name: given}), name) == read


def test_no_relations_are_all_relations() -> None:
    assert RelatedArguments.read({"entity": "w", "relations": []}).request.relations == tuple(Relation)


@pytest.mark.parametrize(
    ("model", "others", "name", "choices"),
    [
        (ListArguments, {}, "risk_level", "low, medium, high, unknown"),
        (ListArguments, {}, "status", "Active, Superseded, Disabled, Invalid, Pending"),
        (SectionArguments, OF_WORKFLOW, "section", ", ".join(SECTIONS)),
        (RelatedArguments, OF_ENTITY, "relations", ", ".join(Relation)),
        (DocumentSearchArguments, QUERY, "collection", ", ".join(Collection)),
        (InvocationsArguments, {}, "phase", ", ".join(Phase)),
        (TracesArguments, {}, "outcome", "pending, awaiting_approval, running, completed"),
    ],
)
def test_what_is_no_choice_is_refused_with_the_value_and_the_choices(
    model: type[Arguments], others: dict[str, Any], name: str, choices: str
) -> None:
    for given, said in (
        ("Sleeping", f"{name} 'Sleeping' is not known; give one of {choices}"),
        ("x" * 254, "254 characters; give at most 253"),
        ("a\0", "contains a NUL or an unpaired surrogate character; send plain text"),
        ({"a": 1}, "which is not text; give a value such as"),
        (7, "which is not text; give a value such as"),
    ):
        with pytest.raises(InvalidInput) as refused:
            model.read({**others, name: given})
        assert refused.value.field == name
        assert str(refused.value).startswith(name)
        assert said in str(refused.value)


def test_a_section_that_is_not_given_is_missing() -> None:
    with pytest.raises(InvalidInput, match="section is missing; give it, such as 'when_not_to_use'"):
        SectionArguments.read({"workflow_id": "w", "section": " "})


@pytest.mark.parametrize(
    ("model", "name", "enum"),
    [
        (ListArguments, "risk_level", ["low", "medium", "high", "unknown"]),
        (ListArguments, "status", None),
        (SectionArguments, "section", list(SECTIONS)),
        (DocumentSearchArguments, "collection", list(Collection)),
        (InvocationsArguments, "phase", None),
    ],
)
def test_the_schema_is_a_plain_text_with_choices_where_they_are_listed(
    model: type[Arguments], name: str, enum: list[str] | None
) -> None:
    listed = input_schema(model)["properties"][name]
    assert (listed["type"], listed["maxLength"], listed.get("enum")) == ("string", 253, enum)
    assert not {"anyOf", "$ref", "default", "title"} & listed.keys()
