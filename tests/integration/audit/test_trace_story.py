"""The story of a real incident: recorded by the search, the selection, the approval and the run themselves."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import NotFound
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.commands import formulary
from support.filling import fill
from support.runs import CALLER, HARMLESS, request

AGENT = Caller(name=CALLER, access=EVERYTHING)
INCIDENT = ContextReference(remediation_id="rr-1")


@pytest.fixture
async def recorded(
    workflows: CatalogWriter, contexts: ContextWriter, service: CatalogService, writing: Database, embedder: Embedder
) -> None:
    """An incident in production: searched, chosen, held up, approved by a person, run."""
    await fill(
        workflows, [manifest.workflow("restart"), manifest.workflow("other", what="Drains a node.")], embedder=embedder
    )
    await contexts.save(RequestContext(namespace="shop", name="oom", remediation_id="rr-1", environment="production"))
    answer = await service.search(search_request(query="OOMKilled critical restart", context=INCIDENT), caller=AGENT)
    await service.details("restart", context=INCIDENT, caller=AGENT)
    with pytest.raises(NotFound):
        await service.details("unknown", context=INCIDENT, caller=AGENT)
    receipt = await service.record_selection(
        workflow_id="restart",
        reasoning="it restarts what was killed",
        search_id=answer.search_id,
        confidence=0.75,
        context=INCIDENT,
        caller=AGENT,
    )
    asked = request(facts=replace(HARMLESS, environment="production"), version_id=receipt.version_id)
    runs = RunWriter(writing, shared_namespace="formulary")
    run = (await runs.submit(asked)).invocation
    assert run.phase is Phase.AWAITING_APPROVAL
    approval = NewApproval(
        invocation_id=run.id, namespace="shop", decision="Approve", approver="alice", reason="seen it", name="a"
    )
    await ApprovalStore(writing).add(approval)
    begun = await runs.begin(run.id)
    assert begun is not None
    assert begun.phase is Phase.RUNNING
    await runs.note_reference(run.id, reference={"kind": "Job", "name": run.id, "namespace": "shop"})
    await runs.finish(run.id, phase=Phase.FAILED, reason="RunFailed", message="exit code 3", outputs={"seen": "2 pods"})


async def test_what_the_parts_recorded_reads_as_one_story(recorded: None, database: str) -> None:
    done = await formulary("trace", "show", "rr-1", "--database-url", database)
    assert done.code == 0, done.err
    told = re.sub(r"after [0-9.]+ s", "after 0 s", re.sub(r"inv-[0-9a-f]{20}", "inv-…", done.out))
    heads = [line[24:] for line in told.splitlines() if line[8:11] == "  +"]
    assert heads == [
        "searched for “OOMKilled critical restart”: 2 allowed",
        "read formulary/restart@1.0.0",
        "read unknown: failed",
        "chose formulary/restart@1.0.0",
        "asked to run formulary/restart@1.0.0",
        "run of formulary/restart@1.0.0: waits for an approval or evidence",
        "run of formulary/restart@1.0.0 approved by alice",
        "run of formulary/restart@1.0.0: allowed",
        "run of formulary/restart@1.0.0 started",
        "run of formulary/restart@1.0.0 failed after 0 s",
    ]
    unwrapped = re.sub(r"confidence 0\.[0-9]+", "confidence 0.…", re.sub(r"\s+", " ", told))
    for said in (
        "outcome run of formulary/restart@1.0.0 failed",
        "incident shop/oom",
        "1. formulary/restart@1.0.0 (chosen, confidence 0.",
        "error workflow 'unknown' is not found",
        "because it restarts what was killed confidence 0.… rank 1 of 2 in the search that it names",
        "run inv-… in namespace shop target shop/Deployment/checkout input REPLICAS: 2 at most 1 min 0 s",
        "missing an approval",
        "reason seen it",
        "why approved by alice (seen it)",
        "reason RunFailed as shop/Job/inv-… exit code 3 output seen: 2 pods",
    ):
        assert said in unwrapped


async def test_a_choice_belongs_to_the_search_that_it_names_and_a_dry_run_leaves_it(
    workflows: CatalogWriter,
    contexts: ContextWriter,
    service: CatalogService,
    writing: Database,
    embedder: Embedder,
    database: str,
    tmp_path: Path,
) -> None:
    manifests = [manifest.workflow("restart"), manifest.workflow("drain", what="Drains a node whose disk is full.")]
    await fill(workflows, manifests, embedder=embedder)
    await contexts.save(RequestContext(namespace="shop", name="full", remediation_id="rr-2"))
    incident = ContextReference(remediation_id="rr-2")
    queries = ("node drains, disk is full", "restart the killed container")
    answers = [
        await service.search(search_request(query=query, top_k=10, context=incident), caller=AGENT) for query in queries
    ]
    first, second = ([hit.workflow_id for hit in answer.workflows] for answer in answers)
    assert (first[0], second[0], set(first)) == ("drain", "restart", set(second))
    receipt = await service.record_selection(
        workflow_id="drain", reasoning="r", search_id=answers[0].search_id, context=incident, caller=AGENT
    )
    runs = RunWriter(writing, shared_namespace="formulary")
    asked = request(remediation_id="rr-2", version_id=receipt.version_id, workflow_name="drain", dry_run=True)
    run = (await runs.submit(asked)).invocation
    await runs.begin(run.id)
    await runs.finish(run.id, phase=Phase.SUCCEEDED, reason="DryRun", message="")

    shown = await formulary("trace", "show", "rr-2", "--database-url", database)
    exported = await formulary("trace", "export", "rr-2", str(tmp_path), "--database-url", database)
    assert (shown.code, exported.code) == (0, 0)
    page = (tmp_path / "rr-2" / "verdict.md").read_text()
    for told in (re.sub(r"\s+", " ", shown.out), page):
        assert told.count("(chosen,") == 1
        assert told.index("disk is full") < told.index("drain@1.0.0 (chosen,") < told.index("restart the killed")
        assert "rank 1 of 2 in the search that it names" in told
    unwrapped = re.sub(r"\s+", " ", shown.out)
    assert (
        "outcome chose formulary/drain@1.0.0; nothing was run for real outcome dry run of formulary/drain" in unwrapped
    )
