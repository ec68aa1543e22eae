"""Drift: what agrees is left alone, refused objects included; what does not is found."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.errors import EmbedderUnavailable, InvalidManifest, VersionImmutable
from formulary_operator.api.status import WorkflowStatus
from formulary_operator.watch.drift import is_adrift
from formulary_operator.workflows.status import refusal_of, wanted_status
from formulary_operator.workflows.translate import SOURCE, entry_of
from formulary_operator.workflows.validation_result import ValidationResult, refused, stored
from support.manifest import workflow

MODEL = "model@1"
NOW = "2026-01-01T00:00:00Z"
KEPT = frozenset(field.alias or name for name, field in WorkflowStatus.model_fields.items())
"""The fields of the status in the CRD."""


def observed(document: dict[str, Any], finding: ValidationResult) -> dict[str, Any]:
    """The object after this finding was written into its status."""
    status = wanted_status(document, finding, now=NOW)
    return document | {"status": {key: value for key, value in status.items() if value is not None}}


def placed(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"] |= {"namespace": "team", "uid": "uid-1", "generation": 1}
    return document


def held(document: dict[str, Any], **changes: Any) -> StoredWorkflow:
    """What the catalog holds after it took the object."""
    entry = entry_of(document)
    row = StoredWorkflow(
        namespace="team",
        name=entry.name,
        version=entry.version,
        version_id=entry.version_id,
        content_hash=entry.content_hash,
        status="Active",
        source=SOURCE,
        owner="uid-1",
        index_hash=entry.index_hash,
        model_id=MODEL,
    )
    return replace(row, **changes)


GOOD = placed(workflow("restart"))
SERVED = observed(GOOD, stored(entry_of(GOOD), model_id=MODEL, problem=None))


def adrift(
    document: dict[str, Any], current: StoredWorkflow | None, *, model_id: str = MODEL, kept: Collection[str] = KEPT
) -> bool:
    """Whether it is, where people can read of the refusal what the status says."""
    problem = None if model_id else EmbedderUnavailable("the model is gone")
    return is_adrift(document, current, noted=refusal_of(document), kept=kept, model_id=model_id, problem=problem)


def test_what_is_served_as_it_is_agrees() -> None:
    assert not adrift(SERVED, held(GOOD))


@pytest.mark.parametrize(
    "changes",
    [
        {"version_id": "wf_ver_0"},
        {"owner": "uid-0"},
        {"status": "Disabled"},
        {"index_hash": "another release's"},
        {"model_id": ""},
        {"model_id": "model@0"},
        {"source": "file:a.yaml"},
    ],
)
def test_a_catalog_that_holds_something_else_is_found(changes: dict[str, str]) -> None:
    assert adrift(SERVED, held(GOOD, **changes))


def test_a_workflow_that_is_missing_from_the_catalog_is_found() -> None:
    assert adrift(SERVED, None)


def test_a_status_that_somebody_edited_is_found() -> None:
    assert adrift(SERVED | {"status": {**SERVED["status"], "catalogStatus": "Invalid"}}, held(GOOD))


@pytest.mark.parametrize("field", sorted(SERVED["status"].keys() - {"conditions"}))
def test_a_field_that_an_earlier_release_did_not_write_is_found_where_the_crd_has_it(field: str) -> None:
    changed = placed(workflow("restart", what="Deletes it."))
    error = VersionImmutable("cluster: spec.version: raise it", source=SOURCE, field="spec.version")
    for document in (SERVED, observed(changed, refused(error, current=held(GOOD)))):
        status = {key: value for key, value in document["status"].items() if key != field}
        expected = field in document["status"]
        assert adrift(document | {"status": status}, held(GOOD)) == expected
        assert not adrift(document | {"status": status}, held(GOOD), kept=KEPT - {field})


def test_without_an_embedder_what_has_a_vector_stays_as_it_is() -> None:
    assert not adrift(SERVED, held(GOOD), model_id="")


def test_a_refused_object_agrees_once_it_was_told_and_is_found_when_the_catalog_changes() -> None:
    invalid = placed(workflow("restart", version="1.x"))
    with pytest.raises(InvalidManifest) as caught:
        entry_of(invalid)
    for current in (None, held(GOOD)):
        reported = observed(invalid, refused(caught.value, current=current))
        assert not adrift(reported, current)
        assert adrift(invalid, current)
    assert adrift(observed(invalid, refused(caught.value, current=None)), held(GOOD))


def test_a_refused_version_agrees_while_the_catalog_holds_what_it_held() -> None:
    changed = placed(workflow("restart", what="Deletes it."))
    error = VersionImmutable("cluster: spec.version: raise it", source=SOURCE, field="spec.version")
    reported = observed(changed, refused(error, current=held(GOOD)))
    assert not adrift(reported, held(GOOD))
    assert adrift(reported, None)
    assert adrift(reported, held(GOOD, content_hash="0"))


def test_a_refusal_that_people_cannot_read_or_that_is_over_is_found() -> None:
    invalid = placed(workflow("restart", version="1.x"))
    with pytest.raises(InvalidManifest) as caught:
        entry_of(invalid)
    reported = observed(invalid, refused(caught.value, current=None))
    noted = refusal_of(reported)
    assert noted is not None
    assert (noted.namespace, noted.name, noted.version, noted.reason) == ("team", "restart", "1.x", "Invalid")
    assert "spec.version" in noted.message
    assert noted.since.isoformat() == "2026-01-01T00:00:00+00:00"
    found = {
        is_adrift(reported, None, noted=each, kept=KEPT, model_id=MODEL, problem=None)
        for each in (None, replace(noted, message="other"), replace(noted, since=noted.since.replace(year=2025)))
    }
    assert found == {True}
    assert not is_adrift(reported, None, noted=noted, kept=KEPT, model_id=MODEL, problem=None)
    assert is_adrift(SERVED, held(GOOD), noted=noted, kept=KEPT, model_id=MODEL, problem=None)
    assert refusal_of(SERVED) is None
    assert refusal_of(reported | {"metadata": {**reported["metadata"], "generation": 2}}) is None


def test_an_object_that_waits_for_its_deletion_is_found_only_while_something_of_it_is_served_or_noted() -> None:
    invalid = placed(workflow("restart", version="1.x"))
    with pytest.raises(InvalidManifest) as caught:
        entry_of(invalid)
    reported = observed(invalid, refused(caught.value, current=None))
    noted = refusal_of(reported)
    assert noted is not None
    for document in (SERVED, reported, GOOD, invalid):
        leaving = document | {"metadata": document["metadata"] | {"deletionTimestamp": NOW, "finalizers": ["a/b"]}}
        for current, known in ((None, None), (None, noted), (held(GOOD), None), (held(GOOD), noted)):
            left = current is not None or known is not None
            assert is_adrift(leaving, current, noted=known, kept=KEPT, model_id=MODEL, problem=None) == left


def test_what_is_refused_is_noted_without_characters_that_hide_text_and_without_a_version_that_is_none() -> None:
    invalid = placed(workflow("restart"))
    invalid["spec"]["version"] = ["1.0.0"]
    error = InvalidManifest("cluster: spec.title: a\0b\u202ec", source=SOURCE, field="spec.title")
    noted = refusal_of(observed(invalid, refused(error, current=None)))
    assert noted is not None
    assert (noted.version, "a\ufffdb\ufffdc" in noted.message) == ("", True)


def test_what_belongs_to_a_deleted_object_of_the_same_name_is_found_even_if_the_new_one_is_refused() -> None:
    invalid = placed(workflow("restart", version="1.x"))
    with pytest.raises(InvalidManifest) as caught:
        entry_of(invalid)
    foreign = held(GOOD, owner="uid-0")
    assert adrift(observed(invalid, refused(caught.value, current=foreign)), foreign)


def test_a_workflow_that_asks_to_be_suspended_is_found_while_it_is_served_whatever_else_is_wrong() -> None:
    invalid = placed(workflow("restart", version="1.x", suspend=True))
    with pytest.raises(InvalidManifest) as caught:
        entry_of(invalid)
    assert adrift(observed(invalid, refused(caught.value, current=held(GOOD))), held(GOOD))


def test_an_object_that_declares_a_parameter_twice_is_refused() -> None:
    twice = [{"name": "REPLICAS", "type": "integer", "required": False, "description": "How many."}] * 2
    with pytest.raises(InvalidManifest, match=r"spec\.parameters: 'REPLICAS' is declared more than once"):
        entry_of(placed(workflow("restart", parameters=twice)))


def test_an_object_whose_constraint_is_misspelt_is_refused() -> None:
    with pytest.raises(InvalidManifest, match=r"spec\.customLabel: is unknown and would constrain nothing"):
        entry_of(placed(workflow("restart", customLabel={"team": "red"})))
