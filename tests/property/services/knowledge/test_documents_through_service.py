"""No knowledge tool finds, counts, compares or names what the incident or the tenant excludes."""

import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.knowledge.service import KnowledgeService
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.audit.events import TraceEvent
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import Rights
from support.databases import migrated_database
from support.examples import few_and_many
from support.filling import entry
from support.knowledge import embed_everything, load_runbooks, read_ended_traces
from support.services import open_parts, service_on

WORDS = ["memory", "drain", "node", "limit", "restart", "reboot"]
TEAMS = ["web", "data", "*"]
MENTIONS = ("{0.name}", "{0.namespace}/{0.name}", "workflow://{0.namespace}/{0.name}@1.0.0#steps", "{0.version_id}")
some_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
some_custom = st.dictionaries(
    st.sampled_from(["team", "region"]), st.lists(st.sampled_from(TEAMS), min_size=1, max_size=2), max_size=2
)


@dataclass(frozen=True)
class Workflow:
    """What a workflow in one of three namespaces says and declares."""

    namespace: str
    text: str
    environment: str
    custom: dict[str, list[str]]
    suspended: bool

    def entry(self, position: int, *, number: int) -> CatalogEntry:
        anywhere = dict.fromkeys(("severity", "component", "priority"), "*")
        document = manifest.workflow(
            f"w{position}-of{number}",
            what=self.text,
            labels={**anywhere, "environment": self.environment},
            customLabels=self.custom,
            suspend=self.suspended,
            steps=[{"name": "only", "description": self.text}],
        )
        return entry(document, namespace=f"{self.namespace}{number}")


catalogs = st.lists(
    st.builds(
        Workflow,
        namespace=st.sampled_from("abc"),
        text=some_words,
        environment=st.sampled_from(["production", "staging", "*"]),
        custom=some_custom,
        suspended=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
incidents = st.builds(
    replace,
    st.just(RequestContext(namespace="", name="oom", remediation_id="")),
    environment=st.sampled_from(["", "production", "staging"]),
    custom_labels=some_custom.map(lambda given: {key: tuple(values) for key, values in given.items()}),
    strict_keys=st.frozensets(st.sampled_from(["team", "region"]), max_size=1),
)
sights = st.sampled_from([frozenset("ab"), frozenset("a"), frozenset("b")])


@dataclass(frozen=True)
class World:
    """One database, its writers, and the service with and without an embedder."""

    writing: Database
    embedder: Embedder
    parts: CatalogParts
    services: dict[bool, KnowledgeService]
    numbers: Any


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[World]:
    async with (
        migrated_database(postgres) as dsn,
        Database.opened(dsn, role=Role.WRITER, deadline=30) as writing,
        open_parts(dsn, embedder=embedder, policy=ContextPolicy.REQUIRED) as parts,
        open_parts(dsn, policy=ContextPolicy.REQUIRED) as by_words,
    ):
        services = {True: KnowledgeService(parts), False: KnowledgeService(by_words)}
        yield World(writing=writing, embedder=embedder, parts=parts, services=services, numbers=itertools.count())


@dataclass(frozen=True)
class Past:
    """What happened earlier: which workflow was chosen, which ones the reasons mention and how, all by position; and
    whether those mentioned were stored only after the incident had ended."""

    choice: int
    mentions: list[tuple[int, str]]
    late: bool


pasts = st.builds(
    Past,
    choice=st.integers(0, 4),
    mentions=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(MENTIONS)), max_size=2),
    late=st.booleans(),
)


async def happen(world: World, past: Past, entries: list[CatalogEntry], *, number: int) -> set[str] | None:
    """An incident in the first namespace, read when it has ended; the ids that it names, the chosen one among them.

    None if the choice was not to be made there.
    """
    chosen = entries[past.choice % len(entries)]
    if chosen.workflow.spec.suspend or chosen.namespace == f"c{number}":
        return None
    mentioned = [(entries[position % len(entries)], form) for position, form in past.mentions]
    context = RequestContext(namespace=f"a{number}", target_namespace=f"b{number}", name="past", remediation_id="")
    await ContextWriter(world.writing).save(replace(context, remediation_id=f"rr-past-{number}"))
    returned = {"candidates": [{"version_id": chosen.version_id, "returned": True}]}
    await world.parts.traces.append(
        TraceEvent(
            trace_id=f"rr-past-{number}",
            kind="search",
            caller="earlier",
            payload={"outcome": "ok", "analysis": f"a{number}/past", "result": returned},
        )
    )
    await service_on(world.parts).record_selection(
        workflow_id=f"{chosen.namespace}/{chosen.name}",
        reasoning=f"it fits, not {' nor '.join(form.format(each) for each, form in mentioned)}",
        context=ContextReference(remediation_id=f"rr-past-{number}"),
        caller=Caller(name="earlier", access=EVERYTHING),
    )
    await read_ended_traces(world.writing)
    return {each.version_id for each, _ in mentioned} | {chosen.version_id}


async def _speaks_only_of_what_is_allowed_and_visible(
    world: World,
    catalog: list[Workflow],
    incident: RequestContext,
    query: str,
    see: frozenset[str],
    by_meaning: bool,
    past: Past,
) -> None:
    number = next(world.numbers)
    entries = [workflow.entry(position, number=number) for position, workflow in enumerate(catalog)]
    chosen = entries[past.choice % len(entries)]
    for each in entries:
        if not past.late or each is chosen:
            await CatalogWriter(world.writing).apply(each)
    named = await happen(world, past, entries, number=number)
    for each in entries:
        await CatalogWriter(world.writing).apply(each)
    for namespace in "abc":
        await load_runbooks(world.writing, {f"{namespace}.md": f"# {query}\n{query}"}, namespace=f"{namespace}{number}")
    here = replace(incident, namespace=f"a{number}", target_namespace=f"b{number}", remediation_id=f"rr-{number}")
    await ContextWriter(world.writing).save(here)
    await embed_everything(world.writing, world.embedder)
    namespaces = {f"{name}{number}" for name in see}
    call: dict[str, Any] = {
        "context": ContextReference(remediation_id=here.remediation_id),
        "caller": Caller(name="agent", access=Rights(see=namespaces, use={here.namespace})),
    }
    constraints = constraints_of(here, strict_keys=frozenset())
    may = {
        each.version_id
        for each in entries
        if each.namespace in namespaces and not each.workflow.spec.suspend and allowed(each.labels, constraints)
    }
    readable = {document.doc_id for each in entries if each.version_id in may for document in each.documents}
    knowledge = world.services[by_meaning]

    search = await knowledge.search(query, top_k=50, collection="workflows", **call)
    assert {hit.id for hit in search.results} <= readable
    assert search.total_results == len(search.results)
    counts = {each.name: each for each in (await knowledge.collections(**call)).collections}
    assert (counts["workflows"].documents, counts["workflows"].vectors_count) == (len(readable), len(readable))
    assert counts["runbooks"].documents == len(namespaces)
    runbooks = await knowledge.search(query, top_k=50, collection="runbooks", **call)
    assert len(runbooks.results) == len(namespaces)
    for doc_id in sorted(readable):
        similar = await knowledge.similar(doc_id, top_k=50, **call)
        assert {each.id for each in similar.similar_docs} <= readable
    everything = [document for each in entries for document in each.documents]
    for document in everything:
        if document.doc_id in readable:
            assert (await knowledge.document(document.doc_id, **call)).document.text == document.text
            continue
        with pytest.raises(NotFound) as refused:
            await knowledge.document(document.doc_id, **call)
        said = str(refused.value).replace(document.doc_id, "")
        assert not [other for other in everything if other.doc_id not in readable and other.doc_id in said]
    past_incidents = await knowledge.search(query, top_k=50, collection="incidents", **call)
    found = 0
    if named is not None and "a" in see and chosen.version_id in may:
        found = 2 if named <= may else 1
    assert counts["incidents"].documents == found
    read = [await knowledge.document(hit.id, **call) for hit in past_incidents.results]
    answers = [search, runbooks, past_incidents, *read]
    told = json.dumps([*(each.as_json() for each in answers), *(each.model_dump() for each in counts.values())])
    hidden = [each for each in entries if each.version_id not in may]
    assert not [each for each in hidden if each.version_id in told or each.name in told]


test_tools_speak_only_of_what_is_allowed_and_visible, test_so_they_do_in_many_catalogs = few_and_many(
    _speaks_only_of_what_is_allowed_and_visible,
    few=10,
    many=100,
    catalog=catalogs,
    incident=incidents,
    query=some_words,
    see=sights,
    by_meaning=st.booleans(),
    past=pasts,
)
