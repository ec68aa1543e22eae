"""What models write in place of what is documented: taken where its meaning is plain, else answered with our name."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import answer_of, call, found, refused
from support.manifest import text
from support.runnable import runnable
from support.serving import catalog, serving

URI = "workflow://formulary/ours"


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(runnable("ours"), runnable("others")))
    async with catalog([own], postgres=postgres, embedder=None) as parts, serving(parts) as at:
        yield at


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_workflow_details", {"workflow_id": URI}),
        ("get_workflow_details", {"workflow_id": f"{URI}@1.0.0"}),
        ("get_workflow_details", {"workflow_id": f"{URI}#when_to_use"}),
        ("record_workflow_selection", {"workflow_id": URI, "reasoning": "It fits."}),
        ("invoke_workflow", {"workflow_id": f"{URI}@1.0.0", "input": {"REPLICAS": 1}, "dry_run": True}),
        ("related_workflows", {"entity": URI}),
        ("read_workflow_section", {"workflow_id": f"{URI}#when_to_use", "section": "steps"}),
        ("workflow_impact", {"workflow_id": URI}),
        ("find_workflow", {"name": URI}),
    ],
)
async def test_the_uri_of_a_hit_names_its_workflow_to_every_tool(
    url: str, tool: str, arguments: dict[str, Any]
) -> None:
    answer = answer_of(await call(url, tool, arguments))

    named = answer.get("workflow_id") or answer.get("entity") or answer["workflows"][0]["workflow_id"]
    assert named.removeprefix("formulary/") == "ours"


@pytest.mark.parametrize("nothing", ["null", "None", "undefined", " NULL ", ["null"]])
async def test_words_for_nothing_count_as_absent(url: str, nothing: object) -> None:
    asked = {"label.environment": nothing, "exclude_keywords": nothing, "namespace": nothing, "min_confidence": nothing}
    searched = answer_of(await call(url, "search_workflow_catalog", {"query": "restart", "top_k": nothing, **asked}))
    listed = answer_of(await call(url, "list_workflows", {"risk_level": nothing, "status": nothing, "cursor": nothing}))

    assert searched["total_results"] == 2
    assert not [note for note in searched["notes"] if "environment" in note]
    assert listed["total"] == 2


async def test_a_word_for_nothing_is_no_query_and_decides_nothing(url: str) -> None:
    said = refused(await call(url, "search_workflow_catalog", {"query": "None"}))
    dry = refused(await call(url, "invoke_workflow", {"workflow_id": "ours", "dry_run": "null"}))

    assert "query is missing" in said
    assert "dry_run" in dry, "a run that was to be tried must not become a real one"


async def test_a_list_of_one_text_is_that_text(url: str) -> None:
    asked = {"query": ["restart"], "label.environment": ["production"]}
    several = {"query": "restart", "label.environment": ["production", "staging"]}

    assert found(await call(url, "search_workflow_catalog", asked))
    assert answer_of(await call(url, "get_workflow_details", {"workflow_id": ["ours"]}))["workflow_id"] == "ours"
    assert "label.environment is" in refused(await call(url, "search_workflow_catalog", several))


@pytest.mark.parametrize(
    ("tool", "arguments", "meant"),
    [
        ("search_workflow_catalog", {"query": "restart", "labels": {"severity": "high"}}, "filters"),
        ("search_workflow_catalog", {"query": "restart", "count": 3}, "top_k"),
        ("semantic_search", {"query": "restart", "limit": 3}, "top_k"),
        ("execute_query", {"sql": "select 1", "limit": 3}, "max_rows"),
        ("list_workflows", {"top_k": 3}, "limit"),
        ("get_workflow_details", {"name": "ours"}, "workflow_id"),
        ("related_workflows", {"workflow_id": "ours"}, "entity"),
        ("find_workflow", {"workflow_id": "ours"}, "name"),
        ("get_document", {"id": "x"}, "doc_id"),
    ],
)
async def test_a_usual_name_of_an_argument_is_answered_with_ours(
    url: str, tool: str, arguments: dict[str, Any], meant: str
) -> None:
    assert f"did you mean {meant!r}?" in refused(await call(url, tool, arguments))


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("invoke_workflow", {"workflow_id": "ours", "timeoutMs": 1}, "timeoutMs is 1"),
        ("search_workflow_catalog", {"query": "restart", "limit": 0}, "limit is 0"),
        ("related_workflows", {"entity": "ours", "edge_types": "likes"}, "edge_types 'likes'"),
    ],
)
async def test_a_refused_argument_is_named_as_it_was_written(
    url: str, tool: str, given: dict[str, Any], said: str
) -> None:
    assert refused(await call(url, tool, given)).startswith(said)
