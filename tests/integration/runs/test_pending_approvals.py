"""Which runs wait for a person: listed to who may read them, with why and until when; nothing is approved by it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.browsing import PendingApprovals
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.requests import ApprovalsRequest
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.runs.approvals import WaitingRuns
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import runs
from support.access import EVERYWHERE, Rights
from support.filling import fill
from support.manifest import workflow
from support.services import open_parts

RISKY = replace(runs.HARMLESS, risk_level="high", environment="production")
STRANGER = "system:serviceaccount:bank:agent"


@pytest.fixture
async def parts(database: str, workflows: CatalogWriter, writing: Database) -> AsyncIterator[CatalogParts]:
    """A catalog with a run in `shop` that waits, one in `bank` that does, and one in `shop` that need not."""
    (entry,) = await fill(workflows, [workflow("restart", riskLevel="high")])
    store = InvocationStore(writing, shared_namespace="formulary")
    about: dict[str, Any] = {"version_id": entry.version_id, "document": entry.document}
    await store.submit(runs.request(facts=RISKY, **about))
    bank = replace(RISKY, namespace="bank", caller=STRANGER)
    await store.submit(runs.request(facts=bank, namespace="bank", caller=STRANGER, **about))
    await store.submit(runs.request(facts=replace(runs.HARMLESS, environment="staging"), **about))
    async with open_parts(database) as opened:
        yield opened


async def pending(
    parts: CatalogParts, *, caller: str = "somebody", read: tuple[str, ...] = (), namespace: str = ""
) -> PendingApprovals:
    return await WaitingRuns(parts).pending(
        ApprovalsRequest(namespace=namespace),
        context=ContextReference(),
        caller=Caller(name=caller, access=Rights(see=[EVERYWHERE], read=read)),
    )


async def test_who_may_read_runs_is_told_which_wait_and_why_and_until_when(parts: CatalogParts) -> None:
    listed = await pending(parts, read=("shop",), namespace="shop")
    (waiting,) = listed.approvals
    assert (waiting.workflow_id, waiting.namespace, listed.total) == ("formulary/restart", "shop", 1)
    assert "high" in waiting.reason
    asked, until = (datetime.fromisoformat(at) for at in (waiting.asked_at, waiting.waits_until))
    assert until - asked == timedelta(hours=24)
    assert await pending(parts, read=("shop",), namespace="shop") == listed


async def test_others_are_told_of_their_own_runs_alone(parts: CatalogParts) -> None:
    assert (await pending(parts)).total == 0
    assert (await pending(parts, namespace="bank")).total == 0
    assert (await pending(parts, read=("shop",), namespace="bank")).total == 0
    own = await pending(parts, caller=STRANGER)
    assert [each.namespace for each in own.approvals] == ["bank"]
    assert {each.namespace for each in (await pending(parts, read=(EVERYWHERE,))).approvals} == {"shop", "bank"}


async def test_a_run_of_a_suspended_workflow_is_not_told_of(parts: CatalogParts, workflows: CatalogWriter) -> None:
    await workflows.suspend(namespace="formulary", name="restart")
    assert (await pending(parts, read=(EVERYWHERE,))).total == 0


async def test_a_namespace_in_which_nothing_waits_is_answered_with_those_in_which_something_does(
    parts: CatalogParts,
) -> None:
    own, right = (await pending(parts, caller=STRANGER, namespace="bnk")).notes
    assert own == "no run that you may see waits in namespace 'bnk'; runs wait in bank; check its name, or leave it out"
    assert right.startswith("you may not get workflowinvocations.formulary.dev in namespace bnk or formulary, so what")
    for namespace in ("bank", "nowhere"):
        note, _ = (await pending(parts, namespace=namespace)).notes
        assert note.endswith(f"in namespace {namespace!r}; check its name, or leave it out")
