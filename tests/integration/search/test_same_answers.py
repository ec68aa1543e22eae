"""The same catalog and request give the same bytes: in every process, after a restart, however the rows came to lie,
with an embedder and without.

What a search is asked comes from the adversarial set and from words that many workflows share.
"""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import numpy as np
import numpy.typing as npt
import pytest

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.search.candidates import ALL
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.adversarial import cases, copies, nearby, store, store_embedded
from support.databases import migrated_database
from support.filling import entry, starter_documents
from support.services import open_parts
from support.serving import serving
from support.wire import Reply, Wire

Vectors: TypeAlias = dict[str, npt.NDArray[np.float32]]
UNIT = np.eye(1, 384, dtype=np.float32)[0]
TESTS = Path(__file__).parents[2]
QUERIES = [
    "OOMKilled critical restart the pod",
    "CrashLoopBackOff high",
    "KubePodCrashLooping warning checkout",
    "node memory disk restart drain certificate image volume job",
    "restart",
    "the of and",
    "zebra",
    *(case.data["query"] for case in cases()[::12]),
]
NEARLY = ALL - 40
"""So many copies that, with the others, more are allowed than are ranked in full."""
TWINS = 20
LABELS: list[dict[str, list[str]]] = [{}, {"environment": ["production"]}, {"severity": ["high"], "component": ["Pod"]}]
INCIDENT = RequestContext(
    namespace="formulary",
    name="same",
    remediation_id="rr-same",
    environment="staging",
    custom_labels={"team": ("shop", "payments")},
    detected_labels={"gitOpsManaged": "false"},
)


def requests() -> list[dict[str, Any]]:
    """What is asked, some of it for an incident."""
    return [
        {
            "query": query,
            "labels": LABELS[position % len(LABELS)],
            "top_k": 10 if position % 2 else 50,
            "incident": "" if position % 4 else INCIDENT.remediation_id,
        }
        for position, query in enumerate(QUERIES)
    ]


async def by_rest(wire: Wire, query: str) -> Reply:
    return await wire.post("/api/v1/workflows/search", {"query": query})


async def by_mcp(wire: Wire, query: str) -> Reply:
    return await wire.tool("search_workflow_catalog", {"query": query})


Ask: TypeAlias = Callable[[Wire, str], Awaitable[Reply]]


@pytest.fixture(scope="module")
def entries(starter_catalog: Path) -> list[CatalogEntry]:
    """The starter catalog and copies of it, more than are ranked in full; some of them differ in their names alone."""
    documents = starter_documents(starter_catalog)
    twins = [entry(document, namespace="twin") for document in documents[:TWINS]]
    return [*(entry(document) for document in documents), *twins, *copies(documents, number=NEARLY, namespace="copies")]


@pytest.fixture(scope="module")
def vectors(entries: list[CatalogEntry], embedder: Embedder) -> Vectors:
    """By the hash of their text; those of copies are near those of what they are copies of."""
    embedded = embedder.embed_documents([each.embedding_text for each in entries[:-NEARLY]])
    near = nearby(embedded[:-TWINS], number=NEARLY)
    return dict(zip((each.text_hash for each in entries), [*embedded, *near], strict=True))


async def load(
    entries: Sequence[CatalogEntry], *, dsn: str, embedder: Embedder, vectors: Vectors | None = None
) -> None:
    """Put workflows into a catalog, embedded now or earlier."""
    writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
    writer = CatalogWriter(writing)
    if vectors is None:
        await store(entries, writer=writer, embedder=embedder)
    else:
        known = [vectors[each.text_hash] for each in entries]
        await store_embedded(entries, vectors=known, writer=writer, model_id=embedder.model_id)
    await ContextWriter(writing).save(INCIDENT)
    await writing.close()


async def statements(dsn: str, *texts: str) -> None:
    owner = await asyncpg.connect(dsn)
    for text in texts:
        await owner.execute(text)
    await owner.close()


async def answers(dsn: str, *arguments: str, seed: str = "random", asked: Sequence[dict[str, Any]] = ()) -> list[str]:
    """What a new process answers."""
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "support.search_process",
        dsn,
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    output, _ = await asyncio.wait_for(process.communicate(json.dumps(list(asked) or requests()).encode()), timeout=120)
    assert process.returncode == 0
    return output.decode().splitlines()


@pytest.fixture(scope="module")
async def dsn(
    postgres: EmbeddedPostgres, entries: list[CatalogEntry], embedder: Embedder, vectors: Vectors
) -> AsyncIterator[str]:
    async with migrated_database(postgres) as at:
        await load(entries, dsn=at, embedder=embedder, vectors=vectors)
        yield at


@pytest.fixture(scope="module")
async def first(dsn: str, entries: list[CatalogEntry]) -> list[str]:
    """The answers that all others must equal."""
    found = await answers(dsn, seed="0")
    answered = [json.loads(line) for line in found]
    assert {each["search_mode"] for each in answered} == {"hybrid", "lexical", "labels-only"}
    assert any("set by the incident's context" in note for each in answered for note in each["notes"])
    assert max(each["total_results"] for each in answered) == len(entries) > ALL
    return found


@pytest.mark.smoke
@pytest.mark.parametrize("seed", ["1", pytest.param("4294967295", marks=pytest.mark.long)])
async def test_every_process_answers_alike(dsn: str, first: list[str], seed: str) -> None:
    assert await answers(dsn, seed=seed) == first


async def test_other_searches_at_the_same_time_and_before_change_nothing(dsn: str, first: list[str]) -> None:
    order = list(range(len(QUERIES))) * 2
    random.Random(3).shuffle(order)
    asked = [requests()[position] for position in order]
    by_words = [len(QUERIES) + position for position in order]
    assert await answers(dsn, "--together", asked=asked) == [first[position] for position in [*order, *by_words]]


@pytest.mark.parametrize(
    "upkeep",
    [
        pytest.param(
            ["vacuum full formulary.workflow_search", "vacuum full formulary.workflow_version"], marks=pytest.mark.long
        ),
        pytest.param(["reindex schema formulary"], marks=pytest.mark.long),
        pytest.param(["analyze"], marks=pytest.mark.long),
        ["update formulary.workflow_search set name = name where version_id < 'wf_ver_8'", "vacuum"],
    ],
    ids=["vacuumed", "reindexed", "analysed", "rewritten"],
)
async def test_where_rows_lie_and_what_the_planner_knows_change_nothing(
    dsn: str, first: list[str], upkeep: list[str]
) -> None:
    await statements(dsn, *upkeep)
    assert await answers(dsn) == first


async def test_the_order_of_loading_changes_nothing(
    postgres: EmbeddedPostgres, entries: list[CatalogEntry], embedder: Embedder, vectors: Vectors, first: list[str]
) -> None:
    shuffled = random.Random(11).sample(entries, len(entries))
    async with migrated_database(postgres) as dsn:
        await load(shuffled[:100], dsn=dsn, embedder=embedder, vectors=vectors)
        for each in shuffled[100:110]:
            await load([each], dsn=dsn, embedder=embedder, vectors=vectors)
        await load(shuffled[50:], dsn=dsn, embedder=embedder, vectors=vectors)  # some of them again
        assert await answers(dsn) == first


async def test_what_was_there_and_went_changes_nothing(
    postgres: EmbeddedPostgres, entries: list[CatalogEntry], embedder: Embedder, vectors: Vectors, first: list[str]
) -> None:
    passing = copies([dict(each.document) for each in entries[:30]], number=60, namespace="passing")
    known = dict.fromkeys((each.text_hash for each in passing), UNIT) | vectors
    async with migrated_database(postgres) as dsn:
        await load(passing, dsn=dsn, embedder=embedder, vectors=known)
        await load(entries, dsn=dsn, embedder=embedder, vectors=vectors)
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        writer = CatalogWriter(writing)
        for each in passing:
            await writer.remove(namespace=each.namespace, name=each.name)
        for each in entries[:10]:
            await writer.suspend(namespace=each.namespace, name=each.name)
        await writing.close()
        await load(entries[:10], dsn=dsn, embedder=embedder, vectors=vectors)
        assert await answers(dsn) == first


@pytest.mark.long
async def test_a_restart_of_the_database_changes_nothing(
    data_dirs: Path, entries: list[CatalogEntry], embedder: Embedder, vectors: Vectors, first: list[str]
) -> None:
    for start in range(2):
        with EmbeddedPostgres(data_dir=data_dirs / "restarted") as server:
            dsn = server.dsn(database="postgres")
            if start == 0:
                await asyncio.to_thread(migrate, dsn)
                await load(entries, dsn=dsn, embedder=embedder, vectors=vectors)
            assert await answers(dsn) == first


@pytest.mark.smoke
@pytest.mark.parametrize("ask", [by_rest, by_mcp], ids=["REST", "MCP"])
async def test_what_is_sent_is_the_same_but_for_the_id_of_the_search(dsn: str, embedder: Embedder, ask: Ask) -> None:
    sent: list[list[bytes]] = []
    for _ in range(2):
        async with open_parts(dsn, embedder=embedder) as parts, serving(parts) as url, Wire(url) as wire:
            sent += [[without_id(await ask(wire, query)) for query in QUERIES] for _ in range(2)]
    assert sent == [sent[0]] * 4


def without_id(reply: Reply) -> bytes:
    """The body of an answer without its search_id and time, which MCP sends twice, once as text in text."""
    assert reply.status == 200, reply.body
    without, ids = re.subn(rb'search_id(\\?":\\?")[0-9a-f-]{36}', rb"search_id\1", reply.body)
    assert ids
    return re.sub(rb'time_ms(\\?":)[0-9]+', rb"time_ms\1", without)
