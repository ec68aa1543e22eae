"""A run comes out the same for every requester, and its timeout and facts follow from the workflow and the settings."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.runs.run import UNPROVEN_USER, NewInvocation, RunTarget, Source
from formulary_catalog.domain.runs.submission import RequestedRun, RunRules, new_run
from formulary_catalog.domain.stored import StoredManifest, WorkflowOutcome
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import InputRefused
from support.cluster_runs import INPUT, remedy

RULES = RunRules(shared_namespace="formulary", max_timeout_seconds=3600)
BY_AN_AGENT = RequestedRun(
    id="inv-0123456789abcdef0123",
    source=Source.SERVER,
    requester="system:serviceaccount:shop:holmes",
    namespace="shop",
    object_name="inv-0123456789abcdef0123",
    input=INPUT,
    target=RunTarget(kind="Deployment", name="checkout", namespace="shop"),
    timeout_seconds=None,
)
BY_HAND = replace(BY_AN_AGENT, source=Source.CLUSTER, object_name="by-hand", object_uid="u-1")


def run(
    request: RequestedRun = BY_AN_AGENT, *, namespace: str = "formulary", rules: RunRules = RULES, **spec: Any
) -> NewInvocation:
    """The run of a remedy of this namespace."""
    entry = catalog_entry(remedy(**spec), source="test", default_namespace=namespace)
    version = StoredManifest(
        namespace=namespace,
        name=entry.name,
        version=entry.version,
        version_id=entry.version_id,
        status="Active",
        changed_at=datetime(2026, 11, 22, tzinfo=UTC),
        ambiguous=False,
        document=dict(entry.document),
        outcome=WorkflowOutcome(),
    )
    workflow = RemediationWorkflow.model_validate(entry.document)
    return new_run(request, version=version, workflow=workflow, context=None, allowed_here=True, rules=rules)


def test_server_and_operator_make_the_same_run_but_for_its_names() -> None:
    agents, peoples = run(BY_AN_AGENT), run(BY_HAND)
    assert replace(peoples, source=agents.source, object_name=agents.object_name, object_uid="", salt="") == replace(
        agents, salt=""
    )


@pytest.mark.parametrize(
    ("estimated", "asked", "seconds"),
    [
        ("", None, 30),
        ("10s", None, 30),
        ("5m", None, 600),
        ("3h", None, 3600),
        ("5m", 45.0, 45),
        ("nonsense", None, 30),
    ],
)
def test_the_timeout_is_the_one_that_is_asked_for_else_twice_the_estimate_within_bounds(
    estimated: str, asked: float | None, seconds: float
) -> None:
    assert run(replace(BY_AN_AGENT, timeout_seconds=asked), estimatedDuration=estimated).timeout_seconds == seconds


@pytest.mark.parametrize(("namespace", "foreign"), [("formulary", False), ("shop", False), ("bank", True)])
def test_a_workflow_is_foreign_unless_it_is_shared_or_of_the_namespace_of_the_run(
    namespace: str, foreign: bool
) -> None:
    assert run(namespace=namespace).facts["foreign"] is foreign


def test_whom_nobody_proved_is_no_caller_to_the_rules() -> None:
    facts = run(replace(BY_HAND, requester=UNPROVEN_USER)).facts
    assert (facts["caller"], facts["unproven"]) == ("", True)


@pytest.mark.parametrize(("target", "allowed"), [("shop", True), ("", True), ("bank", False)])
def test_a_target_elsewhere_is_not_the_callers(target: str, allowed: bool) -> None:
    asked = replace(BY_AN_AGENT, target=RunTarget(kind="Deployment", name="checkout", namespace=target))
    assert run(asked).facts["caller_may_target"] is allowed


@pytest.mark.parametrize(
    ("execution", "lenient", "fact"),
    [
        (
            {"engine": "argo", "engineConfig": {"workflowTemplate": "restart"}},
            replace(RULES, argo_templates=True),
            "templated",
        ),
        (
            {"engine": "tekton", "engineConfig": {"pipelineRef": "restart"}},
            replace(RULES, tekton_bundles=True),
            "bundled",
        ),
    ],
)
def test_what_others_wrote_of_the_pods_counts_unless_the_settings_allow_it(
    execution: dict[str, Any], lenient: RunRules, fact: str
) -> None:
    assert run(execution=execution).facts[fact] is True
    assert run(execution=execution, rules=lenient).facts[fact] is False
    assert run().facts[fact] is False


def test_input_that_breaks_a_rule_of_the_workflow_makes_no_run() -> None:
    with pytest.raises(InputRefused):
        run(replace(BY_AN_AGENT, input={"REPLICAS": 0}))
