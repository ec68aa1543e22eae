"""Among more allowed workflows than are all ranked, a word that few of them hold finds these, whatever a model makes of
it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import asyncpg
import pytest

from catalogs import Catalog
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.candidates import ALL, EXACT_UP_TO, RARE
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import Rights
from support.adversarial import store
from support.databases import copied_database, migrated_database
from support.filling import entry
from support.services import open_parts, service_on

DIFFERENT, SOME, MORE = 100, 9, 100
"""So many usual workflows, so many copies of each, and of each where there are more than are compared exactly."""
SHARED, ELSEWHERE = "formulary", "elsewhere"
EVERYBODY = Caller(name="everybody", access=EVERYTHING)
OF_THE_SHARED = Caller(name="of the shared", access=Rights(see=[SHARED]))
BY_CODE, BY_NAME_OF_A_PRODUCT = "by-code", "by-name"
HIDDEN, BESIDE_HIDDEN, EXCLUDED, BESIDE_EXCLUDED = "hidden", "beside-hidden", "excluded", "beside-excluded"
ALONE = {
    "ERR_XFS_4711": BY_CODE,
    "ERR_XFS_4711 at night": BY_CODE,
    "zorkovian": BY_NAME_OF_A_PRODUCT,
    "Zorkovian again": BY_NAME_OF_A_PRODUCT,
}
"""Queries, with the workflow that alone holds a word of each."""
COPIED = """
select column_name from information_schema.columns
where table_schema = 'formulary' and table_name = $1 and is_generated = 'NEVER'
"""
OF_A_COPY = {"version_id": "'wf_ver_' || left(md5(version_id || copy), 20)", "name": "name || '-' || copy"}


def workflow(name: str, *, keywords: tuple[str, ...], namespace: str = SHARED) -> CatalogEntry:
    """One whose texts are like those of many others, but for a keyword: no vector knows of those."""
    document = manifest.workflow(name, what="Restarts the pods of a deployment one after the other.")
    document["spec"]["description"]["whenToUse"] = "The pods hang and their memory grows."
    document["spec"]["keywords"] = list(keywords)
    return entry(document, namespace=namespace)


def shared(document: Mapping[str, Any]) -> CatalogEntry:
    return entry({**document, "metadata": {**document["metadata"], "namespace": SHARED}})


def entries() -> list[CatalogEntry]:
    return [
        workflow(BY_CODE, keywords=("ERR_XFS_4711",)),
        workflow(BY_NAME_OF_A_PRODUCT, keywords=("Zorkovian",)),
        workflow(BESIDE_HIDDEN, keywords=("quibbledb",)),
        workflow(HIDDEN, keywords=("quibbledb",), namespace=ELSEWHERE),
        workflow(BESIDE_EXCLUDED, keywords=("wumpus47",)),
        workflow(EXCLUDED, keywords=("wumpus47", "retired")),
        *(shared(each.documents[-1]) for each in Catalog(DIFFERENT).workflows()),
    ]


async def copy(dsn: str, copies: range, *, names: Sequence[str]) -> None:
    """Add copies of the workflows of these names, which differ in theirs alone."""
    owner = await asyncpg.connect(dsn)
    await owner.execute("set role formulary_writer")
    for table in ("workflow_version", "workflow_search"):
        columns = [row["column_name"] for row in await owner.fetch(COPIED, table)]
        values = ", ".join(OF_A_COPY.get(column, column) for column in columns)
        await owner.execute(
            f"insert into formulary.{table} ({', '.join(columns)}) "
            f"select {values} from formulary.{table}, generate_series($1::integer, $2) as copy where name = any ($3)",
            copies.start,
            copies.stop - 1,
            names,
        )
    await owner.close()


@pytest.fixture(scope="module")
async def catalogs(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[tuple[str, str]]:
    """Of a catalog that is compared exactly, and of one that is not; usual workflows are many times in both."""
    usual = [each.documents[-1]["metadata"]["name"] for each in Catalog(DIFFERENT).workflows()]
    async with migrated_database(postgres) as some:
        async with Database.opened(some, role=Role.WRITER, deadline=60) as database:
            await store(entries(), writer=CatalogWriter(database), embedder=embedder)
        await copy(some, range(RARE), names=[HIDDEN, EXCLUDED])
        await copy(some, range(SOME), names=usual)
        async with copied_database(postgres, some) as more:
            await copy(more, range(SOME, MORE), names=usual)
            yield some, more


@pytest.fixture(scope="module")
async def many(catalogs: tuple[str, str], embedder: Embedder) -> AsyncIterator[CatalogService]:
    async with open_parts(catalogs[0], embedder=embedder) as parts:
        yield service_on(parts)


@pytest.fixture(scope="module")
async def very_many(catalogs: tuple[str, str], embedder: Embedder) -> AsyncIterator[CatalogService]:
    async with open_parts(catalogs[1], embedder=embedder) as parts:
        yield service_on(parts)


@pytest.mark.parametrize(("query", "name"), ALONE.items())
async def test_a_word_that_one_workflow_alone_holds_finds_it(many: CatalogService, query: str, name: str) -> None:
    answer = await many.search(search_request(query=query), caller=EVERYBODY)
    assert answer.total_results > ALL
    assert name in [hit.workflow_id for hit in answer.workflows]


async def test_where_labels_narrow_a_code_does(many: CatalogService) -> None:
    answer = await many.search(
        search_request(query="ERR_XFS_4711", labels={"severity": ["critical"]}), caller=EVERYBODY
    )
    assert answer.total_results > ALL
    assert BY_CODE in [hit.workflow_id for hit in answer.workflows]


@pytest.mark.parametrize(("query", "name"), ALONE.items())
async def test_so_does_it_among_more_than_are_compared_exactly(
    very_many: CatalogService, query: str, name: str
) -> None:
    answer = await very_many.search(search_request(query=query), caller=EVERYBODY)
    assert answer.total_results > EXACT_UP_TO
    assert name in [hit.workflow_id for hit in answer.workflows]


async def test_holders_that_the_caller_may_not_see_do_not_make_a_word_common(many: CatalogService) -> None:
    answer = await many.search(search_request(query="quibbledb"), caller=OF_THE_SHARED)
    assert answer.total_results > ALL
    assert answer.workflows[0].workflow_id == BESIDE_HIDDEN


async def test_holders_that_the_call_excludes_do_not_make_a_word_common(many: CatalogService) -> None:
    answer = await many.search(search_request(query="wumpus47", exclude_keywords=["retired"]), caller=EVERYBODY)
    assert answer.total_results > ALL
    assert answer.workflows[0].workflow_id == BESIDE_EXCLUDED
