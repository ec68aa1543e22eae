"""An attacker names a workflow that was suspended, or has a run start that was accepted before a withdrawal."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import UNPROVEN_USER, Phase, Reason
from formulary_catalog.domain.runs.start_checks import TargetNow, Withdrawn
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.targets.mapping import PREFIX
from formulary_catalog.errors import NotFound
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.api.names import ANALYSES, WORKFLOWS
from support.cluster import OperatorAccount, fetch, without_rights_on
from support.cluster_runs import (
    EVERYWHERE,
    INPUT,
    REPLICAS,
    approve,
    ask,
    await_phase,
    created_jobs,
    incident,
    remedy,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster, ControlPlane
from support.filling import entry
from support.manifest import approval, invocation, workflow
from support.operator_process import Daemon
from support.runs import request

AGENT = Caller(name="agent", access=EVERYTHING)
NOWHERE = ContextReference()


def _forms(version_id: str, *, version: str) -> tuple[str, ...]:
    named = ("restart", "formulary/restart")
    return (*named, *(f"{name}@{version}" for name in named), version_id)


async def test_no_version_of_a_suspended_workflow_is_found_in_any_form(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    old, new = entry(workflow("restart")), entry(workflow("restart", version="2.0.0"))
    for each in (old, new):
        await workflows.apply(each)
    await workflows.apply(entry(workflow("restart", version="2.0.0", suspend=True)))
    forms = {*_forms(old.version_id, version="1.0.0"), *_forms(new.version_id, version="2.0.0")}
    for form in sorted(forms):
        for browsing in (False, True):
            with pytest.raises(NotFound):
                await service.details(form, context=NOWHERE, caller=AGENT, browsing=browsing)
        with pytest.raises(NotFound):
            await service.record_selection(workflow_id=form, reasoning="I want it.", context=NOWHERE, caller=AGENT)
    await workflows.apply(new)
    assert (await service.details("restart@1.0.0", context=NOWHERE, caller=AGENT)).status == "Superseded"


INCIDENT = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-1",
    environment="staging",
    target_api_version="apps/v1",
    target_kind="Deployment",
    target_name="checkout",
    target_namespace="shop",
)
FOR_STAGING: Mapping[str, Any] = {"labels": {**EVERYWHERE, "environment": ["staging"]}}


async def _suspended(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    await workflows.suspend(namespace="formulary", name="restart")


async def _deleted(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    await workflows.remove(namespace="formulary", name="restart")


async def _relabelled(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    labels = {**EVERYWHERE, "environment": ["qa"]}
    await workflows.apply(entry(workflow("restart", version="1.0.1", labels=labels)))


async def _incident_relabelled(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    await contexts.save(RequestContext(**{**_members(INCIDENT), "environment": "qa"}))


async def _incident_moved(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    await contexts.save(RequestContext(**{**_members(INCIDENT), "target_name": "payments"}))


async def _incident_removed(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    await contexts.remove(namespace="shop", name="oom")


def _members(context: RequestContext) -> dict[str, Any]:
    return {name: getattr(context, name) for name in RequestContext.__slots__}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("withdraw", "reason"),
    [
        (_suspended, "NotInvocable"),
        (_deleted, "WorkflowNotFound"),
        (_relabelled, "Denied"),
        (_incident_relabelled, "Denied"),
        (_incident_moved, "InputInvalid"),
        (_incident_removed, "InputInvalid"),
    ],
)
async def test_a_run_that_was_accepted_before_a_withdrawal_does_not_start(
    withdraw: Callable[..., Any],
    reason: str,
    begun: bool,
    workflows: CatalogWriter,
    contexts: ContextWriter,
    writing: Database,
) -> None:
    known = entry(workflow("restart", **FOR_STAGING))
    await workflows.apply(known)
    await contexts.save(INCIDENT)
    runs = RunWriter(writing, shared_namespace="formulary")
    accepted = request(version_id=known.version_id, document=known.document, analysis="shop/oom")
    run = (await runs.submit(accepted)).invocation
    if begun:
        assert (await runs.begin(run.id) or run).phase is Phase.RUNNING
        assert await runs.leave_to_start(run.id, seconds=1) is not None
    await withdraw(workflows, contexts)
    if begun:
        assert await runs.leave_to_start(run.id, seconds=1) is None
    now = await runs.begin(run.id)
    assert now is not None
    assert (now.phase, now.reason) == (Phase.FAILED, reason)
    assert "nothing was run" in now.message


async def test_a_run_of_an_incident_that_names_no_target_starts_on_the_one_that_was_asked_for(
    workflows: CatalogWriter, contexts: ContextWriter, writing: Database
) -> None:
    known = entry(workflow("restart", labels=EVERYWHERE))
    await workflows.apply(known)
    await contexts.save(RequestContext(namespace="shop", name="oom", remediation_id="rr-1", environment="staging"))
    runs = RunWriter(writing, shared_namespace="formulary")
    accepted = request(version_id=known.version_id, document=known.document, analysis="shop/oom")
    run = (await runs.submit(accepted)).invocation
    assert (await runs.begin(run.id) or run).phase is Phase.RUNNING


@pytest.mark.smoke
async def test_an_incident_that_turned_out_to_be_of_production_takes_an_approval(
    workflows: CatalogWriter, contexts: ContextWriter, writing: Database
) -> None:
    known = entry(workflow("restart", labels=EVERYWHERE))
    await workflows.apply(known)
    await contexts.save(INCIDENT)
    runs = RunWriter(writing, shared_namespace="formulary")
    accepted = request(version_id=known.version_id, document=known.document, analysis="shop/oom")
    run = (await runs.submit(accepted)).invocation
    assert run.phase is Phase.PENDING
    await contexts.save(RequestContext(**{**_members(INCIDENT), "environment": "production"}))
    now = await runs.begin(run.id)
    assert now is not None
    assert now.phase is Phase.AWAITING_APPROVAL


OF_TARGET = replace(INCIDENT, name="", remediation_id="")
QUIET = {"restarts": ("no",)}
GONE = Withdrawn(reason=Reason.INPUT_INVALID, message="nothing was run, since the target is gone")


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ((replace(OF_TARGET, environment="qa"),), "Denied"),
        ((replace(OF_TARGET, custom_labels=QUIET),), "Denied"),
        ((OF_TARGET, replace(OF_TARGET, target_name="payments", custom_labels=QUIET)), "Denied"),
        ((replace(OF_TARGET, target_name="payments"),), "InputInvalid"),
        ((replace(OF_TARGET, target_api_version="apps.example/v1"),), "InputInvalid"),
        (GONE, "InputInvalid"),
        (None, "InputInvalid"),
    ],
)
@pytest.mark.smoke
async def test_a_run_whose_target_forbids_its_workflow_by_now_or_is_not_known_does_not_start(
    target: TargetNow, reason: str, begun: bool, workflows: CatalogWriter, writing: Database
) -> None:
    known = entry(workflow("restart", **FOR_STAGING))
    await workflows.apply(known)
    runs = RunWriter(writing, shared_namespace="formulary")
    accepted = request(version_id=known.version_id, document=known.document, remediation_id="")
    run = (await runs.submit(accepted)).invocation
    if begun:
        assert (await runs.begin(run.id, target=(OF_TARGET,)) or run).phase is Phase.RUNNING
        assert await runs.leave_to_start(run.id, seconds=1, target=target) is None
    now = await runs.begin(run.id, target=target)
    assert now is not None
    assert (now.phase, now.reason) == (Phase.FAILED, reason)
    assert "nothing was run" in now.message


@pytest.mark.parametrize("further", [(), (OF_TARGET,)], ids=["the-target", "and-something-in-staging"])
async def test_a_target_that_is_in_production_by_now_takes_an_approval(
    further: tuple[RequestContext, ...], workflows: CatalogWriter, writing: Database
) -> None:
    known = entry(workflow("restart", labels=EVERYWHERE))
    await workflows.apply(known)
    runs = RunWriter(writing, shared_namespace="formulary")
    accepted = request(version_id=known.version_id, document=known.document, remediation_id="")
    run = (await runs.submit(accepted)).invocation
    now = await runs.begin(run.id, target=(*further, replace(OF_TARGET, environment="production")))
    assert now is not None
    assert now.phase is Phase.AWAITING_APPROVAL


CATALOG: Mapping[str, dict[str, Any]] = {name: remedy(name) for name in ("suspend", "delete", "relabel", "moved")}
OTHER = {"name": "OTHER", "type": "string", "required": False, "description": "Another workload."}
WITHOUT_INCIDENT = remedy("without-incident", parameters=[REPLICAS, OTHER])


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, shared_namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    with running_operator(
        cluster,
        *CATALOG.values(),
        WITHOUT_INCIDENT,
        dsn=dsn,
        namespace=shared_namespace,
        account=operator_account,
        context_target="kubernetes",
    ) as daemon:
        yield daemon


@pytest.mark.smoke
@pytest.mark.parametrize(
    "how",
    [
        "labelled",
        "unchanged",
        *(pytest.param(how, marks=pytest.mark.long) for how in ("unlabelled", "gone", "unreadable")),
    ],
)
def test_a_run_that_waits_for_an_approval_when_its_target_comes_to_forbid_it_creates_no_job(
    how: str, control_plane: ControlPlane, dsn: str, shared_namespace: str, running: Daemon
) -> None:
    cluster, ns = control_plane, shared_namespace
    cluster.kubectl("label", "namespace", ns, "environment=production", "constraint.formulary.dev/restarts-")
    cluster.apply(_deployment(how), namespace=ns)
    asked = server_request(how, namespace=ns, key=how, environment="production", manifest=WITHOUT_INCIDENT)
    run = submit(dsn, replace(asked, remediation_id="")).id
    await_phase(cluster, run, "AwaitingApproval", namespace=ns)
    with without_rights_on("deployments", cluster=cluster) if how == "unreadable" else nullcontext():
        if how == "labelled":
            cluster.kubectl("label", "namespace", ns, "constraint.formulary.dev/restarts=no")
        elif how == "unlabelled":
            cluster.kubectl("label", "namespace", ns, "environment-")
        elif how == "gone":
            cluster.kubectl("delete", "deployment", how, f"--namespace={ns}")
        approve(dsn, run, namespace=ns)
        told = await_phase(cluster, run, "Running" if how == "unchanged" else "Failed", namespace=ns)
    assert created_jobs(control_plane.requests(), namespace=ns).count(run) == (how == "unchanged")
    assert how == "unchanged" or f"the owners of {ns}/Deployment/{how} demand now" in told["message"]


@pytest.mark.parametrize(
    ("says", "named", "phase", "said"),
    [
        ("restarts=yes", True, "AwaitingApproval", "production"),
        ("restarts=no", True, "Failed", "do not"),
        ("restarts=no", False, "Failed", "do not"),
        pytest.param("restarts=yes", False, "AwaitingApproval", "production", marks=pytest.mark.long),
        pytest.param("unlabelled", True, "Failed", "has no label", marks=pytest.mark.long),
        pytest.param("unlabelled", False, "Failed", "has no label", marks=pytest.mark.long),
        pytest.param("gone", True, "Failed", "does not exist", marks=pytest.mark.long),
    ],
)
def test_labels_of_its_target_or_namespace_constrain_a_run_that_somebody_creates_with_kubectl(
    says: str, named: bool, phase: str, said: str, cluster: Cluster, shared_namespace: str, running: Daemon
) -> None:
    name, ns = says.replace("=", "-") + ("" if named else "-unnamed"), shared_namespace
    restarts = f"constraint.formulary.dev/{says if '=' in says else 'restarts-'}"
    environment = "environment-" if says == "unlabelled" else "environment=production"
    cluster.kubectl("label", "--overwrite", "namespace", ns, environment, restarts)
    if says != "gone":
        cluster.apply(_deployment(name), namespace=ns)
    target: dict[str, Any] = {"target": {"kind": "Deployment", "name": name}} if named else {}
    asked = invocation(name, workflow="without-incident", input=INPUT, **target)
    cluster.apply(asked, namespace=ns)
    told = await_phase(cluster, name, phase, namespace=ns)
    assert said in told["message"]


def test_a_search_binds_a_run_that_somebody_creates_with_kubectl_to_its_target(
    cluster: Cluster, dsn: str, shared_namespace: str, running: Daemon
) -> None:
    ns, search = shared_namespace, str(uuid4())
    cluster.kubectl("label", "--overwrite", "namespace", ns, "environment=production", f"{PREFIX}restarts-")
    cluster.apply(_deployment("searched"), _deployment("not-searched"), namespace=ns)
    said = {"caller": UNPROVEN_USER, "search_id": search, "target": f"{ns}/Deployment/searched", "outcome": "ok"}
    fetch(dsn, "select formulary.append_trace($1, 'search', $2)", f"tr_{search}", json.dumps(said))
    asked: dict[str, Any] = {"workflow": "without-incident", "input": INPUT, "searchId": search}
    elsewhere: dict[str, Any] = {"target": {"kind": "Deployment", "name": "not-searched"}}
    cluster.apply(invocation("bound", **asked), invocation("lies", **asked, **elsewhere), namespace=ns)

    await_phase(cluster, "bound", "AwaitingApproval", namespace=ns)
    about = "select target ->> 'name' from formulary.invocation where namespace = $1 and object_name = 'bound'"
    assert fetch(dsn, about, ns) == [("searched",)]
    refused = await_phase(cluster, "lies", "Failed", namespace=ns)
    assert f"for {ns}/Deployment/not-searched" in refused["message"]


def test_neither_an_incident_of_ones_own_nor_another_object_leads_around_what_labels_forbid(
    cluster: Cluster, shared_namespace: str, running: Daemon
) -> None:
    ns = shared_namespace
    labels = ("label", "--overwrite", "namespace", ns, "environment=production")
    cluster.kubectl(*labels, f"{PREFIX}restarts=no")
    ask(cluster, "own-incident", namespace=ns, environment="production", workflowRef={"workflowId": "without-incident"})
    of_namespace = await_phase(cluster, "own-incident", "Failed", namespace=ns)
    cluster.kubectl(*labels, f"{PREFIX}restarts-")
    guarded = _deployment("guarded")
    guarded["metadata"]["labels"] = {f"{PREFIX}restarts": "no"}
    cluster.apply(_deployment("open"), guarded, namespace=ns)
    about: dict[str, Any] = {"workflow": "without-incident", "target": {"kind": "Deployment", "name": "open"}}
    cluster.apply(
        *(
            invocation(name, **about, input={**INPUT, "OTHER": f"deployment/{name}"})
            for name in ("guarded", "open", "not-there")
        ),
        namespace=ns,
    )
    of_object = await_phase(cluster, "guarded", "Failed", namespace=ns)
    for name in ("open", "not-there"):
        await_phase(cluster, name, "AwaitingApproval", namespace=ns)

    assert f"the owners of {ns}/Namespace/{ns} demand now" in of_namespace["message"]
    assert f"the owners of {ns}/Deployment/guarded demand now" in of_object["message"]


def _deployment(name: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
    }
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("how", CATALOG)
def test_a_run_that_waits_for_an_approval_when_its_workflow_or_incident_goes_creates_no_job(
    how: str, control_plane: ControlPlane, shared_namespace: str, running: Daemon
) -> None:
    cluster, ns = control_plane, shared_namespace
    cluster.kubectl("label", "--overwrite", "namespace", ns, "environment=production", f"{PREFIX}restarts-")
    ask(cluster, how, namespace=ns, environment="production", workflowRef={"workflowId": how})
    told = await_phase(cluster, how, "AwaitingApproval", namespace=ns)
    if how == "suspend":
        cluster.apply(remedy(how, suspend=True), namespace=ns)
    elif how == "delete":
        cluster.kubectl("delete", WORKFLOWS.plural, how, f"--namespace={ns}")
    elif how == "relabel":
        cluster.apply(remedy(how, version="2.0.0", labels={**EVERYWHERE, "environment": ["dev"]}), namespace=ns)
    else:
        other = incident(how, namespace=ns, environment="production")
        other["spec"]["analysisRequest"]["signalContext"]["targetResource"]["name"] = "payments"
        cluster.kubectl("delete", ANALYSES.plural, how, f"--namespace={ns}")
        cluster.apply(other, namespace=ns)
    cluster.apply(approval(how, run=told["invocationId"]), namespace=ns)
    await_phase(cluster, how, "Failed", namespace=ns)
    assert told["invocationId"] not in created_jobs(control_plane.requests(), namespace=ns)
