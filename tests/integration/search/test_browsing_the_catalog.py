"""Browsing: listings, relations, names, impact, sections and numbers of what a caller may see."""

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.workflows.requests import ListingRequest, RelatedRequest
from formulary_catalog.errors import InvalidInput, NotFound, UnknownWorkflow
from formulary_catalog.runs.reading import RunReading
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.calls.arguments.browsing import ListArguments, RelatedPageArguments
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_catalog.workflows.browsing import Browsing
from formulary_catalog.workflows.listing import Listing
from formulary_catalog.workflows.relations import Relations
from support.filling import entry, fill
from support.manifest import workflow
from support.services import open_service

CALLER = Caller(name="test", access=EVERYTHING)
NO_CONTEXT = ContextReference()
ASKED: dict[str, Any] = {"context": NO_CONTEXT, "caller": CALLER}


def related(**relations: str) -> list[dict[str, str]]:
    return [{"relation": relation, "name": name.replace("_", "-")} for name, relation in relations.items()]


def requires(name: str) -> list[dict[str, str]]:
    return [{"relation": "requires", "name": name}]


DOCUMENTS = [
    workflow(
        "oom-raise-limit",
        riskLevel="low",
        title="Raise the memory limit",
        actionType="IncreaseMemoryLimits",
        description={
            "what": "Raises it.",
            "whenToUse": "When the limit is too low.",
            "whenNotToUse": "Never where memory leaks; take oom-restart-leaking. Not for cron-jobs either.",
        },
        related=related(oom_scale_out="escalatesTo", oom_check_quota="requires"),
        steps=[{"name": "raise", "command": "kubectl set resources"}],
    ),
    workflow("oom-scale-out", related=related(node_add="escalatesTo")),
    workflow("oom-check-quota", actionType="CheckQuota"),
    workflow("oom-restart-leaking", riskLevel="medium"),
    workflow("oom-lower-limit", related=related(oom_raise_limit="rollbackOf"), actionType="IncreaseMemoryLimits"),
    workflow("node-add", actionType="AddNode", labels=workflow("x")["spec"]["labels"] | {"signalType": ["PodPending"]}),
]


@pytest.fixture
async def service(database: str, workflows: CatalogWriter) -> AsyncIterator[CatalogService]:
    await fill(workflows, DOCUMENTS)
    opened = await open_service(database)
    yield opened
    await opened.close()


def listing(**asked: Any) -> ListingRequest:
    return ListArguments.read(asked).request


def walk(**asked: Any) -> RelatedRequest:
    return RelatedPageArguments.read(asked).request


async def names(service: CatalogService, **asked: Any) -> list[str]:
    return [line.workflow_id for line in (await Listing(service.parts).page(listing(**asked), **ASKED)).workflows]


async def test_a_listing_is_narrowed_by_each_filter(service: CatalogService) -> None:
    assert len(await names(service)) == 6
    assert await names(service, action_type="increasememorylimits") == ["oom-lower-limit", "oom-raise-limit"]
    assert await names(service, signal_type="podpending") == ["node-add"]
    assert await names(service, risk_level="medium") == ["oom-restart-leaking"]
    assert await names(service, namespace="elsewhere") == []
    assert len(await names(service, risk_level="unknown", namespace="formulary")) == 4


@pytest.mark.parametrize(
    ("filled", "incident", "asked", "note"),
    [
        (False, "", {}, "the catalog holds no workflow that you may see; load some first"),
        (True, "rr-staging", {}, "the incident's constraints allow no workflow that you may see; call a person"),
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
    service = await open_service(database)
    page = await Listing(service.parts).page(
        listing(**asked), context=ContextReference(remediation_id=incident), caller=CALLER
    )
    await service.close()
    assert (page.workflows, page.notes) == ([], [note])


async def test_pages_follow_each_other_and_a_cursor_belongs_to_its_question(service: CatalogService) -> None:
    whole = await names(service)
    seen: list[str] = []
    cursor = ""
    while True:
        page = await Listing(service.parts).page(listing(limit=2, cursor=cursor), **ASKED)
        seen += [line.workflow_id for line in page.workflows]
        assert page.total == 6
        if not page.next_cursor:
            break
        cursor = page.next_cursor
        with pytest.raises(InvalidInput, match="belongs to another question"):
            await Listing(service.parts).page(listing(limit=2, cursor=cursor, risk_level="low"), **ASKED)
    assert seen == whole
    for broken in ("x", "W10", "ü", "W1siYSIsICJiIiwgImMiLCAxXV0"):
        with pytest.raises(InvalidInput, match="no cursor of a listing"):
            await Listing(service.parts).page(listing(cursor=broken), **ASKED)


async def test_a_listing_for_a_model_stays_short_and_goes_on_where_it_stopped(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [workflow(f"more-{number:02}", title="A long title " * 9) for number in range(30)])
    seen: list[str] = []
    cursor = ""
    while len(seen) < 36:
        page = await Listing(service.parts).page(listing(cursor=cursor), **ASKED, max_bytes=2000)
        assert len(page.model_dump_json(exclude_unset=True).encode()) <= 2000
        shown, asked = len(page.workflows), min(20, 36 - len(seen))
        dropped = [f"{shown} of {asked} fit; cursor leads on, limit allows a longer answer"] if shown < asked else []
        assert [note for note in page.notes if " fit; cursor" in note] == dropped
        assert bool(page.next_cursor) == (len(seen) + shown < 36)
        seen += [line.workflow_id for line in page.workflows]
        cursor = page.next_cursor
    assert cursor == ""
    assert seen == sorted(seen)


async def test_what_is_not_served_is_listed_for_people_alone(service: CatalogService, workflows: CatalogWriter) -> None:
    await workflows.suspend(namespace="formulary", name="node-add")
    await workflows.apply(entry(workflow("oom-scale-out", version="2.0.0")))
    with pytest.raises(InvalidInput, match="for people who browse"):
        await names(service, status="Disabled")
    for status, expected in (("disabled", ["node-add"]), ("Superseded", ["oom-scale-out"]), ("Invalid", [])):
        page = await Listing(service.parts).page(listing(status=status), **ASKED, browsing=True)
        assert [line.workflow_id for line in page.workflows] == expected
        assert page.total == len(expected)


async def edges(service: CatalogService, entity: str, **asked: Any) -> list[tuple[str, str, str]]:
    answer = await Relations(service.parts).related(walk(entity=entity, **asked), **ASKED)
    assert answer.total >= len(answer.related)
    return [(each.relation, each.direction, each.name) for each in answer.related]


async def test_neighbours_of_a_workflow_say_what_comes_before_and_after(service: CatalogService) -> None:
    assert await edges(service, "oom-raise-limit") == [
        ("requires", "outgoing", "oom-check-quota"),
        ("escalatesTo", "outgoing", "oom-scale-out"),
        ("rollbackOf", "incoming", "oom-lower-limit"),
        ("mentions", "outgoing", "oom-restart-leaking"),
        ("answersSignal", "outgoing", "OOMKilled"),
        ("sameAction", "outgoing", "oom-lower-limit"),
    ]
    assert ("escalatesTo", "outgoing", "node-add") in await edges(service, "oom-raise-limit", depth=2)
    assert await edges(service, "formulary/oom-check-quota", relations=["requires"]) == [
        ("requires", "incoming", "oom-raise-limit")
    ]
    assert await edges(service, "PodPending") == [("answersSignal", "incoming", "node-add")]
    assert await edges(service, "checkquota") == [("sameAction", "incoming", "oom-check-quota")]
    assert await edges(service, "Evicted") == []


async def test_pages_of_neighbours_are_together_all_of_them(service: CatalogService) -> None:
    relations, seen, cursor = Relations(service.parts), list[str](), ""
    whole = await relations.related(walk(entity="oom-raise-limit", depth=3), **ASKED)
    while True:
        request = walk(entity="oom-raise-limit", depth=3, limit=2, cursor=cursor)
        page = await relations.related(request, **ASKED)
        assert page.total == whole.total
        seen += [f"{each.relation} {each.name}" for each in page.related]
        if not (cursor := page.next_cursor):
            break
    assert seen == [f"{each.relation} {each.name}" for each in whole.related]
    assert (len(seen), whole.next_cursor) == (whole.total, "")
    first = await relations.related(walk(entity="oom-raise-limit", limit=1), **ASKED)
    with pytest.raises(InvalidInput, match="belongs to another question"):
        await relations.related(walk(entity="oom-raise-limit", depth=2, cursor=first.next_cursor), **ASKED)


async def test_each_form_of_a_name_is_an_edge_to_the_workflow(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    old, new = (entry(workflow("base", version=version)) for version in ("1.0.0", "2.0.0"))
    forms = {
        "by-name": "base",
        "by-namespace": "formulary/base",
        "by-version": "base@1.0.0",
        "by-namespace-and-version": "formulary/base@2.0.0",
        "by-old-id": old.version_id,
        "by-new-id": new.version_id,
    }
    # An id may be named before its workflow is there.
    await fill(workflows, [workflow(name, related=requires(form)) for name, form in forms.items()])
    for each in (old, new):
        await workflows.apply(each)
    for name in forms:
        assert await edges(service, name, relations=["requires"]) == [("requires", "outgoing", "base")], name
    incoming = await edges(service, "base", relations=["requires"])
    assert incoming == [("requires", "incoming", name) for name in sorted(forms)]
    impact = await Relations(service.parts).impact("base", **ASKED)
    assert {each.name for each in impact.incoming} == set(forms)

    description = workflow("x")["spec"]["description"] | {"whenNotToUse": f"Then rather take {new.version_id}."}
    await fill(workflows, [workflow("by-mention", description=description)])
    assert await edges(service, "by-mention", relations=["mentions"]) == [("mentions", "outgoing", "base")]


async def test_an_id_of_another_namespace_means_that_workflow_alone(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    (theirs,) = await fill(workflows, [workflow("base")], namespace="shop")
    await fill(workflows, [workflow("base"), workflow("builds-on", related=requires(theirs.version_id))])
    found = await Relations(service.parts).related(walk(entity="builds-on", relations=["requires"]), **ASKED)
    assert [each.uri for each in found.related] == ["workflow://shop/base"]
    assert await edges(service, "formulary/base", relations=["requires"]) == []
    await workflows.suspend(namespace="shop", name="base")
    assert await edges(service, "builds-on", relations=["requires"]) == []


async def test_forms_of_a_name_that_were_stored_before_become_edges(plain_owner: str) -> None:
    """The owner of the database is no superuser, so that row-level security holds for the one who migrates."""
    async with Database.opened(plain_owner, role=Role.WRITER, deadline=30) as writing:
        (base,) = await fill(CatalogWriter(writing), [workflow("base")])
        links = [*requires("base@1.0.0"), *requires(base.version_id), *requires("other")]
        await fill(CatalogWriter(writing), [workflow("builds-on", related=links)])
        stored = "select name from workflow_relation order by 1"
        edges = await writing.fetch(stored)
        await writing.execute("delete from workflow_relation where name <> 'other'")
        owner = await asyncpg.connect(plain_owner)
        async with owner.transaction():
            for statement in import_module("formulary_catalog.store.migrations.versions.0035_tenants").RELATIONS:
                await owner.execute(statement)
        await owner.close()
        assert [row["name"] for row in edges] == ["base", "other", base.version_id]
        assert await writing.fetch(stored) == edges


async def test_no_way_leads_through_a_workflow_that_is_suspended(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await workflows.suspend(namespace="formulary", name="oom-scale-out")
    found = await edges(service, "oom-raise-limit", depth=3)
    assert not {"oom-scale-out", "node-add"} & {name for _, _, name in found}


async def test_a_name_means_the_workflow_of_the_same_namespace_unless_the_incident_excludes_that(
    service: CatalogService, workflows: CatalogWriter, contexts: ContextWriter
) -> None:
    staging = {**workflow("x")["spec"]["labels"], "environment": ["staging"]}
    await fill(workflows, [workflow("node-add", labels=staging)], namespace="shop")
    await fill(workflows, [workflow("node-first", related=related(node_add="escalatesTo"))], namespace="shop")
    await contexts.save(RequestContext(namespace="shop", name="oom", remediation_id="rr-1", environment="production"))
    request = walk(entity="shop/node-first", relations=["escalatesTo"])
    for incident, expected in (("", "workflow://shop/node-add"), ("rr-1", "workflow://formulary/node-add")):
        context = ContextReference(remediation_id=incident)
        found = await Relations(service.parts).related(request, context=context, caller=CALLER)
        assert [each.uri for each in found.related] == [expected]


async def test_versions_of_a_workflow_are_related(service: CatalogService, workflows: CatalogWriter) -> None:
    await workflows.apply(entry(workflow("node-add", version="2.0.0")))
    assert ("previousVersion", "outgoing", "node-add@1.0.0") in await edges(service, "node-add")
    assert ("previousVersion", "incoming", "node-add@2.0.0") in await edges(service, "node-add@1.0.0")


async def test_an_unknown_name_is_answered_with_the_nearest_ones(service: CatalogService) -> None:
    with pytest.raises(UnknownWorkflow, match="nearest names: oom-raise-limit") as refused:
        await edges(service, "oom-rais-limit")
    assert refused.value.nearest[0] == "oom-raise-limit"
    with pytest.raises(NotFound):
        await edges(service, "NoSuchSignal")


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
    service: CatalogService, asked: dict[str, Any], note: str
) -> None:
    page = await Listing(service.parts).page(listing(**asked), **ASKED)
    assert [each for each in page.notes if each.startswith("no workflow")] == ([note] if note else [])


async def test_no_nearest_value_is_one_that_the_incident_excludes(
    service: CatalogService, workflows: CatalogWriter, contexts: ContextWriter
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
        open_, bound = [
            await Listing(service.parts).page(asked, context=each, caller=CALLER) for each in (NO_CONTEXT, context)
        ]
        assert "did you mean" in open_.notes[0]
        assert "did you mean" not in bound.notes[0]


async def test_a_misspelt_signal_or_action_is_answered_with_the_nearest(service: CatalogService) -> None:
    for misspelt, meant in (("PodPendin", "PodPending"), ("ChekQuota", "CheckQuota")):
        with pytest.raises(UnknownWorkflow) as refused:
            await edges(service, misspelt)
        assert refused.value.nearest[0] == meant
    found = await Browsing(service.parts).find("PodPendin", **ASKED)
    assert found.notes == ["nothing has this name; did you mean the signal PodPending?"]


async def test_a_misspelt_part_of_a_name_is_answered_with_the_names_that_have_one_like_it(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [workflow(name) for name in ("pod-raise-memory-for-java", "dns.cache-flush")])
    for misspelt, meant in (("memry", "pod-raise-memory-for-java"), ("cachee", "dns.cache-flush")):
        found = await Browsing(service.parts).find(misspelt, **ASKED)
        assert [(each.workflow_id, each.matched) for each in found.workflows] == [(meant, "similar name")]
        assert found.notes == ["nothing has this name; these are the nearest"]
        with pytest.raises(UnknownWorkflow) as refused:
            await edges(service, misspelt)
        assert refused.value.nearest == (meant,)
    several = await Browsing(service.parts).find("java-memry", **ASKED)
    assert [each.workflow_id for each in several.workflows] == ["pod-raise-memory-for-java"]


async def test_a_name_like_none_is_answered_with_what_to_do_instead(service: CatalogService) -> None:
    found = await Browsing(service.parts).find("zzzzzz", **ASKED)
    assert found.notes == ["nothing has this name; give a part of a name, or search for the symptom in words"]


async def test_workflows_are_found_by_all_that_names_them(service: CatalogService) -> None:
    async def found(name: str) -> tuple[bool, list[tuple[str, str]]]:
        answer = await Browsing(service.parts).find(name, **ASKED)
        return answer.exact, [(each.workflow_id, each.matched) for each in answer.workflows]

    assert (await found("node-add"))[1] == [("node-add", "name")]
    assert (await found("raise the memory limit"))[1] == [("oom-raise-limit", "title")]
    assert (await found("podpending"))[1] == [("node-add", "signal")]
    exact, parts = await found("limit")
    assert (exact, parts) == (False, [("oom-lower-limit", "part of the name"), ("oom-raise-limit", "part of the name")])
    pinned = (await Browsing(service.parts).find("node-add", **ASKED)).workflows[0].version_id
    assert await found(pinned) == (True, [("node-add", "version id")])
    assert (await found("nodeadd"))[1][0] == ("node-add", "similar name")
    assert await found("zzzzzz") == (False, [])


async def test_the_impact_of_a_workflow_is_what_would_be_missed(service: CatalogService) -> None:
    searched = await service.search(search_request(query="node add pending"), caller=CALLER)
    first = searched.workflows[0]
    await service.record_selection(
        workflow_id=first.workflow_id, reasoning="r", search_id=searched.search_id, context=NO_CONTEXT, caller=CALLER
    )
    impact = await Relations(service.parts).impact("node-add", **ASKED)
    assert [each.name for each in impact.incoming] == ["oom-scale-out", "oom-raise-limit", "oom-lower-limit"]
    assert impact.only_answer_to == ["PodPending"]
    assert first.workflow_id == "node-add"
    assert (impact.first_in_searches, impact.selected, impact.success_rate) == (1, 1, None)


async def test_a_choice_that_its_search_did_not_return_is_none(service: CatalogService) -> None:
    searched = await service.search(search_request(query="bake bread in an oven"), caller=CALLER)
    receipt = await service.record_selection(
        workflow_id="node-add", reasoning="r", search_id=searched.search_id, context=NO_CONTEXT, caller=CALLER
    )
    assert receipt.supported is False
    assert (await Relations(service.parts).impact("node-add", **ASKED)).selected == 0


async def test_a_contract_of_a_newer_release_is_left_out_and_named(service: CatalogService, writing: Database) -> None:
    forbids = {"id": "no-nodes", "effect": "DENY", "match": {"workflows": ["node-add"]}}
    rules = {"ours": forbids, "of-tomorrow": forbids | {"effect": "ASK_THE_MOON"}}
    for name, rule in rules.items():
        await writing.execute(
            "insert into governance_contract (namespace, name, uid, spec) values ('formulary', $1, $1, $2)",
            name,
            {"scope": {"name": name}, "rules": [rule]},
        )
    impact = await Relations(service.parts).impact("node-add", **ASKED)
    assert [(each.contract, each.rule) for each in impact.contracts] == [("formulary/ours", "no-nodes")]
    note = "rules of formulary/of-tomorrow are not known to this release and left out; update Formulary to read them"
    assert impact.notes == [note]
    listed = await RunReading(service.parts).contracts(caller=CALLER)
    assert ([each.name for each in listed.contracts], listed.notes) == (["ours"], [note])


async def test_a_section_is_read_alone(service: CatalogService) -> None:
    section = await Browsing(service.parts).section("oom-raise-limit", "when_not_to_use", **ASKED)
    assert section.text.startswith("Never where memory leaks")
    assert section.uri == "workflow://formulary/oom-raise-limit@1.0.0#when_not_to_use"
    steps = await Browsing(service.parts).section("oom-raise-limit", "steps", **ASKED)
    assert steps.items == [{"name": "raise", "command": "kubectl set resources"}]


async def test_the_catalog_is_told_in_numbers(service: CatalogService, workflows: CatalogWriter) -> None:
    await workflows.suspend(namespace="formulary", name="oom-scale-out")
    await service.search(search_request(query="bake bread in an oven"), caller=CALLER)
    await service.search(search_request(query="OOMKilled critical"), caller=CALLER)
    numbers = await Browsing(service.parts).statistics(**ASKED, browsing=True)
    assert (numbers.total, numbers.by_status) == (5, {"Active": 5, "Disabled": 1})
    assert numbers.by_namespace == {"formulary": 5}
    assert numbers.by_risk == {"unknown": 3, "low": 1, "medium": 1}
    assert numbers.signals_with_one_workflow == ["PodPending"]
    assert "Evicted" in numbers.signals_without_workflow
    assert numbers.searches.by_mode == {"lexical": 2}
    assert [each.query for each in numbers.searches.unanswered_queries] == ["bake bread in an oven"]
    hidden = await Browsing(service.parts).statistics(**ASKED)
    assert hidden.by_status == {"Active": 5}


async def test_an_incident_shows_searches_and_choices_of_its_own_alone(
    service: CatalogService, contexts: ContextWriter
) -> None:
    for name in ("shop", "bank"):
        await contexts.save(RequestContext(namespace=name, name="oom", remediation_id=f"rr-{name}"))
    at_bank, at_shop = (ContextReference(remediation_id=f"rr-{name}") for name in ("bank", "shop"))
    await service.search(search_request(query="bake bread in an oven", context=at_bank), caller=CALLER)
    chosen = await service.search(search_request(query="node add pending", context=at_bank), caller=CALLER)
    await service.record_selection(
        workflow_id="node-add", reasoning="r", search_id=chosen.search_id, context=at_bank, caller=CALLER
    )

    async def seen(context: ContextReference) -> tuple[dict[str, int], list[str], int, int]:
        numbers = (await Browsing(service.parts).statistics(context=context, caller=CALLER)).searches
        impact = await Relations(service.parts).impact("node-add", context=context, caller=CALLER)
        queries = [each.query for each in numbers.unanswered_queries]
        return numbers.by_mode, queries, impact.first_in_searches, impact.selected

    assert await seen(at_bank) == ({"lexical": 2}, ["bake bread in an oven"], 1, 1)
    assert await seen(at_shop) == ({}, [], 0, 0)
