"""What rules and people decide on runs, and what a dry run shows instead."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.errors import (
    InvalidInput,
    NoExecutor,
    NotAllowed,
    NotFound,
    RunRefused,
)
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.contracts import ContractWriter
from support import playing
from support.invoking import asked, caller, followed, rows, trail
from support.runnable import PRODUCTION, STAGING, TARGET

pytestmark = pytest.mark.usefixtures("owner")


async def test_an_approval_lets_a_run_in_production_go_ahead_and_names_who_gave_it(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    person = caller("alice", approve=[TARGET])
    async with playing.operator(dsn):
        waiting = await service.invoke(asked(), context=PRODUCTION, caller=LOCAL)
        with pytest.raises(NotFound):
            await service.approve(
                waiting.invocation_id, decision=ApprovalDecision.APPROVE, reason="", caller=caller("mallory")
            )
        with pytest.raises(NotAllowed):
            await service.approve(
                waiting.invocation_id, decision=ApprovalDecision.APPROVE, reason="", caller=caller("local")
            )
        await service.approve(
            waiting.invocation_id, decision=ApprovalDecision.APPROVE, reason="looked at it", caller=person
        )
        ended = await followed(service, await service.status(waiting.invocation_id, caller=LOCAL, wait_seconds=10))
        with pytest.raises(InvalidInput, match="nothing is left to decide"):
            await service.approve(waiting.invocation_id, decision=ApprovalDecision.REJECT, reason="", caller=person)

    assert (waiting.state, ended.state) == ("awaiting_approval", "completed")
    assert any(f"formulary approve {waiting.invocation_id}" in note for note in waiting.notes)
    events = [
        (kind, payload)
        for kind, payload in await trail(owner, "rr-production")
        if payload.get("invocation_id") == waiting.invocation_id
    ]
    (approved,) = [payload for kind, payload in events if kind == "invocation.approved"]
    assert (approved["approver"], approved["reason"]) == ("alice", "looked at it")
    assert [kind for kind, _ in events][-2:] == ["invocation.started", "invocation.finished"]


async def test_a_rejection_ends_a_waiting_run(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn):
        waiting = await service.invoke(asked(), context=PRODUCTION, caller=LOCAL)
        await service.approve(waiting.invocation_id, decision=ApprovalDecision.REJECT, reason="not now", caller=LOCAL)
        ended = await service.status(waiting.invocation_id, caller=LOCAL, wait_seconds=10)

    assert (ended.state, ended.reason) == ("failed", "Rejected")
    assert ended.error == ended.message != ""
    assert "not now" in ended.message


@pytest.fixture
async def rules(dsn: str) -> AsyncIterator[ContractWriter]:
    database = await Database.open(dsn, role=Role.WRITER, size=1, deadline=10)
    yield ContractWriter(database, shared_namespace="formulary")
    await database.close()


def rule(effect: str, **match: Any) -> dict[str, Any]:
    return {"rules": [{"id": "no-scaling", "effect": effect, "match": match, "rationale": "Capacity is frozen."}]}


async def test_a_denied_run_names_the_rule_and_its_rationale_and_is_kept(
    service: InvocationService, dsn: str, rules: ContractWriter
) -> None:
    await rules.save(rule("DENY", workflows=["scale-out"]), namespace="formulary", name="freeze", uid="1")
    async with playing.operator(dsn):
        with pytest.raises(RunRefused, match=r"no-scaling.*freeze.*Capacity is frozen\.") as refusal:
            await service.invoke(asked(), context=STAGING, caller=LOCAL)
        answer = await service.status(refusal.value.invocation_id, caller=LOCAL)

    assert (answer.state, answer.reason) == ("failed", "Denied")
    assert refusal.value.decision["rules"][0]["id"] == "no-scaling"
    assert refusal.value.http_status == 403


@pytest.mark.parametrize(("effect", "phase"), [("DENY", "Failed"), ("HALT", "Halted")])
@pytest.mark.parametrize("workflow_id", ["scale-out", "on-tekton"])
@pytest.mark.parametrize("announced", [False, True])
async def test_the_rules_refuse_a_run_also_where_nobody_could_run_it(
    service: InvocationService,
    owner: asyncpg.Connection,
    rules: ContractWriter,
    effect: str,
    phase: str,
    workflow_id: str,
    announced: bool,
) -> None:
    if announced:
        await owner.execute(
            "insert into formulary.executor (name, engines, at) values ('gone', '{job}', now() - interval '1 day')"
        )
    contract = {"rules": [{"id": "frozen", "effect": effect, "rationale": "Capacity is frozen."}]}
    await rules.save(contract, namespace=TARGET, name="freeze", uid="1")
    try:
        with pytest.raises(RunRefused, match=r"Capacity is frozen\.") as refusal:
            await service.invoke(asked(workflow_id), context=STAGING, caller=LOCAL)
    finally:
        await rules.remove(namespace=TARGET, name="freeze")

    assert (await service.status(refusal.value.invocation_id, caller=LOCAL)).phase == phase


async def test_a_contract_of_the_namespace_of_the_run_counts_and_one_of_another_does_not(
    service: InvocationService, dsn: str, rules: ContractWriter
) -> None:
    await rules.save(rule("DENY"), namespace="bank", name="elsewhere", uid="1")
    async with playing.operator(dsn):
        assert (await service.invoke(asked(), context=STAGING, caller=LOCAL)).state == "completed"
        await rules.save(rule("DENY"), namespace=TARGET, name="here", uid="2")
        with pytest.raises(RunRefused):
            await service.invoke(asked(), context=STAGING, caller=LOCAL)


async def test_a_degraded_run_is_a_dry_run_and_says_why(
    service: InvocationService, dsn: str, rules: ContractWriter
) -> None:
    await rules.save(rule("DEGRADE"), namespace="formulary", name="careful", uid="1")
    async with playing.operator(dsn):
        answer = await service.invoke(asked(), context=STAGING, caller=LOCAL)

    assert (answer.state, answer.reason, answer.dry_run) == ("completed", "Degraded", True)
    assert any("Capacity is frozen." in note for note in answer.notes)


async def test_evidence_that_a_rule_asks_for_is_a_recorded_selection_with_reasoning(
    service: InvocationService, catalog: CatalogService, dsn: str, rules: ContractWriter
) -> None:
    await rules.save(rule("REQUIRE_EVIDENCE"), namespace="formulary", name="reasons", uid="1")
    await catalog.search(search_request(query="slow", context=STAGING, top_k=20), caller=LOCAL)
    async with playing.operator(dsn):
        waiting = await service.invoke(asked("slow"), context=STAGING, caller=LOCAL)
        await catalog.record_selection(
            workflow_id="slow", reasoning="It is the only one that fits.", context=STAGING, caller=LOCAL
        )
        answer = await service.invoke(asked("slow"), context=STAGING, caller=LOCAL)

    assert (waiting.state, answer.state) == ("awaiting_approval", "completed")


async def test_a_selection_that_its_search_did_not_return_is_no_evidence(
    service: InvocationService, catalog: CatalogService, dsn: str, rules: ContractWriter
) -> None:
    await rules.save(rule("REQUIRE_EVIDENCE"), namespace="formulary", name="reasons", uid="1")
    nothing = search_request(query="nodes", labels={"cluster": ["elsewhere"]}, context=STAGING)
    searched = await catalog.search(nothing, caller=LOCAL)
    chosen: dict[str, Any] = {
        "workflow_id": "scale-out",
        "reasoning": "It is the only one that fits.",
        "context": STAGING,
    }
    await catalog.record_selection(**chosen, search_id=searched.search_id, caller=LOCAL)
    async with playing.operator(dsn):
        waiting = await service.invoke(asked("scale-out"), context=STAGING, caller=LOCAL)
        await catalog.search(search_request(query="scale-out", context=STAGING, top_k=20), caller=LOCAL)
        await catalog.record_selection(**chosen, caller=LOCAL)
        await catalog.record_selection(**chosen, search_id=searched.search_id, caller=LOCAL)
        answer = await service.invoke(asked("scale-out"), context=STAGING, caller=LOCAL)

    assert (waiting.state, answer.state) == ("awaiting_approval", "completed")


async def test_a_dry_run_goes_to_the_cluster_where_there_is_one(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn):
        answer = await service.invoke(asked(dry_run=True), context=PRODUCTION, caller=LOCAL)

    assert (answer.state, answer.reason, answer.dry_run) == ("completed", "DryRun", True)
    assert answer.manifest["metadata"]["name"] == answer.invocation_id
    assert answer.duration_seconds is None


async def test_a_dry_run_says_what_a_real_one_would_wait_for(service: InvocationService, dsn: str) -> None:
    alone = await service.invoke(asked(dry_run=True), context=PRODUCTION, caller=LOCAL)
    async with playing.operator(dsn):
        checked = await service.invoke(asked(dry_run=True), context=PRODUCTION, caller=LOCAL)

    expected = "A dry run needs no approval. A real run would meet: Waits for an approval"
    assert alone.message.startswith(expected)
    assert (checked.message, any(expected in note for note in checked.notes)) == ("the cluster would take it", True)


async def test_without_an_executor_a_dry_run_shows_the_manifest_and_that_nobody_checked_it(
    service: InvocationService,
) -> None:
    answer = await service.invoke(
        asked(dry_run=True, input={"REPLICAS": 3, "TOKEN": "s3cr3t"}), context=STAGING, caller=LOCAL
    )

    assert (answer.state, answer.reason) == ("completed", "DryRun")
    assert (answer.manifest["kind"], answer.manifest["metadata"]["namespace"]) == ("Job", TARGET)
    assert any("no cluster has checked" in note for note in answer.notes)
    assert "s3cr3t" not in answer.model_dump_json()


async def test_without_an_executor_a_real_run_is_refused_and_nothing_is_created(
    service: InvocationService, owner: asyncpg.Connection
) -> None:
    before = await rows(owner)
    with pytest.raises(NoExecutor, match="no executor") as refusal:
        await service.invoke(asked(), context=STAGING, caller=LOCAL)

    assert refusal.value.rpc_code == -32003
    assert "dry_run" in str(refusal.value)
    assert await rows(owner) == before
