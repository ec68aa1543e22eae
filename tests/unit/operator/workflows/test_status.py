"""Findings become statuses: complete, stable once written, whatever stood there before."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.errors import Unavailable
from formulary_operator.workflows.status import differs, is_observed, transition, wanted_status
from formulary_operator.workflows.validation_result import ConditionReason, ValidationResult, postponed

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
UPSTREAMS_FIELDS = {"workflowId", "contentHash", "catalogStatus", "conditions"}
OUR_FIELDS = {"versionId", "embeddingModel", "observedGeneration", "indexedAt"}

FINDINGS = st.builds(
    ValidationResult,
    reason=st.sampled_from(ConditionReason),
    message=st.text(max_size=50),
    version_id=st.sampled_from(["", "wf_ver_1", "wf_ver_2"]),
    content_hash=st.sampled_from(["", "1", "2"]),
    model_id=st.sampled_from(["", "model@1"]),
    not_invocable=st.sampled_from(["", "it declares no parameters"]),
    ids_unknown=st.booleans(),
)
STATUSES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "workflowId": st.just("w"),
        "versionId": st.sampled_from(["wf_ver_1", "wf_ver_2"]),
        "contentHash": st.sampled_from(["1", "2"]),
        "indexedAt": st.just(NOW),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Ready", "Indexed", "Invocable"]),
                    "status": st.sampled_from(["True", "False"]),
                    "reason": st.sampled_from(["Served", "Registered"]),
                    "lastTransitionTime": st.just(NOW),
                }
            ),
            unique_by=str,
        ),
        "registeredBy": st.just("somebody"),
    },
)


def document(status: dict[str, Any] | None = None, *, generation: int = 3) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"name": "w", "namespace": "team", "generation": generation}}
    return body if status is None else body | {"status": status}


def patched(status: dict[str, Any] | None, patch: dict[str, Any]) -> dict[str, Any]:
    """What a JSON merge patch makes of the status."""
    return {key: value for key, value in ((status or {}) | patch).items() if value is not None}


def served(version: str = "1") -> ValidationResult:
    return ValidationResult(
        reason=ConditionReason.SERVED,
        message="m",
        version_id=f"wf_ver_{version}",
        content_hash=version,
        model_id="model@1",
    )


@given(before=STATUSES, finding=FINDINGS)
def test_a_status_once_written_is_never_written_again_for_the_same_finding(
    before: dict[str, Any] | None, finding: ValidationResult
) -> None:
    written = document(patched(before, wanted_status(document(before), finding, now=NOW)))
    again = wanted_status(written, finding, now=LATER)
    assert not differs(written, again, kept=OUR_FIELDS | UPSTREAMS_FIELDS)
    assert transition(written, again) is None
    json.dumps(again)


@given(before=STATUSES, finding=FINDINGS, fields=st.sets(st.sampled_from(sorted(OUR_FIELDS))))
def test_a_crd_that_drops_some_of_our_own_fields_does_not_make_us_write_for_ever(
    before: dict[str, Any] | None, finding: ValidationResult, fields: set[str]
) -> None:
    written = patched(before, wanted_status(document(before), finding, now=NOW))
    had = {*UPSTREAMS_FIELDS, *fields}
    kept = document({key: value for key, value in written.items() if key in had})
    for known in (had, ()):  # what the CRD has is not known at the start
        assert not differs(kept, wanted_status(kept, finding, now=LATER), kept=known)


@given(finding=FINDINGS, lacked=st.sampled_from(sorted(OUR_FIELDS)))
def test_a_field_that_an_object_lacks_is_written_where_the_crd_keeps_it(finding: ValidationResult, lacked: str) -> None:
    written = patched(None, wanted_status(document(), finding, now=NOW))
    old = document({key: value for key, value in written.items() if key != lacked})
    assert differs(old, wanted_status(old, finding, now=LATER), kept={lacked}) == (lacked in written)


def test_a_condition_that_an_object_lacks_is_written() -> None:
    first = wanted_status(document(), served(), now=NOW)
    old = document({**first, "conditions": first["conditions"][:2]})
    assert differs(old, wanted_status(old, served(), now=LATER), kept=())


@given(before=STATUSES, finding=FINDINGS)
def test_our_own_echo_is_known_by_its_generation_unless_the_catalog_was_away_or_it_is_suspended(
    before: dict[str, Any] | None, finding: ValidationResult
) -> None:
    status = patched(before, wanted_status(document(before), finding, now=NOW))
    settled = finding.reason not in (ConditionReason.CATALOG_UNAVAILABLE, ConditionReason.SUSPENDED)
    assert is_observed(document(status)) == settled  # an annotation lifts a suspension without a generation
    assert not is_observed(document(status, generation=4))


def test_an_object_that_somebody_else_declared_ready_is_still_looked_at() -> None:
    foreign = {"type": "Ready", "status": "True", "reason": "Registered", "observedGeneration": 3}
    assert not is_observed(document({"conditions": [foreign]}))


def test_an_object_that_is_being_deleted_is_always_looked_at() -> None:
    body = document(wanted_status(document(), served(), now=NOW))
    body["metadata"]["deletionTimestamp"] = NOW
    assert not is_observed(body)


def test_the_time_of_a_condition_moves_with_its_status_alone() -> None:
    first = wanted_status(document(), served(), now=NOW)
    bumped = wanted_status(document(first, generation=4), served("2"), now=LATER)
    assert bumped["conditions"][0]["lastTransitionTime"] == NOW
    assert bumped["conditions"][0]["observedGeneration"] == 4
    assert bumped["indexedAt"] == LATER
    broken = ValidationResult(reason=ConditionReason.INVALID, message="m")
    assert wanted_status(document(first), broken, now=LATER)["conditions"][0]["lastTransitionTime"] == LATER


def test_the_ids_are_those_of_what_the_catalog_holds_whatever_the_object_says() -> None:
    first = wanted_status(document(), served(), now=NOW)
    held = ValidationResult(reason=ConditionReason.INVALID, message="m", version_id="wf_ver_2", content_hash="2")
    kept = wanted_status(document(first), held, now=LATER)
    assert (kept["versionId"], kept["contentHash"], kept["catalogStatus"]) == ("wf_ver_2", "2", "Invalid")
    nothing = wanted_status(document(first), ValidationResult(reason=ConditionReason.INVALID, message="m"), now=LATER)
    assert nothing["versionId"] is None
    unknown = wanted_status(document(first), postponed(Unavailable("away")), now=LATER)
    assert unknown["versionId"] == "wf_ver_1"


def test_conditions_of_others_are_kept_and_never_a_reason_to_write() -> None:
    foreign = {"type": "Scanned", "status": "True", "reason": "Clean", "lastTransitionTime": NOW}
    first = wanted_status(document({"conditions": [foreign]}), served(), now=NOW)
    assert foreign in first["conditions"]
    changed = {**first, "conditions": [*first["conditions"][:3], {**foreign, "status": "False"}]}
    assert not differs(document(changed), wanted_status(document(changed), served(), now=LATER), kept=changed)


def test_a_workflow_that_is_served_and_cannot_be_run_says_why() -> None:
    finding = ValidationResult(
        reason=ConditionReason.SERVED, message="m", version_id="wf_ver_1", not_invocable="it declares no parameters"
    )
    said = {each["type"]: each for each in wanted_status(document(), finding, now=NOW)["conditions"]}
    assert said["Ready"]["status"] == "True"
    assert (said["Invocable"]["status"], said["Invocable"]["reason"]) == ("False", "NotInvocable")
    assert "declares no parameters" in said["Invocable"]["message"]


def test_events_tell_new_standings_and_new_versions_and_nothing_else() -> None:
    first = wanted_status(document(), served(), now=NOW)
    created = transition(document(), first)
    assert created is not None
    assert (created.type, created.reason) == ("Normal", "Served")
    superseded = transition(document(first), wanted_status(document(first), served("2"), now=LATER))
    assert superseded is not None
    assert superseded.type == "Normal"
    refused = transition(
        document(first),
        wanted_status(
            document(first), ValidationResult(reason=ConditionReason.VERSION_IMMUTABLE, message="raise it"), now=LATER
        ),
    )
    assert refused is not None
    assert (refused.type, refused.message) == ("Warning", "raise it")


def test_an_outage_of_the_catalog_is_pending_and_says_that_it_is_retried() -> None:
    status = wanted_status(document(), postponed(Unavailable("the database does not answer")), now=NOW)
    assert status["catalogStatus"] == "Pending"
    assert status["conditions"][0]["message"] == "the database does not answer; this is retried automatically"
