"""An author writes what an engine reads one way and the gate another: images, namespaces, things of Tekton and Argo."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.submission import RunRules, why_no_run_here
from formulary_catalog.domain.stored import StoredManifest, WorkflowOutcome
from formulary_catalog.errors import InvalidInput
from formulary_operator.api.names import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from formulary_operator.engines import engine_of
from formulary_operator.engines.plan import RunPlan
from formulary_operator.runs.permitting import (
    CATALOGS_ANNOTATION,
    RUNS_LABEL,
    RunPolicy,
    Thing,
    things_of,
    why_not_run,
    why_not_used,
)
from formulary_operator.runs.request import parse_run_request, requested_run
from support.cluster_runs import INPUT, remedy
from support.manifest import invocation
from support.plans import plan

POLICY = RunPolicy(
    shared_namespace="formulary", own_namespace="formulary-system", images=("registry.example/remedies/",)
)
DIGESTS = RunPolicy(shared_namespace="formulary", digests=True)
PINNED = f"registry.example/remedies/restart@sha256:{'0a' * 32}"
ARGO = {"engine": "argo", "engineConfig": {"workflowTemplate": "restart"}}
NEEDED = {"secrets": [{"name": "bank-keys"}], "configMaps": [{"name": "bank-config"}]}

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


def _manifest(run: RunPlan) -> dict[str, Any]:
    return engine_of(run.workflow).manifest(run)


def _tekton(bundle: str = PINNED, **more: Any) -> RunPlan:
    return plan(execution={"engine": "tekton", "bundle": bundle}, **more)


def _things(run: RunPlan) -> set[Thing]:
    return set(things_of(_manifest(run), workflow=run.workflow, own_secret=""))


@pytest.mark.parametrize(
    "image",
    [
        "evil.example/x:1",
        "evil.example/registry.example/remedies/x:1",
        "registry.example.evil.example/remedies/x:1",
        "registry.example:5000/remedies/x:1",
        "registry.example/remedies",
        "registry.example/remedies-evil/x:1",
        "registry.example/Remedies/x:1",
        "remedies/x:1",
        "x",
        " registry.example/remedies/x:1",
    ],
)
@pytest.mark.parametrize("engine", ["job", "tekton"])
def test_an_image_or_bundle_that_only_looks_like_an_allowed_one_does_not_run(engine: str, image: str) -> None:
    manifest = _manifest(plan(execution={"engine": engine, "bundle": image}))
    assert "is of no registry that is allowed here" in why_not_run(manifest, policy=POLICY)


@pytest.mark.parametrize("short", ["busybox", "busybox:1", "library/busybox", "docker.io/library/busybox"])
def test_a_short_name_is_allowed_and_refused_by_the_registry_that_it_means(short: str) -> None:
    manifest = _manifest(plan(execution={"engine": "job", "bundle": short}))
    assert why_not_run(manifest, policy=replace(POLICY, images=("docker.io/library/",))) == ""
    assert why_not_run(manifest, policy=replace(POLICY, images=("busybox",)))


@pytest.mark.parametrize(
    "image",
    [
        "registry.example/remedies/restart:1.2.0",
        "registry.example/remedies/restart:sha256",
        "registry.example/remedies/restart@sha256:",
        "registry.example/remedies/restart@sha256:0a0a",
        f"registry.example/remedies/restart@sha256:{'0a' * 32}:latest",
        f"registry.example/remedies/restart@sha256:{'zz' * 32}",
    ],
)
@pytest.mark.parametrize("engine", ["job", "tekton"])
def test_where_digests_are_required_a_tag_does_not_pass_for_one(engine: str, image: str) -> None:
    manifest = _manifest(plan(execution={"engine": engine, "bundle": image}))
    assert "is not named by its digest" in why_not_run(manifest, policy=DIGESTS)


def test_a_pinned_bundle_runs_and_a_parameter_of_the_name_bundle_is_only_data() -> None:
    manifest = _manifest(_tekton(values={"bundle": "evil.example/x:1"}))
    assert why_not_run(manifest, policy=replace(POLICY, digests=True)) == ""


@pytest.mark.parametrize("execution", [{"engine": "tekton", "bundle": PINNED}, ARGO])
def test_tekton_and_argo_lend_no_account_that_nobody_released_the_default_one_included(
    execution: dict[str, Any],
) -> None:
    assert Thing(SERVICE_ACCOUNTS, "default") in _things(plan(execution=execution))
    named = plan(execution={**execution, "serviceAccountName": "bank-admin"})
    assert Thing(SERVICE_ACCOUNTS, "bank-admin") in _things(named)


@pytest.mark.parametrize(
    "execution", [{"engine": "job", "bundle": PINNED}, {"engine": "tekton", "bundle": PINNED}, ARGO]
)
@pytest.mark.parametrize("argo_strict", [False, True])
def test_what_a_workflow_depends_on_is_looked_at_whatever_runs_it(execution: dict[str, Any], argo_strict: bool) -> None:
    found = _things(plan(execution=execution, dependencies=NEEDED, argo_strict=argo_strict))
    assert found >= {Thing(SECRETS, "bank-keys"), Thing(CONFIG_MAPS, "bank-config")}


@given(names)
def test_no_namespace_of_kubernetes_holds_a_run(name: str) -> None:
    assert "belongs to Kubernetes" in why_no_run_here(f"kube-{name}", own_namespace="")


def test_the_namespace_of_the_product_holds_no_run_and_others_may() -> None:
    own = "formulary-system"
    assert "that of Formulary itself" in why_no_run_here(own, own_namespace=own)
    assert {why_no_run_here(each, own_namespace=own) for each in ("shop", "formulary-runs", "my-kube-tools")} == {""}


@given(
    labels=st.dictionaries(st.sampled_from([RUNS_LABEL, "runs"]), st.sampled_from(["allowed", "Allowed", "true", ""])),
    catalogs=st.none() | st.text("shop, *-", max_size=12),
    catalog=names,
)
def test_only_the_label_and_a_catalog_that_is_named_release_a_thing(
    labels: dict[str, str], catalogs: str | None, catalog: str
) -> None:
    annotations = {} if catalogs is None else {CATALOGS_ANNOTATION: catalogs}
    document = {"metadata": {"labels": labels, "annotations": annotations}}
    refused = why_not_used(Thing(SECRETS, "keys"), document, namespace="shop", catalog=catalog, policy=POLICY)
    assert bool(refused) is not _is_released(labels, catalogs, catalog=catalog)


def _is_released(labels: dict[str, str], catalogs: str | None, *, catalog: str) -> bool:
    named: Iterable[str] = ["shop", "formulary"] if catalogs is None else catalogs.replace(" ", "").split(",")
    return labels.get(RUNS_LABEL) == "allowed" and catalog in named


@pytest.mark.parametrize("namespace", ["shop", "formulary-system", "kube-system"])
def test_a_run_about_a_node_lives_in_the_namespace_for_that_and_nowhere_else(namespace: str) -> None:
    with pytest.raises(InvalidInput, match="create the object in formulary-runs"):
        _ask_about_a_node(namespace=namespace)
    assert _ask_about_a_node(namespace="formulary-runs").namespace == "formulary-runs"


def _ask_about_a_node(*, namespace: str) -> Any:
    document = invocation("by-hand", input=INPUT, remediationId="rr-1")
    document["metadata"] = {**document["metadata"], "namespace": namespace, "uid": "u-1"}
    version = StoredManifest(
        version_id="wf_ver_0123456789abcdef0123",
        namespace="formulary",
        name="restart",
        version="1.0.0",
        status="Active",
        changed_at=datetime(2026, 11, 22, tzinfo=UTC),
        ambiguous=False,
        document=remedy(),
        outcome=WorkflowOutcome(),
    )
    node = RequestContext(
        namespace="shop",
        name="full",
        remediation_id="rr-1",
        target_api_version="v1",
        target_kind="Node",
        target_name="w1",
    )
    return requested_run(
        parse_run_request(document),
        version=version,
        history=[version],
        context=node,
        requester="ada",
        runs_namespace="formulary-runs",
        rules=RunRules(shared_namespace="formulary"),
    )
