"""What answers say about names, limits and history, on the real database (DESIGN sections 3 and 7)."""

from typing import Any

import asyncpg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import Rights
from support.manifest import workflow
from support.trail import recorded

pytestmark = pytest.mark.smoke

CALLER = Caller(name="test", access=EVERYTHING)
NO_CONTEXT = ContextReference()


async def _store(workflows: CatalogWriter, name: str, *, namespace: str = "formulary", **spec: Any) -> None:
    document = workflow(name, **spec)
    document["metadata"]["namespace"] = namespace
    await workflows.apply(catalog_entry(document, source="test", default_namespace="formulary"))


async def _ids(service: CatalogService, query: str = "OOMKilled critical", **options: Any) -> list[str]:
    answer = await service.search(search_request(query=query, **options), caller=options.pop("caller", CALLER))
    return [hit.workflow_id for hit in answer.workflows]


async def test_a_name_that_two_visible_namespaces_have_is_answered_with_its_namespace(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    await _store(workflows, "shared", namespace="alpha")
    await _store(workflows, "shared", namespace="beta")
    await _store(workflows, "single")

    ids = await _ids(service)
    assert sorted(ids) == ["alpha/shared", "beta/shared", "single"]
    listed = await Listing(parts).page(context=NO_CONTEXT, caller=CALLER)
    assert sorted(each.workflow_id for each in listed.workflows) == sorted(ids)
    for workflow_id in ids:
        details = await service.details(workflow_id, context=NO_CONTEXT, caller=CALLER)
        assert details.workflow_id == workflow_id
        chosen = await service.record_selection(
            workflow_id=workflow_id, reasoning="it fits", context=NO_CONTEXT, caller=CALLER
        )
        assert chosen.workflow_id == workflow_id


async def test_a_workflow_named_after_an_alert_is_found_by_the_alert(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    for name in ("api-down-kube", "down-kube-api", "kube-api-down"):
        await _store(workflows, name)
    assert (await _ids(service, "KubeAPIDown: target disappeared"))[0] == "kube-api-down"


async def test_a_name_is_not_ambiguous_to_a_caller_who_sees_only_one_of_them(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    await _store(workflows, "shared", namespace="formulary")
    await _store(workflows, "shared", namespace="beta")
    only_one = Caller(name="agent", access=Rights(see={"formulary"}))

    answer = await service.search(search_request(query="OOMKilled critical"), caller=only_one)
    assert [hit.workflow_id for hit in answer.workflows] == ["shared"]


@pytest.mark.parametrize("query", ["* pod was OOMKilled because of a leak", ": critical memory"])
async def test_punctuation_in_front_of_a_pasted_text_is_no_signal_type(
    workflows: CatalogWriter, service: CatalogService, query: str
) -> None:
    await _store(workflows, "any-signal", labels={**workflow("x")["spec"]["labels"], "signalType": ["*"]})
    await _store(workflows, "no-signal", labels={**workflow("x")["spec"]["labels"], "signalType": []})
    await _store(workflows, "oom")

    answer = await service.search(search_request(query=query, top_k=50), caller=CALLER)
    assert sorted(hit.workflow_id for hit in answer.workflows) == ["any-signal", "no-signal", "oom"]
    assert answer.inferred == {}


async def test_one_workflow_cannot_crowd_out_the_others_with_long_texts(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    await _store(workflows, "loud", title="memory " * 1400, estimatedDuration="minutes " * 1200)
    await _store(workflows, "quiet")

    answer = await service.search(search_request(query="OOMKilled critical memory"), caller=CALLER)
    assert {hit.workflow_id for hit in answer.workflows} == {"loud", "quiet"}
    assert all(len(hit.model_dump_json()) < 1500 for hit in answer.workflows)


async def test_versions_are_told_newest_first_whatever_the_order_they_came_in(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    for version in ("1.9.0", "1.10.0", "1.2.0"):
        await _store(workflows, "grown", version=version)

    details = await service.details("grown", context=NO_CONTEXT, caller=CALLER)
    assert [each.version for each in details.versions] == ["1.10.0", "1.9.0", "1.2.0"]


async def test_the_trail_tells_which_candidates_left(
    database: str, workflows: CatalogWriter, service: CatalogService
) -> None:
    for number in range(12):
        await _store(workflows, f"w{number}")

    answer = await service.search(search_request(query="OOMKilled critical", top_k=12, max_bytes=2_500), caller=CALLER)
    owner = await asyncpg.connect(database)
    (row,) = await recorded(owner)
    await owner.close()
    left = {hit.version_id for hit in answer.workflows}
    assert 1 <= len(left) < 12
    assert len(answer.model_dump_json(exclude_unset=True).encode()) <= 2_500
    assert {each["version_id"] for each in row["result"]["candidates"] if each["returned"]} == left
    assert len(row["result"]["candidates"]) == 12


async def test_each_phase_of_a_search_is_a_span(workflows: CatalogWriter, service: CatalogService) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    await service.search(search_request(query="OOMKilled critical"), caller=CALLER)

    names = [span.name for span in exporter.get_finished_spans()]
    # Ranking takes two turns: candidates that were read, and the workflows of the first of them, which are read then.
    turns = ["context", "embed", "sql", "rank", "sql", "rank", "sql"]
    assert names == [f"formulary.search.{turn}" for turn in turns]

    exporter.clear()
    await _store(workflows, "own", labels={**workflow("x")["spec"]["labels"], "signalType": ["Checkoutslow"]})
    await service.search(search_request(query="Checkoutslow critical"), caller=CALLER)

    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == names
    assert all(span.status.is_ok for span in spans)
