"""Browsing: names, sections and numbers of what a caller may see."""

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.errors import UnknownWorkflow
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.workflows.browsing import Browsing
from formulary_catalog.services.workflows.relations import Relations
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browsing import ASKED, CALLER, edges
from support.filling import fill
from support.manifest import workflow
from support.services import service_on


async def test_a_misspelt_signal_or_action_is_answered_with_the_nearest(parts: CatalogParts) -> None:
    for misspelt, meant in (("PodPendin", "PodPending"), ("ChekQuota", "CheckQuota")):
        with pytest.raises(UnknownWorkflow) as refused:
            await edges(parts, misspelt)
        assert refused.value.nearest[0] == meant
    found = await Browsing(parts).find("PodPendin", **ASKED)
    assert found.notes == ["nothing has this name; did you mean the signal PodPending?"]


async def test_a_misspelt_part_of_a_name_is_answered_with_the_names_that_have_one_like_it(
    parts: CatalogParts, workflows: CatalogWriter
) -> None:
    await fill(workflows, [workflow(name) for name in ("pod-raise-memory-for-java", "dns.cache-flush")])
    for misspelt, meant in (("memry", "pod-raise-memory-for-java"), ("cachee", "dns.cache-flush")):
        found = await Browsing(parts).find(misspelt, **ASKED)
        assert [(each.workflow_id, each.matched) for each in found.workflows] == [(meant, "similar name")]
        assert found.notes == ["nothing has this name; these are the nearest"]
        with pytest.raises(UnknownWorkflow) as refused:
            await edges(parts, misspelt)
        assert refused.value.nearest == (meant,)
    several = await Browsing(parts).find("java-memry", **ASKED)
    assert [each.workflow_id for each in several.workflows] == ["pod-raise-memory-for-java"]


async def test_a_name_like_none_is_answered_with_what_to_do_instead(parts: CatalogParts) -> None:
    found = await Browsing(parts).find("zzzzzz", **ASKED)
    assert found.notes == ["nothing has this name; give a part of a name, or search for the symptom in words"]


async def test_workflows_are_found_by_all_that_names_them(parts: CatalogParts) -> None:
    async def found(name: str) -> tuple[bool, list[tuple[str, str]]]:
        answer = await Browsing(parts).find(name, **ASKED)
        return answer.exact, [(each.workflow_id, each.matched) for each in answer.workflows]

    assert (await found("node-add"))[1] == [("node-add", "name")]
    assert (await found("raise the memory limit"))[1] == [("oom-raise-limit", "title")]
    assert (await found("podpending"))[1] == [("node-add", "signal")]
    exact, by_part = await found("limit")
    assert (exact, by_part) == (
        False,
        [("oom-lower-limit", "part of the name"), ("oom-raise-limit", "part of the name")],
    )
    pinned = (await Browsing(parts).find("node-add", **ASKED)).workflows[0].version_id
    assert await found(pinned) == (True, [("node-add", "version id")])
    assert (await found("nodeadd"))[1][0] == ("node-add", "similar name")
    assert await found("zzzzzz") == (False, [])


async def test_a_section_is_read_alone(parts: CatalogParts) -> None:
    section = await Browsing(parts).section("oom-raise-limit", "when_not_to_use", **ASKED)
    assert section.text.startswith("Never where memory leaks")
    assert section.uri == "workflow://formulary/oom-raise-limit@1.0.0#when_not_to_use"
    steps = await Browsing(parts).section("oom-raise-limit", "steps", **ASKED)
    assert steps.items == [{"name": "raise", "command": "kubectl set resources"}]


async def test_the_catalog_is_told_in_numbers(parts: CatalogParts, workflows: CatalogWriter) -> None:
    await workflows.suspend(namespace="formulary", name="oom-scale-out")
    service = service_on(parts)
    await service.search(search_request(query="bake bread in an oven"), caller=CALLER)
    await service.search(search_request(query="OOMKilled critical"), caller=CALLER)
    numbers = await Browsing(parts).statistics(**ASKED, browsing=True)
    assert (numbers.total, numbers.by_status) == (5, {"Active": 5, "Disabled": 1})
    assert numbers.by_namespace == {"formulary": 5}
    assert numbers.by_risk == {"unknown": 3, "low": 1, "medium": 1}
    assert numbers.signals_with_one_workflow == ["PodPending"]
    assert "Evicted" in numbers.signals_without_workflow
    assert numbers.searches.by_mode == {"lexical": 2}
    assert [each.query for each in numbers.searches.unanswered_queries] == ["bake bread in an oven"]
    hidden = await Browsing(parts).statistics(**ASKED)
    assert hidden.by_status == {"Active": 5}


async def test_an_incident_shows_searches_and_choices_of_its_own_alone(
    parts: CatalogParts, contexts: ContextWriter
) -> None:
    for name in ("shop", "bank"):
        await contexts.save(RequestContext(namespace=name, name="oom", remediation_id=f"rr-{name}"))
    at_bank, at_shop = (ContextReference(remediation_id=f"rr-{name}") for name in ("bank", "shop"))
    service = service_on(parts)
    await service.search(search_request(query="bake bread in an oven", context=at_bank), caller=CALLER)
    chosen = await service.search(search_request(query="node add pending", context=at_bank), caller=CALLER)
    await service.record_selection(
        workflow_id="node-add", reasoning="r", search_id=chosen.search_id, context=at_bank, caller=CALLER
    )

    async def seen(context: ContextReference) -> tuple[dict[str, int], list[str], int, int]:
        numbers = (await Browsing(parts).statistics(context=context, caller=CALLER)).searches
        impact = await Relations(parts).impact("node-add", context=context, caller=CALLER)
        queries = [each.query for each in numbers.unanswered_queries]
        return numbers.by_mode, queries, impact.first_in_searches, impact.selected

    assert await seen(at_bank) == ({"lexical": 2}, ["bake bread in an oven"], 1, 1)
    assert await seen(at_shop) == ({}, [], 0, 0)
