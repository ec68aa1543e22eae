"""What ended incidents taught: who finds it, and how it goes with its trace."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.knowledge.service import KnowledgeService
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.knowledge.incidents import IncidentDocuments
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, Rights
from support.filling import entry, fill
from support.knowledge import embed_everything, read_ended_traces, remedied
from support.manifest import workflow
from support.services import open_parts, service_on
from support.targets import example_reader

SHOP = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-shop",
    environment="production",
    custom_labels={"team": ("vault-team",)},
)
AGAIN = replace(SHOP, name="again", remediation_id="rr-again")
OTHERS = replace(SHOP, name="others", remediation_id="rr-others", custom_labels={"team": ("web",)})
AT_SHOP = ContextReference(remediation_id="rr-shop")
AT_AGAIN = ContextReference(remediation_id="rr-again")
AT_OTHERS = ContextReference(remediation_id="rr-others")
AGENT = Caller(name="agent", access=Rights(see={"formulary", "shop"}, use={"shop"}))
PERSON = Caller(name="person", access=Rights(see={"formulary", "shop"}))
STRANGER = Caller(name="stranger", access=Rights(see={"formulary", "bank"}, use={"bank"}))
ADMIN = Caller(name="admin", access=Rights(see={EVERYWHERE}, use={EVERYWHERE}))
QUERY = "OOMKilled critical heap of the cart service"
REASON = "the cart leaks when coupons are redeemed"


@pytest.fixture
def knowledge(parts: CatalogParts) -> KnowledgeService:
    return KnowledgeService(parts)


@pytest.fixture
async def ended(
    workflows: CatalogWriter,
    contexts: ContextWriter,
    service: CatalogService,
    writing: Database,
    embedder: Embedder,
) -> None:
    """An incident of the shop for which the agent chose a workflow of the team."""
    await fill(workflows, [workflow("raise-limit", customLabels={"team": "vault-team"})], embedder=embedder)
    for context in (SHOP, AGAIN, OTHERS):
        await contexts.save(context)
    await remedied(service, context=AT_SHOP, caller=AGENT, query=QUERY, reasoning=REASON, choice="raise-limit")
    await read_ended_traces(writing)
    await embed_everything(writing, embedder)


async def found(
    knowledge: KnowledgeService,
    *,
    caller: Caller,
    context: ContextReference | None = None,
    query: str = "coupons heap OOMKilled critical",
) -> set[str]:
    answer = await knowledge.search(
        query, context=context or ContextReference(), caller=caller, collection="incidents", browsing=True
    )
    return {hit.section_title for hit in answer.results}


async def counted(
    knowledge: KnowledgeService, *, caller: Caller, context: ContextReference, documents: bool = False
) -> int:
    """How many documents of incidents have a vector, or how many there are."""
    answer = await knowledge.collections(context=context, caller=caller, browsing=True)
    (incidents,) = (each for each in answer.collections if each.name == "incidents")
    return incidents.documents if documents else incidents.vectors_count


async def test_the_same_symptom_finds_what_was_chosen_and_why(ended: None, knowledge: KnowledgeService) -> None:
    answer = await knowledge.search(
        "cart out of memory", context=AT_AGAIN, caller=AGENT, collection="incidents", top_k=5
    )
    texts = {}
    for hit in answer.results:
        document = await knowledge.document(hit.id, context=AT_AGAIN, caller=AGENT)
        texts[hit.section_title] = document.document.text
        named = document.document.source_file.removeprefix("incident://shop/")
        assert (named == "rr-shop") == (hit.section_title == "Queries and reasoning")
    assert texts["Queries and reasoning"] == (f"searched for: {QUERY}\nchose formulary/raise-limit because: {REASON}")
    assert "chosen: formulary/raise-limit" in texts["Choice and outcome"]
    assert "signal: OOMKilled" in texts["Choice and outcome"]


async def test_a_choice_for_what_is_broken_teaches_those_who_see_its_namespace(
    ended: None, database: str, embedder: Embedder, writing: Database
) -> None:
    about = ContextReference(target=parse_target("example-search/Deployment/indexer"))
    there = {"see": {"formulary", "example-search"}, "targets": {"example-search"}}
    agent = Caller(name="indexer-agent", access=Rights(use={"example-search"}, **there))
    async with open_parts(database, embedder=embedder, targets=example_reader()) as with_targets:
        await remedied(
            service_on(with_targets), context=about, caller=agent, query=QUERY, reasoning=REASON, choice="raise-limit"
        )
        await read_ended_traces(writing)
        await embed_everything(writing, embedder)
        knowledge = KnowledgeService(with_targets)

        assert await found(knowledge, caller=agent, context=about) == {"Queries and reasoning", "Choice and outcome"}
        without = Caller(name="person", access=Rights(**there))
        assert await found(knowledge, caller=without, context=about) == {"Choice and outcome"}
        assert await found(knowledge, caller=STRANGER) == set()


async def test_free_text_is_for_who_may_use_the_incident(ended: None, knowledge: KnowledgeService) -> None:
    assert await found(knowledge, caller=ADMIN) == {"Queries and reasoning", "Choice and outcome"}
    assert await found(knowledge, caller=AGENT, context=AT_AGAIN) == {"Queries and reasoning", "Choice and outcome"}
    without = replace(PERSON, access=Rights(see={EVERYWHERE}))
    assert await found(knowledge, caller=without) == {"Choice and outcome"}
    # Nor do its words tell by the ranking that they are there.
    assert await found(knowledge, caller=without, query="coupons") == set()


async def test_incidents_of_other_tenants_are_neither_found_nor_counted(
    ended: None, contexts: ContextWriter, knowledge: KnowledgeService
) -> None:
    await contexts.save(replace(SHOP, namespace="bank", remediation_id="rr-bank"))
    at_bank = ContextReference(remediation_id="rr-bank")
    assert await found(knowledge, caller=STRANGER, context=at_bank) == set()
    assert await counted(knowledge, caller=STRANGER, context=at_bank) == 0
    assert await counted(knowledge, caller=AGENT, context=AT_AGAIN) == 2
    admin = await knowledge.search("coupons", context=ContextReference(), caller=ADMIN, collection="incidents")
    for hit in admin.results:
        with pytest.raises(NotFound, match="a search of documents finds ids"):
            await knowledge.document(hit.id, context=at_bank, caller=STRANGER)


async def test_an_incident_whose_choice_is_excluded_here_is_not_found(ended: None, knowledge: KnowledgeService) -> None:
    assert await found(knowledge, caller=AGENT, context=AT_OTHERS) == set()
    assert await counted(knowledge, caller=AGENT, context=AT_OTHERS) == 0


async def test_reasoning_that_names_an_excluded_workflow_is_not_found(
    ended: None,
    workflows: CatalogWriter,
    service: CatalogService,
    writing: Database,
    knowledge: KnowledgeService,
) -> None:
    open_to_all, secret = workflow("restart-pods"), workflow("rotate-keys", customLabels={"team": "vault-team"})
    await fill(workflows, [open_to_all, secret])
    query, reasoning = "restart the cart pods", "rotate-keys would take longer"
    await remedied(service, context=AT_AGAIN, caller=AGENT, query=query, reasoning=reasoning, choice="restart-pods")
    await read_ended_traces(writing)
    assert await found(knowledge, caller=AGENT, context=AT_SHOP, query=f"{query} {reasoning}") == {
        "Queries and reasoning",
        "Choice and outcome",
    }
    assert await found(knowledge, caller=AGENT, context=AT_OTHERS, query=f"{query} {reasoning}") == {
        "Choice and outcome"
    }


@pytest.mark.parametrize("stored_first", [True, False])
@pytest.mark.parametrize(
    "mention",
    [
        "web.dotted",
        "Web.Dotted?",
        "formulary/web.dotted",
        "workflow://formulary/web.dotted@1.0.0#steps",
        "plain@1.0.0",
        "`formulary/plain`",
        "{dotted_id}",
        "web.dotted-or-the-other",
    ],
)
async def test_reasoning_that_mentions_an_excluded_workflow_in_any_form_is_not_found(
    ended: None,
    workflows: CatalogWriter,
    service: CatalogService,
    writing: Database,
    knowledge: KnowledgeService,
    mention: str,
    stored_first: bool,
) -> None:
    for_team = {"team": "vault-team"}
    secret = [workflow(name, customLabels=for_team) for name in ("web.dotted", "plain", "web.dotted-or-the-other")]
    dotted_id = entry(secret[0]).version_id
    await fill(workflows, [workflow("restart-pods"), *(secret if stored_first else [])])
    query, reasoning = "restart the cart pods", f"it is not {mention.format(dotted_id=dotted_id)}, that takes longer"
    await remedied(service, context=AT_AGAIN, caller=AGENT, query=query, reasoning=reasoning, choice="restart-pods")
    await read_ended_traces(writing)
    if not stored_first:
        await fill(workflows, secret)
    assert "Queries and reasoning" in await found(knowledge, caller=AGENT, context=AT_SHOP, query=query)
    assert await found(knowledge, caller=AGENT, context=AT_OTHERS, query=query) == {"Choice and outcome"}
    assert await counted(knowledge, caller=AGENT, context=AT_OTHERS, documents=True) == 1


async def test_a_title_or_a_plain_name_that_the_incident_was_shown_is_a_mention(
    ended: None,
    workflows: CatalogWriter,
    service: CatalogService,
    writing: Database,
    knowledge: KnowledgeService,
) -> None:
    secret = workflow("rotate", title="Turn the keys of the cart", customLabels={"team": "vault-team"})
    await fill(workflows, [workflow("restart-pods"), secret])
    for number, reasoning in enumerate(("to rotate takes longer", "we need not turn the keys of the cart")):
        context = replace(AGAIN, name=f"again-{number}", remediation_id=f"rr-again-{number}")
        await ContextWriter(writing).save(context)
        at = ContextReference(remediation_id=context.remediation_id)
        query = f"restart pods or turn cart keys {number}"
        await remedied(service, context=at, caller=AGENT, query=query, reasoning=reasoning, choice="restart-pods")
    await read_ended_traces(writing)
    assert await counted(knowledge, caller=AGENT, context=AT_SHOP, documents=True) == 2 + 2 * 2
    assert await counted(knowledge, caller=AGENT, context=AT_OTHERS, documents=True) == 2


async def test_no_document_holds_a_custom_label(ended: None, database: str) -> None:
    owner = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    await owner.execute("set role formulary_writer")
    rows = await owner.fetch("select d::text as row from knowledge_document d")
    assert len(rows) > 2
    assert not [row for row in rows if "vault-team" in row["row"]]
    await owner.close()


async def test_what_happens_later_is_added(
    ended: None, service: CatalogService, writing: Database, knowledge: KnowledgeService
) -> None:
    await remedied(
        service,
        context=AT_SHOP,
        caller=AGENT,
        query="raise the limit",
        reasoning="again the coupons",
        choice="raise-limit",
    )
    await read_ended_traces(writing)
    (hit,) = (
        await knowledge.search("again the coupons", context=AT_AGAIN, caller=AGENT, collection="incidents", top_k=1)
    ).results
    text = (await knowledge.document(hit.id, context=AT_AGAIN, caller=AGENT)).document.text
    assert "again the coupons" in text
    assert REASON in text


async def test_a_trace_that_is_still_going_on_is_not_read(ended: None, writing: Database) -> None:
    assert await IncidentDocuments(writing).catch_up() == 0


async def test_two_processes_read_a_trace_once(ended: None, service: CatalogService, writing: Database) -> None:
    await remedied(service, context=AT_SHOP, caller=AGENT, query="x", reasoning="y", choice="raise-limit")
    documents = IncidentDocuments(writing, quiet_seconds=0)
    counts = await asyncio.gather(documents.catch_up(), documents.catch_up())
    assert sorted(counts) == [0, 1]


async def test_documents_go_with_their_trace(ended: None, database: str) -> None:
    owner = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    vectors = "select count(*) from embedding"
    before = await owner.fetchval(vectors)
    await owner.execute("delete from trace_head where trace_id = 'rr-shop'")
    await owner.execute("set role formulary_writer")
    assert await owner.fetchval("select count(*) from knowledge_document where collection = 'incidents'") == 0
    assert await owner.fetchval(vectors) == before - 2
    await owner.close()
