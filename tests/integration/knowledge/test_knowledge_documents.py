"""Documents on a real database with the real model: what is found, and what goes with its source."""

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import InvalidInput, NotFound, UnknownDocument
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.knowledge.service import KnowledgeService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.knowledge.runbooks import RunbookWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import entry, fill
from support.knowledge import embed_everything, load_runbooks
from support.manifest import workflow

NOWHERE = ContextReference()
ALICE = Caller(name="alice", access=EVERYTHING)
DRAIN = workflow(
    "drain-node",
    what="Cordons a node and evicts its pods.",
    steps=[{"name": "cordon", "description": "No new pods come.", "command": "kubectl cordon $NODE"}],
    rollbackSteps=[{"name": "uncordon", "description": "Let pods come again."}],
    prerequisites=["kubectl 1.30"],
)
RUNBOOKS = {
    "disk.md": "# Disk pressure\nThe kubelet evicts pods.\n\n## Free space\nRemove unused images with crictl.\n",
    "dns.md": "# Cluster DNS\n## Lookups time out\nCoreDNS pods are throttled; raise their CPU limit.\n",
}


@pytest.fixture
def knowledge(parts: CatalogParts) -> KnowledgeService:
    return KnowledgeService(parts)


@pytest.fixture
async def filled(workflows: CatalogWriter, writing: Database, embedder: Embedder) -> str:
    """A workflow and two runbooks, embedded; the id of the version."""
    (stored,) = await fill(workflows, [DRAIN], embedder=embedder)
    await load_runbooks(writing, RUNBOOKS)
    await embed_everything(writing, embedder)
    return stored.version_id


async def found(knowledge: KnowledgeService, query: str, collection: str = "") -> list[str]:
    answer = await knowledge.search(query, context=NOWHERE, caller=ALICE, collection=collection)
    return [hit.id for hit in answer.results]


async def test_a_question_finds_the_section_that_answers_it(filled: str, knowledge: KnowledgeService) -> None:
    answer = await knowledge.search("name resolution is slow in the cluster", context=NOWHERE, caller=ALICE)
    first = answer.results[0]
    assert first.section_title == "Lookups time out"
    assert first.source_file == "runbooks/dns.md"
    assert first.text_preview == "CoreDNS pods are throttled; raise their CPU limit."
    assert answer.notes == []
    assert all(0 <= hit.score <= 1 for hit in answer.results)
    assert [hit.score for hit in answer.results] == sorted((hit.score for hit in answer.results), reverse=True)


async def test_a_section_of_a_workflow_is_found_and_read_by_its_uri(filled: str, knowledge: KnowledgeService) -> None:
    assert (await found(knowledge, "kubectl cordon so that no new pods come", "workflows"))[0] == f"{filled}#steps"
    for doc_id in (f"{filled}#steps", "workflow://formulary/drain-node@1.0.0#steps"):
        answer = await knowledge.document(doc_id, context=NOWHERE, caller=ALICE)
        assert answer.id == f"{filled}#steps"
        assert answer.document.text == "1. cordon: No new pods come.\n\n        kubectl cordon $NODE"
        assert answer.document.source_file == "workflow://formulary/drain-node@1.0.0"


async def test_collections_count_what_they_hold(filled: str, knowledge: KnowledgeService) -> None:
    answer = await knowledge.collections(context=NOWHERE, caller=ALICE)
    counts = {each.name: (each.documents, each.vectors_count) for each in answer.collections}
    assert counts == {"workflows": (5, 5), "incidents": (0, 0), "runbooks": (3, 3)}
    assert answer.total == 3


async def test_similar_documents_are_those_of_other_sources(filled: str, knowledge: KnowledgeService) -> None:
    (doc_id,) = [each for each in await found(knowledge, "remove unused images", "runbooks") if each.endswith("space")]
    answer = await knowledge.similar(doc_id, context=NOWHERE, caller=ALICE)
    assert answer.collection == "runbooks"
    assert {each.source_file for each in answer.similar_docs} <= {"runbooks/dns.md"}
    draft = await knowledge.similar(text="images fill the disk of a node", context=NOWHERE, caller=ALICE)
    nearest = draft.similar_docs[0]
    assert (nearest.id, nearest.source_file, nearest.section_title) == (doc_id, "runbooks/disk.md", "Free space")
    assert nearest.text_preview == "Remove unused images with crictl."
    assert (draft.source_doc_id, draft.collection) == ("", "all")


async def test_where_nothing_is_found_the_answer_says_what_to_do_next(
    workflows: CatalogWriter, writing: Database, knowledge: KnowledgeService
) -> None:
    nothing = await knowledge.search("anything", context=NOWHERE, caller=ALICE, collection="runbooks")
    assert nothing.notes == ["there is no runbook that may be read here; look in another collection"]
    await load_runbooks(writing, {"dns.md": RUNBOOKS["dns.md"]})
    unfit = await knowledge.search("qzqzqz", context=NOWHERE, caller=ALICE, collection="runbooks")
    assert unfit.results == []
    assert "fits; rephrase the symptom in English" in unfit.notes[-1]
    (doc_id,) = await found(knowledge, "throttled", "runbooks")
    alone = await knowledge.similar(doc_id, context=NOWHERE, caller=ALICE)
    assert alone.notes == ["no other source of its collection may be read here; give its words as text to look in all"]


async def test_without_vectors_words_find_documents_and_the_answer_says_so(
    workflows: CatalogWriter, writing: Database, knowledge: KnowledgeService
) -> None:
    await load_runbooks(writing, RUNBOOKS)
    answer = await knowledge.search("crictl images", context=NOWHERE, caller=ALICE)
    assert [hit.section_title for hit in answer.results] == ["Free space"]
    assert "words alone" in answer.notes[0]


async def test_where_nothing_could_be_found_an_answer_says_why(knowledge: KnowledgeService) -> None:
    for collection, said in (("incidents", "15 minutes after its last event"), ("runbooks", "no runbook")):
        answer = await knowledge.search("disk", context=NOWHERE, caller=ALICE, collection=collection)
        assert (answer.total_results, answer.results) == (0, [])
        (note,) = answer.notes
        assert said in note


async def test_an_unknown_id_is_answered_with_the_nearest_ones(filled: str, knowledge: KnowledgeService) -> None:
    with pytest.raises(NotFound, match=rf"{filled}#steps"):
        await knowledge.document(f"{filled}#step", context=NOWHERE, caller=ALICE)
    with pytest.raises(NotFound, match="a search of documents finds ids"):
        await knowledge.similar("?", context=NOWHERE, caller=ALICE)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("workflow://formulary/drain-nod@1.0.0#steps", ["workflow://formulary/drain-node@1.0.0#steps"]),
        ("workflow://formulary/drain-node@9.0.0#steps", ["workflow://formulary/drain-node@1.0.0#steps"]),
        ("workflow://shop/drain-node#rollback", ["workflow://formulary/drain-node@1.0.0#rollback_steps"]),
        ("drain-node#step", ["workflow://formulary/drain-node@1.0.0#steps"]),
        ("nodes-drain", ["workflow://formulary/drain-node@1.0.0#"]),
        ("runbooks/dsk.md#free-space", ["runbooks/disk.md#free-space"]),
        ("workflow://formulary/zzz@1.0.0#steps", []),
        ("runbooks/" + "a" * 390, []),
        ("#", []),
    ],
)
async def test_an_unknown_address_is_answered_with_the_nearest_and_what_to_do(
    filled: str, knowledge: KnowledgeService, given: str, nearest: list[str]
) -> None:
    with pytest.raises(UnknownDocument, match="a search of documents finds ids") as refused:
        await knowledge.document(given, context=NOWHERE, caller=ALICE)
    assert all(map(str.startswith, refused.value.nearest[:1], nearest)), refused.value.nearest
    assert bool(refused.value.nearest) == bool(nearest)
    for address in refused.value.nearest:
        await knowledge.document(address, context=NOWHERE, caller=ALICE)


async def test_one_of_id_and_draft_has_to_be_given(knowledge: KnowledgeService) -> None:
    for doc_id, text in (("", " "), ("a#b", "a")):
        with pytest.raises(InvalidInput, match="give one of doc_id"):
            await knowledge.similar(doc_id, text=text, context=NOWHERE, caller=ALICE)


@pytest.mark.parametrize("end", ["removed", "suspended", "superseded"])
async def test_sections_go_with_the_version_that_they_are_of(
    filled: str, workflows: CatalogWriter, knowledge: KnowledgeService, embedder: Embedder, end: str
) -> None:
    if end == "removed":
        await workflows.remove(namespace="formulary", name="drain-node")
    elif end == "suspended":
        await workflows.apply(entry({**DRAIN, "spec": {**DRAIN["spec"], "suspend": True}}))
    else:
        await fill(workflows, [workflow("drain-node", version="2.0.0", what="Does it better.")], embedder=embedder)
    with pytest.raises(NotFound):
        await knowledge.document(f"{filled}#steps", context=NOWHERE, caller=ALICE)
    assert filled not in str(await found(knowledge, "cordon a node"))


async def test_a_workflow_that_is_served_again_has_its_sections_again(
    filled: str, workflows: CatalogWriter, knowledge: KnowledgeService
) -> None:
    await workflows.suspend(namespace="formulary", name="drain-node")
    await workflows.apply(entry(DRAIN))
    answer = await knowledge.document(f"{filled}#when_to_use", context=NOWHERE, caller=ALICE)
    assert answer.document.text == "When drain-node helps."


async def test_a_vector_goes_with_the_last_document_that_says_its_text(
    writing: Database, embedder: Embedder, database: str
) -> None:
    await load_runbooks(writing, RUNBOOKS)
    await embed_everything(writing, embedder)
    owner = await asyncpg.connect(database)
    count = "select count(*) from formulary.embedding"
    assert await owner.fetchval(count) == 3
    await load_runbooks(writing, {"disk.md": RUNBOOKS["disk.md"]})
    assert await owner.fetchval(count) == 2
    await load_runbooks(writing, {"disk.md": "# Disk pressure\nOther words.\n"})
    assert await owner.fetchval(count) == 0
    await owner.close()


async def test_a_runbook_that_says_the_same_keeps_its_vectors(
    filled: str, writing: Database, knowledge: KnowledgeService
) -> None:
    await load_runbooks(writing, RUNBOOKS)
    counts = (await knowledge.collections(context=NOWHERE, caller=ALICE)).collections
    assert {each.name: each.vectors_count for each in counts}["runbooks"] == 3


async def test_origins_replace_their_own_runbooks_alone(
    filled: str, writing: Database, knowledge: KnowledgeService
) -> None:
    writer = RunbookWriter(writing)
    assert await writer.origins("test:") == {"test:formulary"}
    await writer.replace("test:other", [])
    assert len(await found(knowledge, "disk", "runbooks")) > 0
    await writer.replace("test:formulary", [])
    assert await found(knowledge, "disk", "runbooks") == []
