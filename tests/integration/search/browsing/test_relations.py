"""Relations: what comes before and after a workflow, and by which forms of its name."""

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.errors import InvalidInput, NotFound, UnknownWorkflow
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.runs.reading import RunReading
from formulary_catalog.services.workflows.relations import Relations
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browsing import ASKED, CALLER, NO_CONTEXT, edges, related, requires, walk
from support.filling import entry, fill
from support.manifest import workflow
from support.services import service_on


async def test_neighbours_of_a_workflow_say_what_comes_before_and_after(parts: CatalogParts) -> None:
    assert await edges(parts, "oom-raise-limit") == [
        ("requires", "outgoing", "oom-check-quota"),
        ("escalatesTo", "outgoing", "oom-scale-out"),
        ("rollbackOf", "incoming", "oom-lower-limit"),
        ("mentions", "outgoing", "oom-restart-leaking"),
        ("answersSignal", "outgoing", "OOMKilled"),
        ("sameAction", "outgoing", "oom-lower-limit"),
    ]
    assert ("escalatesTo", "outgoing", "node-add") in await edges(parts, "oom-raise-limit", depth=2)
    assert await edges(parts, "formulary/oom-check-quota", relations=["requires"]) == [
        ("requires", "incoming", "oom-raise-limit")
    ]
    assert await edges(parts, "PodPending") == [("answersSignal", "incoming", "node-add")]
    assert await edges(parts, "checkquota") == [("sameAction", "incoming", "oom-check-quota")]
    assert await edges(parts, "Evicted") == []


async def test_pages_of_neighbours_are_together_all_of_them(parts: CatalogParts) -> None:
    relations, seen, cursor = Relations(parts), list[str](), ""
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


async def test_each_form_of_a_name_is_an_edge_to_the_workflow(parts: CatalogParts, workflows: CatalogWriter) -> None:
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
        assert await edges(parts, name, relations=["requires"]) == [("requires", "outgoing", "base")], name
    incoming = await edges(parts, "base", relations=["requires"])
    assert incoming == [("requires", "incoming", name) for name in sorted(forms)]
    impact = await Relations(parts).impact("base", **ASKED)
    assert {each.name for each in impact.incoming} == set(forms)

    description = workflow("x")["spec"]["description"] | {"whenNotToUse": f"Then rather take {new.version_id}."}
    await fill(workflows, [workflow("by-mention", description=description)])
    assert await edges(parts, "by-mention", relations=["mentions"]) == [("mentions", "outgoing", "base")]


async def test_an_id_of_another_namespace_means_that_workflow_alone(
    parts: CatalogParts, workflows: CatalogWriter
) -> None:
    (theirs,) = await fill(workflows, [workflow("base")], namespace="shop")
    await fill(workflows, [workflow("base"), workflow("builds-on", related=requires(theirs.version_id))])
    found = await Relations(parts).related(walk(entity="builds-on", relations=["requires"]), **ASKED)
    assert [each.uri for each in found.related] == ["workflow://shop/base"]
    assert await edges(parts, "formulary/base", relations=["requires"]) == []
    await workflows.suspend(namespace="shop", name="base")
    assert await edges(parts, "builds-on", relations=["requires"]) == []


async def test_no_way_leads_through_a_workflow_that_is_suspended(parts: CatalogParts, workflows: CatalogWriter) -> None:
    await workflows.suspend(namespace="formulary", name="oom-scale-out")
    found = await edges(parts, "oom-raise-limit", depth=3)
    assert not {"oom-scale-out", "node-add"} & {name for _, _, name in found}


async def test_a_name_means_the_workflow_of_the_same_namespace_unless_the_incident_excludes_that(
    parts: CatalogParts, workflows: CatalogWriter, contexts: ContextWriter
) -> None:
    staging = {**workflow("x")["spec"]["labels"], "environment": ["staging"]}
    await fill(workflows, [workflow("node-add", labels=staging)], namespace="shop")
    await fill(workflows, [workflow("node-first", related=related(node_add="escalatesTo"))], namespace="shop")
    await contexts.save(RequestContext(namespace="shop", name="oom", remediation_id="rr-1", environment="production"))
    request = walk(entity="shop/node-first", relations=["escalatesTo"])
    for incident, expected in (("", "workflow://shop/node-add"), ("rr-1", "workflow://formulary/node-add")):
        context = ContextReference(remediation_id=incident)
        found = await Relations(parts).related(request, context=context, caller=CALLER)
        assert [each.uri for each in found.related] == [expected]


async def test_versions_of_a_workflow_are_related(parts: CatalogParts, workflows: CatalogWriter) -> None:
    await workflows.apply(entry(workflow("node-add", version="2.0.0")))
    assert ("previousVersion", "outgoing", "node-add@1.0.0") in await edges(parts, "node-add")
    assert ("previousVersion", "incoming", "node-add@2.0.0") in await edges(parts, "node-add@1.0.0")


async def test_an_unknown_name_is_answered_with_the_nearest_ones(parts: CatalogParts) -> None:
    with pytest.raises(UnknownWorkflow, match="nearest names: oom-raise-limit") as refused:
        await edges(parts, "oom-rais-limit")
    assert refused.value.nearest[0] == "oom-raise-limit"
    with pytest.raises(NotFound):
        await edges(parts, "NoSuchSignal")


async def test_the_impact_of_a_workflow_is_what_would_be_missed(parts: CatalogParts) -> None:
    service = service_on(parts)
    searched = await service.search(search_request(query="node add pending"), caller=CALLER)
    first = searched.workflows[0]
    await service.record_selection(
        workflow_id=first.workflow_id, reasoning="r", search_id=searched.search_id, context=NO_CONTEXT, caller=CALLER
    )
    impact = await Relations(parts).impact("node-add", **ASKED)
    assert [each.name for each in impact.incoming] == ["oom-scale-out", "oom-raise-limit", "oom-lower-limit"]
    assert impact.only_answer_to == ["PodPending"]
    assert first.workflow_id == "node-add"
    assert (impact.first_in_searches, impact.selected, impact.success_rate) == (1, 1, None)


async def test_a_choice_that_its_search_did_not_return_is_none(parts: CatalogParts) -> None:
    service = service_on(parts)
    searched = await service.search(search_request(query="bake bread in an oven"), caller=CALLER)
    receipt = await service.record_selection(
        workflow_id="node-add", reasoning="r", search_id=searched.search_id, context=NO_CONTEXT, caller=CALLER
    )
    assert receipt.supported is False
    assert (await Relations(parts).impact("node-add", **ASKED)).selected == 0


async def test_a_contract_of_a_newer_release_is_left_out_and_named(parts: CatalogParts, writing: Database) -> None:
    forbids = {"id": "no-nodes", "effect": "DENY", "match": {"workflows": ["node-add"]}}
    rules = {"ours": forbids, "of-tomorrow": forbids | {"effect": "ASK_THE_MOON"}}
    for name, rule in rules.items():
        await writing.execute(
            "insert into governance_contract (namespace, name, uid, spec) values ('formulary', $1, $1, $2)",
            name,
            {"scope": {"name": name}, "rules": [rule]},
        )
    impact = await Relations(parts).impact("node-add", **ASKED)
    assert [(each.contract, each.rule) for each in impact.contracts] == [("formulary/ours", "no-nodes")]
    note = "rules of formulary/of-tomorrow are not known to this release and left out; update Formulary to read them"
    assert impact.notes == [note]
    listed = await RunReading(parts).contracts(caller=CALLER)
    assert ([each.name for each in listed.contracts], listed.notes) == (["ours"], [note])
