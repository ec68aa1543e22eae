"""Listings: filters, pages, what an empty one says, and the nearest value to a misspelt one."""

from typing import Any

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browsing import ASKED, CALLER, DOCUMENTS, NO_CONTEXT, listing
from support.filling import entry, fill
from support.manifest import workflow
from support.services import open_parts


async def names(parts: CatalogParts, **asked: Any) -> list[str]:
    return [line.workflow_id for line in (await Listing(parts).page(listing(**asked), **ASKED)).workflows]


async def test_a_listing_is_narrowed_by_each_filter(parts: CatalogParts) -> None:
    assert len(await names(parts)) == 6
    assert await names(parts, action_type="increasememorylimits") == ["oom-lower-limit", "oom-raise-limit"]
    assert await names(parts, signal_type="podpending") == ["node-add"]
    assert await names(parts, risk_level="medium") == ["oom-restart-leaking"]
    assert await names(parts, namespace="elsewhere") == []
    assert len(await names(parts, risk_level="unknown", namespace="formulary")) == 4


@pytest.mark.parametrize(
    ("filled", "incident", "asked", "note"),
    [
        (False, "", {}, "the catalog holds no workflow that you may see; load some first"),
        (True, "rr-staging", {}, "the incident's constraints allow no workflow that you may see; escalate to a human"),
        (
            True,
            "",
            {"action_type": "AddNode", "risk_level": "medium"},
            "nothing that is allowed here has all of these values; leave out a filter",
        ),
    ],
)
async def test_an_empty_listing_says_why_and_what_to_do(
    database: str,
    workflows: CatalogWriter,
    contexts: ContextWriter,
    filled: bool,
    incident: str,
    asked: dict[str, Any],
    note: str,
) -> None:
    await fill(workflows, DOCUMENTS if filled else [])
    await contexts.save(
        RequestContext(namespace="shop", name="staging", remediation_id="rr-staging", environment="nowhere")
    )
    context = ContextReference(remediation_id=incident)
    async with open_parts(database) as parts:
        page = await Listing(parts).page(listing(**asked), context=context, caller=CALLER)
    assert (page.workflows, page.notes) == ([], [note])


async def test_pages_follow_each_other_and_a_cursor_belongs_to_its_question(parts: CatalogParts) -> None:
    whole = await names(parts)
    seen: list[str] = []
    cursor = ""
    while True:
        page = await Listing(parts).page(listing(limit=2, cursor=cursor), **ASKED)
        seen += [line.workflow_id for line in page.workflows]
        assert page.total == 6
        if not page.next_cursor:
            break
        cursor = page.next_cursor
        with pytest.raises(InvalidInput, match="belongs to another question"):
            await Listing(parts).page(listing(limit=2, cursor=cursor, risk_level="low"), **ASKED)
    assert seen == whole
    for broken in ("x", "W10", "ü", "W1siYSIsICJiIiwgImMiLCAxXV0"):
        with pytest.raises(InvalidInput, match="no cursor of a listing"):
            await Listing(parts).page(listing(cursor=broken), **ASKED)


async def test_a_listing_for_a_model_stays_short_and_goes_on_where_it_stopped(
    parts: CatalogParts, workflows: CatalogWriter
) -> None:
    await fill(workflows, [workflow(f"more-{number:02}", title="A long title " * 9) for number in range(30)])
    seen: list[str] = []
    cursor = ""
    while len(seen) < 36:
        page = await Listing(parts).page(listing(cursor=cursor), **ASKED, max_bytes=2000)
        assert len(page.model_dump_json(exclude_unset=True).encode()) <= 2000
        shown, asked = len(page.workflows), min(20, 36 - len(seen))
        dropped = [f"{shown} of {asked} fit; cursor leads on, limit allows a longer answer"] if shown < asked else []
        assert [note for note in page.notes if " fit; cursor" in note] == dropped
        assert bool(page.next_cursor) == (len(seen) + shown < 36)
        seen += [line.workflow_id for line in page.workflows]
        cursor = page.next_cursor
    assert cursor == ""
    assert seen == sorted(seen)


async def test_what_is_not_served_is_listed_for_people_alone(parts: CatalogParts, workflows: CatalogWriter) -> None:
    await workflows.suspend(namespace="formulary", name="node-add")
    await workflows.apply(entry(workflow("oom-scale-out", version="2.0.0")))
    with pytest.raises(InvalidInput, match="for people who browse"):
        await names(parts, status="Disabled")
    for status, expected in (("disabled", ["node-add"]), ("Superseded", ["oom-scale-out"]), ("Invalid", [])):
        page = await Listing(parts).page(listing(status=status), **ASKED, browsing=True)
        assert [line.workflow_id for line in page.workflows] == expected
        assert page.total == len(expected)


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ({"signal_type": "OOMKiled"}, "no workflow you may see has signal_type 'OOMKiled'; did you mean OOMKilled?"),
        (
            {"action_type": "ChekQuota"},
            "no workflow you may see has action_type 'ChekQuota'; did you mean CheckQuota?",
        ),
        ({"namespace": "formulry"}, "no workflow you may see has namespace 'formulry'; did you mean formulary?"),
        ({"namespace": "zz"}, "no workflow you may see has namespace 'zz'; leave it out to see what there is"),
        ({"action_type": "AddNode", "risk_level": "high"}, ""),
        ({"signal_type": "PodPending"}, ""),
    ],
)
async def test_a_misspelt_filter_of_a_listing_is_answered_with_the_nearest_value(
    parts: CatalogParts, asked: dict[str, Any], note: str
) -> None:
    page = await Listing(parts).page(listing(**asked), **ASKED)
    assert [each for each in page.notes if each.startswith("no workflow")] == ([note] if note else [])


async def test_no_nearest_value_is_one_that_the_incident_excludes(
    parts: CatalogParts, workflows: CatalogWriter, contexts: ContextWriter
) -> None:
    labels = {**workflow("x")["spec"]["labels"], "signalType": ["VaultSealed"]}
    others = workflow("for-others", customLabels={"team": ["others"]}, labels=labels, actionType="UnsealVault")
    await fill(workflows, [others], namespace="vault")
    await contexts.save(
        RequestContext(namespace="shop", name="oom", remediation_id="rr-1", custom_labels={"team": ("us",)})
    )
    context = ContextReference(remediation_id="rr-1")
    misspelt: dict[str, Any] = {"signal_type": "VaultSeald", "action_type": "UnsealVaul", "namespace": "vaul"}
    for field, value in misspelt.items():
        asked = listing(**{field: value})
        open_, bound = [await Listing(parts).page(asked, context=each, caller=CALLER) for each in (NO_CONTEXT, context)]
        assert "did you mean" in open_.notes[0]
        assert "did you mean" not in bound.notes[0]
