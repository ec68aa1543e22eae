"""Contexts of a cluster: kept apart by source, kept for a while after their object is gone, then forgotten."""

from dataclasses import replace

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, SearchRequest
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.errors import ContextError
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter

CONTEXT = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rem-1",
    environment="production",
    custom_labels={"team": ("payments",)},
)
KEY = ("shop", "oom")
SEARCH = SearchRequest(query="OOMKilled critical", context=ContextReference(remediation_id="rem-1"))


@pytest.fixture
def cluster(writing: Database) -> ContextWriter:
    return ContextWriter(writing, source="cluster")


async def test_the_contexts_of_another_source_are_not_ours(cluster: ContextWriter, contexts: ContextWriter) -> None:
    await contexts.save(CONTEXT)
    assert await cluster.stored() == {}
    assert await contexts.stored() == {KEY: CONTEXT}
    await cluster.save(CONTEXT)
    assert await cluster.stored() == {KEY: CONTEXT}
    assert await contexts.stored() == {}


async def test_a_late_call_is_answered_under_the_constraints_of_a_deleted_analysis(
    cluster: ContextWriter, service: CatalogService
) -> None:
    await cluster.save(CONTEXT)
    await cluster.mark_gone(namespace="shop", name="oom")
    assert await cluster.stored() == {}
    await cluster.purge(gone_for_seconds=3600)
    assert (await service.search(SEARCH, caller=LOCAL)).total_results == 0


async def test_after_the_retention_a_call_for_it_fails_closed(cluster: ContextWriter, service: CatalogService) -> None:
    await cluster.save(CONTEXT)
    await cluster.mark_gone(namespace="shop", name="oom")
    await cluster.purge(gone_for_seconds=0)
    with pytest.raises(ContextError, match="not known here"):
        await service.search(SEARCH, caller=LOCAL)


async def test_the_retention_counts_from_the_deletion_and_ends_when_the_object_is_back(cluster: ContextWriter) -> None:
    await cluster.save(CONTEXT)
    await cluster.mark_gone(namespace="shop", name="oom")
    await cluster.mark_gone(namespace="shop", name="oom")
    await cluster.save(CONTEXT)
    await cluster.purge(gone_for_seconds=0)
    assert await cluster.stored() == {KEY: CONTEXT}


async def test_files_keep_no_context_of_the_cluster_from_being_purged_and_lose_none_of_theirs(
    cluster: ContextWriter, contexts: ContextWriter
) -> None:
    await contexts.save(CONTEXT)
    await contexts.mark_gone(namespace="shop", name="oom")
    await cluster.save(replace(CONTEXT, name="other", remediation_id="rem-2"))
    await cluster.purge(gone_for_seconds=0)
    await contexts.save(CONTEXT)
    assert await contexts.stored() == {KEY: CONTEXT}
