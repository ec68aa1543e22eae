"""What objects of runs, approvals and contracts are made of, and what their statuses tell."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import UNPROVEN_USER, Invocation, Phase, Reason, RunTarget, Source, id_of_object
from formulary_catalog.domain.runs.submission import RunRules
from formulary_catalog.domain.stored import StoredManifest, WorkflowOutcome
from formulary_catalog.domain.workflows.inputs import check_input
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import FormularyError, InvalidInput, NotInvocable
from formulary_operator.api.invocation import ApprovalSpec
from formulary_operator.engines import engine_of, observations
from formulary_operator.kube.conditions import conditions_of, find
from formulary_operator.kube.patching import merge_patch
from formulary_operator.runs.plan import content_of, is_owned, outcome_message, plan_of, seconds_left, secret_of
from formulary_operator.runs.request import parse_run_request, requested_run
from formulary_operator.runs.status import (
    UNKNOWN_RUN,
    Answered,
    RunRefusal,
    approval_status,
    change,
    desired_object,
    is_answered,
    is_settled,
    owner_of,
    refused_status,
    run_status,
    stands_for,
    unproven,
)
from support.cluster_runs import INPUT, remedy
from support.manifest import invocation
from support.plans import BUNDLE, plan

NOW = "2026-11-22T12:00:00Z"
BEGAN = datetime(2026, 11, 22, 11, 59, tzinfo=UTC)
VERSION = StoredManifest(
    version_id="wf_ver_0123456789abcdef0123",
    namespace="formulary",
    name="restart",
    version="1.0.0",
    status="Active",
    changed_at=BEGAN,
    ambiguous=False,
    document=remedy(),
    outcome=WorkflowOutcome(),
)
INCIDENT = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-1",
    environment="staging",
    target_namespace="shop",
    target_api_version="apps/v1",
    target_kind="Deployment",
    target_name="checkout",
)
WORKFLOW = RemediationWorkflow.model_validate(remedy())
RUN = Invocation(
    id="inv-0123456789abcdef0123",
    source=Source.SERVER,
    namespace="shop",
    object_name="inv-0123456789abcdef0123",
    object_uid="",
    workflow_namespace="formulary",
    workflow_name="restart",
    workflow_version="1.0.0",
    version_id=VERSION.version_id,
    document=remedy(),
    input={"REPLICAS": 2, "TOKEN": "sha256:0d1e"},
    target=RunTarget(kind="Deployment", name="checkout", namespace="shop"),
    facts={},
    remediation_id="rr-1",
    analysis="shop/oom",
    search_id=None,
    requester="system:serviceaccount:agents:holmes",
    timeout_seconds=60,
    idempotency_key="",
    trace_id="rr-1",
    dry_run=False,
    degraded=False,
    phase=Phase.RUNNING,
    reason=Reason.STARTED,
    message="",
    decision={"outcome": "ALLOW", "message": "Allowed: by default."},
    outputs={},
    manifest={},
    reference={},
    revision=3,
    created_at=BEGAN,
    started_at=BEGAN,
    finished_at=None,
)


def stored(document: dict[str, Any], *, generation: int = 1, **status: Any) -> dict[str, Any]:
    """The document as the API server gives it."""
    metadata = {"namespace": "shop", "uid": "u-1", "generation": generation, **document["metadata"]}
    return {**document, "metadata": metadata} | ({"status": status} if status else {})


def request(
    *,
    context: RequestContext | None = INCIDENT,
    version: StoredManifest = VERSION,
    history: Sequence[StoredManifest] = (VERSION,),
    **spec: Any,
) -> Any:
    """The run that an object asks for, by somebody who is known."""
    document = stored(invocation("by-hand", **{"input": INPUT, **spec}))
    return requested_run(
        parse_run_request(document),
        version=version,
        history=history,
        context=context,
        requester="ada",
        runs_namespace="formulary-runs",
        rules=RunRules(shared_namespace="formulary"),
    )


def texts(value: Any) -> list[str]:
    """All texts within a status."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts(inner)]
    return [value] if isinstance(value, str) else []


def test_an_object_asks_for_a_run_of_its_own_for_the_target_of_its_incident() -> None:
    new = request(remediationId="rr-1")
    assert (new.id, new.source, new.object_uid) == (id_of_object("u-1"), Source.CLUSTER, "u-1")
    assert (new.values, new.secret, new.requester) == (INPUT, {}, "ada")
    assert (new.target.name, new.analysis, new.trace_id) == ("checkout", "shop/oom", "rr-1")
    assert (new.facts["environment"], new.facts["caller_may_target"], new.facts["allowed_here"]) == (
        "staging",
        True,
        True,
    )


OF_TARGET = replace(INCIDENT, name="", remediation_id="")
PLACE = {"name": "NAMESPACE", "type": "string", "required": True, "description": "Where."}
TARGET = {"kind": "deployment", "name": "checkout"}


def test_an_object_that_names_a_target_is_judged_by_what_its_owners_demand_and_bound_to_it() -> None:
    placed = replace(VERSION, document=remedy(parameters=[PLACE], customLabels={"restarts": "yes"}))
    quiet = replace(OF_TARGET, custom_labels={"restarts": ("no",)})

    new = request(context=OF_TARGET, version=placed, input={}, target=TARGET)
    forbidden = request(context=quiet, version=placed, input={}, target=TARGET)

    assert (str(new.target), new.target.api_version, new.analysis) == ("shop/Deployment/checkout", "apps/v1", "")
    assert (new.values, new.facts["environment"], new.facts["allowed_here"]) == ({"NAMESPACE": "shop"}, "staging", True)
    assert not forbidden.facts["allowed_here"]
    with pytest.raises(InvalidInput, match="names another object than the target"):
        request(context=OF_TARGET, version=placed, input={"NAMESPACE": "bank"}, target=TARGET)
    with pytest.raises(InvalidInput, match=r"spec\.target: bank/Deployment/checkout is healed in another namespace"):
        request(context=replace(OF_TARGET, target_namespace="bank"), target=TARGET)


def test_the_timeout_is_twice_the_estimate_and_at_least_thirty_seconds() -> None:
    slow = replace(VERSION, document=remedy(estimatedDuration="10m"))
    requests = [request(), request(version=slow), request(timeoutSeconds=7)]
    assert [each.timeout_seconds for each in requests] == [30, 1200, 7]


def test_a_target_in_another_namespace_counts_against_whoever_creates_objects_here() -> None:
    new = request(context=None, target={"kind": "Deployment", "name": "vault", "namespace": "bank"})
    assert new.facts["caller_may_target"] is False


def test_a_requester_whom_nobody_knows_is_unknown_to_the_rules() -> None:
    document = stored(invocation("by-hand", input=INPUT))
    new = requested_run(
        parse_run_request(document),
        version=VERSION,
        history=(VERSION,),
        context=None,
        requester=UNPROVEN_USER,
        runs_namespace="formulary-runs",
        rules=RunRules(shared_namespace="formulary"),
    )
    assert (new.requester, new.facts["caller"], new.facts["unproven"]) == (UNPROVEN_USER, "", True)
    assert request().facts["unproven"] is False
    assert request().facts["caller"] == "ada"


def test_no_message_is_longer_than_the_api_server_takes() -> None:
    status = run_status(stored(invocation("x")), replace(RUN, message="m" * 40_000), now=NOW)
    assert max(map(len, texts(status))) == 32_768


def test_what_the_labels_of_the_incident_exclude_is_told_to_the_rules() -> None:
    elsewhere = replace(INCIDENT, custom_labels={"team": ("search",)})
    ours = replace(VERSION, document=remedy(customLabels={"team": "payments"}))
    assert request(context=elsewhere, version=ours, remediationId="rr-1").facts["allowed_here"] is False


@pytest.mark.parametrize(
    ("spec", "context", "error", "words"),
    [
        ({"input": {"REPLICAS": "many"}}, None, InvalidInput, "must be of type integer"),
        ({"input": {**INPUT, "TOKEN": "hush"}}, None, InvalidInput, "is sensitive"),
        ({"timeoutSeconds": -1}, None, InvalidInput, "timeoutSeconds"),
        ({"input": {"REPLICAS": 2, "NOTE": ["a\0b"]}}, None, InvalidInput, "contains a NUL"),
        ({"workflowRef": {"workflowId": "a/b/c"}}, None, InvalidInput, "is not a workflow name"),
        ({"workflowRef": {"workflowId": "shop/a", "namespace": "bank"}}, None, InvalidInput, "contradicts"),
        ({"workflowRef": {"workflowId": "a", "snapshot": {}}}, None, InvalidInput, "is not the content of"),
        ({"searchId": "mine"}, None, InvalidInput, "is no id of a search"),
        ({}, replace(INCIDENT, target_namespace="bank"), InvalidInput, "is healed in another namespace"),
        ({"target": {"kind": "Node", "name": "a"}}, INCIDENT, InvalidInput, "is not what incident"),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused_with_field_value_and_rule(
    spec: dict[str, Any], context: RequestContext | None, error: type[FormularyError], words: str
) -> None:
    with pytest.raises(error, match=words) as raised:
        request(context=context, **spec)
    assert "hush" not in str(raised.value)


def test_a_suspended_workflow_is_not_run() -> None:
    with pytest.raises(NotInvocable, match="suspended"):
        request(history=[VERSION, replace(VERSION, version="1.1.0", status="Disabled")])


def test_what_a_stored_workflow_hides_in_what_is_run_is_not_run() -> None:
    hiding = remedy(steps=[{"name": "restart", "command": "echo\u202e ok"}])
    with pytest.raises(NotInvocable, match=r"spec\.steps\.0\.command contains U\+202E"):
        request(version=replace(VERSION, document=hiding))
    described = remedy(steps=[{"name": "restart", "command": "echo ok", "description": "Says\u202e ok."}])
    assert request(version=replace(VERSION, document=described)).document == described


def test_the_object_of_a_run_names_all_of_it_and_is_recognized() -> None:
    made = desired_object(RUN)
    assert made["spec"]["workflowRef"]["snapshot"] == RUN.document["spec"]
    assert made["spec"]["input"]["TOKEN"] == "sha256:0d1e"
    assert "" not in made["spec"].values(), "older API servers take an empty text for null"
    assert stands_for(stored(made), RUN)
    assert not stands_for(stored({**made, "spec": {**made["spec"], "requester": "mallory"}}), RUN)
    assert not stands_for(stored(made), replace(RUN, object_uid="u-2"))


@pytest.mark.parametrize("phase", list(Phase))
def test_a_status_never_holds_an_empty_text_and_says_where_the_run_stands(phase: Phase) -> None:
    run = replace(RUN, phase=phase, decision={})
    document = stored(desired_object(run))
    told = run_status(document, run, now=NOW)
    assert "" not in texts(told)
    assert (told["phase"], told["startedAt"], told["finishedAt"]) == (phase.value, "2026-11-22T11:59:00Z", None)
    assert is_settled({**document, "status": told}) is phase.is_final
    assert find(told["conditions"], "Complete")["status"] == str(phase.is_final)


@pytest.mark.parametrize(
    ("run", "approved"),
    [
        (RUN, "True"),
        (replace(RUN, phase=Phase.AWAITING_APPROVAL, started_at=None), "Unknown"),
        (replace(RUN, phase=Phase.FAILED, reason=Reason.DENIED, started_at=None), "False"),
        (replace(RUN, phase=Phase.FAILED, reason=Reason.REJECTED, started_at=None), "False"),
        (replace(RUN, phase=Phase.FAILED, reason=Reason.RUN_FAILED), "True"),
        (replace(RUN, phase=Phase.CANCELLED, reason=Reason.CANCELLED, started_at=None), "Unknown"),
    ],
)
def test_the_condition_approved_tells_what_the_rules_said(run: Invocation, approved: str) -> None:
    told = run_status(stored(desired_object(run)), run, now=NOW)
    assert find(told["conditions"], "Approved")["status"] == approved


def test_a_status_names_the_version_that_runs_also_where_the_request_names_none() -> None:
    by_hand = stored(invocation("by-hand"))
    assert "version" not in by_hand["spec"]["workflowRef"]
    assert run_status(by_hand, RUN, now=NOW)["workflowVersion"] == RUN.workflow_version


@pytest.mark.parametrize(("account", "shown"), [("", None), ("remediation", "remediation")])
def test_the_content_of_a_job_names_the_account_that_it_has_and_no_other(account: str, shown: str | None) -> None:
    run = plan(execution={"engine": "job", "bundle": BUNDLE, "serviceAccountName": account})
    manifest = engine_of(run.workflow).manifest(run)
    assert content_of(RUN, workflow=run.workflow, plan=run, manifest=manifest).get("serviceAccount") == shown


def test_a_dry_run_shows_its_manifest() -> None:
    run = replace(RUN, phase=Phase.SUCCEEDED, reason=Reason.DRY_RUN, manifest={"kind": "Job"})
    assert run_status(stored(desired_object(run)), run, now=NOW)["outputs"] == {"manifest": {"kind": "Job"}}


def test_a_changed_spec_is_told_and_counts_for_nothing() -> None:
    told = run_status(stored(desired_object(RUN), generation=2), RUN, now=NOW)
    assert find(told["conditions"], "Accepted")["reason"] == "ChangeIgnored"


def test_only_another_standing_is_an_event() -> None:
    document = stored(desired_object(RUN))
    first = run_status(document, RUN, now=NOW)
    assert change(document, first) is not None
    assert change({**document, "status": first}, run_status(document, replace(RUN, revision=4), now=NOW)) is None
    failed = run_status(document, replace(RUN, phase=Phase.FAILED, reason=Reason.RUN_FAILED), now=NOW)
    told = change({**document, "status": first}, failed)
    assert told is not None
    assert (told.type, told.reason) == ("Warning", "RunFailed")


def test_a_refusal_is_final() -> None:
    document = stored(invocation("wrong"))
    told = refused_status(document, RunRefusal(reason=Reason.INPUT_INVALID, message="REPLICAS: required"), now=NOW)
    assert is_settled({**document, "status": told})
    assert find(told["conditions"], "Accepted")["status"] == "False"


def test_the_values_of_sensitive_parameters_are_in_the_secret_alone() -> None:
    document = stored(desired_object(RUN))
    checked = check_input(WORKFLOW.spec.parameters, {"REPLICAS": 2, "TOKEN": "hush"})
    plan = plan_of(
        RUN,
        workflow=WORKFLOW,
        owner=owner_of(document),
        default_image="",
        default_user=65532,
        argo_strict=False,
        seconds=60,
    )
    secret = secret_of(plan, checked.secret)
    assert plan.values == {"REPLICAS": 2}
    assert plan.sensitive == {"TOKEN"}
    assert (secret["metadata"]["name"], secret["data"]) == (RUN.id, {"TOKEN": "aHVzaA=="})
    assert is_owned(secret, uid="u-1")
    assert not is_owned(secret, uid="u-2")
    assert not is_owned(secret, uid="")


def test_the_clock_of_a_run_starts_with_the_decision() -> None:
    assert seconds_left(RUN, now=BEGAN + timedelta(seconds=20)) == 40
    assert seconds_left(RUN, now=BEGAN + timedelta(seconds=70)) == -10


def test_what_a_failed_run_said_last_is_in_its_message() -> None:
    observed = observations.failed(timed_out=False, started_at=None, finished_at=None, message="BackoffLimitExceeded")
    told = outcome_message(observed, kind="Job", name="inv-1", outputs={"message": "no such deployment\n"})
    assert told == "Job inv-1 failed: BackoffLimitExceeded: no such deployment"


@pytest.mark.parametrize(
    ("decision", "approver", "counts"),
    [("Approve", "ada", True), ("Approve", "", False), ("Reject", "ada", True), ("Reject", "", True)],
)
def test_an_approval_counts_only_if_its_creator_is_known_and_a_rejection_always(
    decision: str, approver: str, counts: bool
) -> None:
    spec = ApprovalSpec.model_validate({"invocationId": RUN.id, "decision": decision})
    answered = unproven(spec, approver=approver, run=RUN)
    assert (answered is None) is counts
    if answered is not None:
        assert (answered.accepted, answered.reason, answered.approver) == (False, "Unproven", "")
        assert f"`formulary approve {RUN.id}`, the console or REST" in answered.message


def test_an_approval_is_answered_for_good_unless_its_run_may_still_come() -> None:
    document = stored({"metadata": {"name": "yes"}})
    yes = approval_status(document, Answered(accepted=True, reason="Approved", message="by ada"), now=NOW)
    unknown = approval_status(document, Answered(accepted=False, reason=UNKNOWN_RUN, message="no run"), now=NOW)
    assert is_answered({**document, "status": yes})
    assert not is_answered({**document, "status": unknown})
    assert not is_answered({**stored({"metadata": {"name": "yes"}}, generation=2), "status": yes})


def test_conditions_of_others_stay_and_a_condition_keeps_the_time_of_its_status() -> None:
    theirs = {"type": "Theirs", "status": "True"}
    before = run_status(stored(desired_object(RUN), conditions=[theirs]), RUN, now="2026-11-22T10:00:00Z")
    after = run_status(stored(desired_object(RUN), **before), RUN, now=NOW)
    assert theirs in after["conditions"]
    assert find(after["conditions"], "Accepted")["lastTransitionTime"] == "2026-11-22T10:00:00Z"
    assert conditions_of({"status": None}) == []


def test_a_patch_holds_what_differs_and_removes_what_should_not_be_there() -> None:
    current = {"a": 1, "b": {"x": 1, "y": 2}, "c": [1], "others": "stay"}
    assert merge_patch(current, {"a": 1, "b": {"x": 1, "y": 2}, "c": [1]}) == {}
    assert merge_patch(current, {"a": None, "b": {"x": 3}, "c": [1, None]}) == {
        "a": None,
        "b": {"x": 3, "y": None},
        "c": [1, None],
    }
    assert merge_patch({}, {"a": None, "b": {"x": None}}) == {"b": {}}
