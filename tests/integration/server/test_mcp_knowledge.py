"""The knowledge tools as MCP clients, programs and people reach them: the same answers, small enough for a model."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.commands import formulary
from support.manifest import analysis, text, workflow
from support.serving import catalog, serving
from support.wire import Wire

LONG = "What a long sentence about memory and limits. " * 40


@pytest.fixture(scope="module")
async def parts(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CatalogParts]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(*(workflow(f"w{number}", what=f"{LONG} {number}.") for number in range(30))))
    async with catalog([own], postgres=postgres, embedder=embedder) as filled:
        yield filled


async def called(url: str, tool: str, **arguments: Any) -> dict[str, Any]:
    async with Wire(url) as wire:
        answer = (await wire.rpc("tools/call", {"name": tool, "arguments": arguments})).json()
    result: dict[str, Any] = answer["result"]
    return result


async def test_the_tools_lead_from_a_question_to_a_text(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        search = (await called(url, "semantic_search", query="memory limits", collection="workflows"))[
            "structuredContent"
        ]
        assert set(search) == {"query", "collection", "total_results", "results", "notes"}
        assert (search["query"], search["collection"], search["total_results"]) == ("memory limits", "workflows", 5)
        assert len(search["results"]) == 5
        first = search["results"][0]
        assert set(first) == {"id", "score", "source_file", "section_title", "text_preview"}
        assert len(first["text_preview"]) <= 150
        document = (await called(url, "get_document", doc_id=first["id"]))["structuredContent"]
        assert (document["id"], document["collection"]) == (first["id"], "workflows")
        assert document["document"]["text"].startswith("What a long sentence")
        similar = (await called(url, "similar_docs", doc_id=first["id"], top_k=3))["structuredContent"]
        assert (similar["source_doc_id"], len(similar["similar_docs"])) == (first["id"], 3)
        assert first["source_file"] not in [each["source_file"] for each in similar["similar_docs"]]
        collections = (await called(url, "list_collections"))["structuredContent"]
        assert [each["name"] for each in collections["collections"]] == ["workflows", "incidents", "runbooks"]
        assert collections["total"] == 3


@pytest.mark.parametrize("query", ["memory", "x " * 2000, "語" * 4000])
async def test_default_answers_stay_below_four_kilobytes(parts: CatalogParts, query: str) -> None:
    async with serving(parts) as url:
        for tool, arguments in (("semantic_search", {"query": query}), ("similar_docs", {"text": query})):
            result = await called(url, tool, **arguments)
            assert len(result["content"][0]["text"].encode()) < 4096
            assert not result.get("isError")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("semantic_search", {}, "query"),
        ("semantic_search", {"query": "x", "top_k": 51}, "50"),
        ("semantic_search", {"query": "x", "collections": "runbooks"}, "collection"),
        ("semantic_search", {"query": "x" * 4001}, "4000"),
        ("semantic_search", {"query": "x", "collection": "books"}, "runbooks"),
        ("similar_docs", {}, "doc_id"),
        ("similar_docs", {"doc_id": "wf_ver_0#steps", "text": "x"}, "give one of"),
        ("get_document", {"doc_id": "wf_ver_0#steps"}, "not found"),
        ("get_document", {"doc_id": "x" * 401}, "400"),
        ("list_collections", {"namespace": "x"}, "namespace"),
    ],
)
async def test_bad_input_is_answered_with_the_rule(
    parts: CatalogParts, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async with serving(parts) as url:
        result = await called(url, tool, **arguments)
    assert result["isError"]
    assert said in result["content"][0]["text"]


async def test_rest_and_commands_answer_the_same(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        mcp = (await called(url, "semantic_search", query="memory limits", top_k=3))["structuredContent"]

        async def run(*arguments: str) -> dict[str, Any]:
            done = await formulary("docs", *arguments, "--url", url, "--json")
            assert done.code == 0, done.err
            said: dict[str, Any] = json.loads(done.out)
            return said

        search = await run("search", "memory limits", "--top-k", "3")
        assert search == mcp
        doc_id = search["results"][0]["id"]
        document = await run("get", doc_id)
        assert document["id"] == doc_id
        similar = await run("similar", doc_id, "--top-k", "2")
        assert len(similar["similar_docs"]) == 2
        collections = await run("collections")
        assert collections["total"] == 3


async def test_people_read_the_nearest_ids_in_words(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        search = (await called(url, "semantic_search", query="memory limits"))["structuredContent"]
        doc_id = search["results"][0]["id"]
        done = await formulary("docs", "get", f"{doc_id}s", "--url", url)
    assert done.code == 1
    assert f"did you mean {doc_id}" in done.err
    assert "retrying" not in done.err


@pytest.mark.parametrize("tool", ["get_document", "similar_docs"])
async def test_a_misspelt_uri_is_answered_with_the_nearest_that_may_be_read(
    postgres: EmbeddedPostgres, tmp_path: Path, tool: str
) -> None:
    """To a person as well, who learns of no workflow that the incident excludes."""
    theirs = workflow("drain-nodes", customLabels={"team": "payments"})
    incident = analysis("a", remediation_id="rr-1", labels={"team": ["search"]})
    (tmp_path / "own.yaml").write_text(text(workflow("drain-node"), theirs, incident))
    uri = "workflow://formulary/drain-nodess@1.0.0#description"
    right, hidden = uri.replace("nodess", "node"), uri.replace("nodess", "nodes")
    async with catalog([tmp_path], postgres=postgres, embedder=None) as parts, serving(parts) as url:
        said = (await called(url, tool, doc_id=uri))["content"][0]["text"]
        assert f"the nearest are {hidden}, {right}: take one of these, or a search of documents finds ids" in said
        async with Wire(url) as wire:
            call = {"name": tool, "arguments": {"doc_id": uri}}
            bound = (await wire.rpc("tools/call", call, headers={"X-Remediation-Id": "rr-1"})).json()["result"]
        command = {"get_document": "get", "similar_docs": "similar"}[tool]
        done = await formulary("docs", command, uri, "--remediation-id", "rr-1", "--url", url)
    assert f"the nearest are {right}: take" in bound["content"][0]["text"]
    assert done.err == f"formulary: there is no document '{uri}' that may be read here; did you mean {right}?\n"


async def test_runbooks_are_loaded_by_a_command_and_gone_with_their_file(database: str, tmp_path: Path) -> None:
    runbooks = tmp_path / "runbooks"
    runbooks.mkdir()
    (runbooks / "disk.md").write_text("# Disk\n\nRemove unused images.\n")
    (runbooks / "broken.md").write_bytes(b"\xff")

    async def load() -> tuple[int, dict[str, Any]]:
        done = await formulary("runbooks", "load", str(runbooks), "--database-url", database, "--json")
        return done.code, json.loads(done.out)

    async def found() -> int:
        done = await formulary("docs", "search", "unused images", "--database-url", database, "--json")
        return len(json.loads(done.out)["results"])

    code, report = await load()
    assert (code, report["files"], report["documents"]) == (1, 2, 1)
    assert "broken.md: is not UTF-8" in report["rejections"][0]["message"]
    assert await found() == 1
    (runbooks / "disk.md").unlink()
    (runbooks / "broken.md").write_text("# Memory\n\nRaise the limit.\n")
    assert (await load())[0] == 0
    assert await found() == 0
