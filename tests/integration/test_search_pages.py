"""What a search reads beside the ranking comes in as few statements as it can, and is of workflows that are served."""

import asyncio
from collections.abc import AsyncIterator, Collection, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.evidence import IndexedText, Place
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.domain.request import search_request
from formulary_catalog.store.catalog import ApplyOutcome, CatalogWriter
from formulary_catalog.store.database import Connection, Database, Role
from formulary_catalog.store.pool import FEW, Plan, Pool, read_pool
from formulary_catalog.store.search import Found, SearchStore
from formulary_catalog.store.stems import Stem
from formulary_catalog.store.texts import Texts
from support import manifest
from support.filling import entry, fill
from support.services import open_service

HERE = frozenset({"formulary"})
EVERYWHERE = frozenset({"formulary", "elsewhere"})
SIZES = {"few": FEW - 2, "many": FEW + 6}


@pytest.fixture
async def reading(database: str) -> AsyncIterator[Database]:
    """The database as the server's role, on one connection."""
    async with Database.opened(database, role=Role.SERVER, size=1, deadline=30) as opened:
        yield opened


def names(number: int) -> list[str]:
    return [f"w{each:02d}" for each in range(number)]


def all_of(pool: Pool) -> Sequence[str]:
    return [each.version_id for each in pool.evidence]


async def statements_of(database: Database) -> list[str]:
    """The statements that its one connection is asked from now on."""
    asked: list[str] = []

    async def listen(connection: Connection) -> None:
        connection.add_query_logger(lambda record: asked.append(record.query))

    await database.read_apart(listen)
    return asked


async def search(
    store: SearchStore,
    *,
    known: Container[str] = (),
    namespaces: frozenset[str] = HERE,
    query: str = "",
    word: str = "restart",
) -> Found:
    plan = Plan(constraints=Constraints(), words=[word])
    return await store.search(query=query, plan=lambda _: plan, page=all_of, known=known, namespaces=namespaces)


@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_a_row_says_the_same_with_the_pool_and_by_itself(
    workflows: CatalogWriter, reading: Database, database: str, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    await fill(workflows, [manifest.workflow("w01"), manifest.workflow("w03")], namespace="elsewhere")
    owner = await asyncpg.connect(database)
    await owner.execute(
        "insert into formulary.workflow_outcome (version_id, succeeded, failed, median_seconds) "
        "select version_id, 3, 1, 12.5 from formulary.workflow_version where name in ('w00', 'w01')"
    )
    await owner.close()
    store = SearchStore(reading)

    unknown = await search(store, namespaces=EVERYWHERE)
    known = await search(store, known=unknown.rows.keys(), namespaces=EVERYWHERE)

    assert len(known.rows) == number + 2
    told = {id_: (row.ambiguous, row.outcome) for id_, row in unknown.rows.items()}
    assert {id_: (row.ambiguous, row.outcome) for id_, row in known.rows.items()} == told
    assert sum(ambiguous for ambiguous, _ in told.values()) == 4
    assert [outcome.median_seconds for _, outcome in told.values()].count(12.5) == 3
    assert all(row.document for row in unknown.rows.values())
    assert not any(row.document for row in known.rows.values())
    # Of what the caller does not see, not even that it is there.
    assert not any(row.ambiguous for row in (await search(store, known=unknown.rows.keys())).rows.values())


@pytest.mark.parametrize(("number", "statements"), [(SIZES["few"], 1), (SIZES["many"], 2)], ids=SIZES)
async def test_a_search_of_known_workflows_takes_no_more_statements_than_it_needs(
    workflows: CatalogWriter, reading: Database, number: int, statements: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    store = SearchStore(reading)
    known = (await search(store)).rows.keys()
    asked = await statements_of(reading)
    await search(store, known=known)
    assert len(asked) == statements


@pytest.mark.parametrize(("number", "statements"), [(SIZES["few"], 2), (SIZES["many"], 3)], ids=SIZES)
async def test_a_text_that_was_not_read_before_takes_one_statement_more_once(
    workflows: CatalogWriter, reading: Database, number: int, statements: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number - 1)])
    store = SearchStore(reading)
    await search(store)
    await fill(workflows, [manifest.workflow("new")])
    known = (await search(SearchStore(reading))).rows.keys()
    asked = await statements_of(reading)
    found = await search(store, known=known)
    assert "new" in {each.name for each in found.pool.evidence}
    assert len(asked) == statements
    assert (await search(store, known=known)).pool == found.pool
    assert len(asked) == 2 * statements - 1


def words(pool: Pool) -> dict[str, tuple[Place, ...]]:
    return {each.name: each.places for each in pool.evidence}


async def test_words_that_another_release_derives_in_another_way_are_read_anew(
    workflows: CatalogWriter, reading: Database
) -> None:
    stored = entry(manifest.workflow("own"))
    await fill(workflows, [manifest.workflow("own"), manifest.workflow("other")])
    store = SearchStore(reading)
    before = await search(store)

    derived = replace(stored, lexical_texts={**stored.lexical_texts, Place.NAME: "nothing", Place.WHAT: "restart"})
    assert await workflows.apply(derived, model_id="") is ApplyOutcome.UNCHANGED

    assert words(before.pool) == {"own": (Place.NAME,), "other": (Place.NAME,)}
    assert words((await search(store)).pool) == {"own": (Place.WHAT,), "other": (Place.NAME,)}

    assert await workflows.remove(namespace="formulary", name="own")
    await workflows.apply(stored, model_id="")
    assert words((await search(store)).pool) == words(before.pool)


async def test_of_a_very_long_text_only_what_is_asked_for_is_read_and_nothing_is_remembered(
    workflows: CatalogWriter, reading: Database
) -> None:
    long = " ".join(f"w{number}" for number in range(1_500))
    await fill(workflows, [manifest.workflow("long", what=f"{long} zebra"), manifest.workflow("short")])
    store = SearchStore(reading)
    known = (await search(store)).rows.keys()
    asked = await statements_of(reading)
    for word in ("zebra", "w1", "w1499", "w9999"):
        found = await search(store, known=known, word=word)
        assert words(found.pool)["long"] == (Place.NONE if word == "w9999" else Place.WHAT,)
    texts_of = [statement for statement in asked if "ts_filter" in statement]
    assert len(texts_of) == 4


async def test_texts_that_are_forgotten_meanwhile_are_read_again(
    workflows: CatalogWriter, reading: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(SIZES["few"])])
    everything = (await search(SearchStore(reading))).pool
    monkeypatch.setattr("formulary_catalog.store.texts._CAPACITY", 10_000)
    store = SearchStore(reading)
    for _ in range(3):
        assert (await search(store)).pool == everything


async def test_a_candidate_that_ceases_to_be_served_before_its_text_is_read_is_not_returned(
    workflows: CatalogWriter, reading: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(SIZES["few"])])
    read, asked_for = Texts.of, []

    async def suspended_meanwhile(
        texts: Texts, connection: Connection, version_ids: Collection[str], **asked: Any
    ) -> Mapping[str, IndexedText]:
        asked_for.append(len(version_ids))
        await workflows.suspend(namespace="formulary", name="w03")
        return await read(texts, connection, version_ids, **asked)

    monkeypatch.setattr(Texts, "of", suspended_meanwhile)
    found = await search(SearchStore(reading))

    assert asked_for == [SIZES["few"], SIZES["few"] - 1]
    assert found.pool.total == SIZES["few"] - 1
    assert "w03" not in {each.name for each in found.pool.evidence}


async def test_what_ceases_to_be_served_between_two_statements_is_not_returned(
    workflows: CatalogWriter, reading: Database, database: str
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(SIZES["many"])])
    pools: list[Pool] = []

    async def suspend() -> None:
        async with Database.opened(database, role=Role.WRITER, deadline=30) as writing:
            assert await CatalogWriter(writing).suspend(namespace="formulary", name="w03")

    def page(pool: Pool) -> Sequence[str]:
        pools.append(pool)
        if len(pools) == 1:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, suspend()).result(timeout=60)
        return all_of(pool)

    plan = Plan(constraints=Constraints(), words=["restart"])
    found = await SearchStore(reading).search(query="", plan=lambda _: plan, page=page, namespaces=HERE)

    assert [pool.total for pool in pools] == [SIZES["many"], SIZES["many"] - 1]
    assert found.pool is pools[1]
    assert "w03" not in {each.name for each in found.pool.evidence}
    assert found.rows.keys() == set(all_of(found.pool))


@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_a_workflow_whose_version_somebody_took_away_by_hand_is_left_out_and_the_others_are_found(
    workflows: CatalogWriter, database: str, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    owner = await asyncpg.connect(database)
    await owner.execute("update formulary.workflow_version set status = 'Disabled' where name = 'w03'")
    await owner.close()
    service = await open_service(database)
    answer = await service.search(
        search_request(query="restart", top_k=50), caller=Caller(name="test", access=EVERYTHING)
    )
    await service.close()

    assert answer.total_results == len(answer.workflows) == number - 1
    assert "w03" not in {hit.workflow_id for hit in answer.workflows}


async def test_a_first_word_that_turns_out_to_be_a_signal_type_in_use_costs_one_more_look_once(
    workflows: CatalogWriter, reading: Database
) -> None:
    labels = manifest.workflow("")["spec"]["labels"] | {"signalType": ["CheckoutTooSlow"]}
    await fill(workflows, [manifest.workflow("own", labels=labels), manifest.workflow("other")])
    asked: list[bool] = []
    store = SearchStore(reading)

    def plan(first_word_is_signal: bool) -> Plan:
        asked.append(first_word_is_signal)
        values = {"signal_type": frozenset({"checkouttooslow"})} if first_word_is_signal else {}
        return Plan(constraints=Constraints(values=values), words=["restart"])

    async def found(*, planned: list[bool], namespaces: frozenset[str] = HERE) -> list[str]:
        asked.clear()
        answer = await store.search(query="CheckoutTooSlow critical", plan=plan, page=all_of, namespaces=namespaces)
        assert asked == planned
        return sorted(each.name for each in answer.pool.evidence)

    assert await found(planned=[False, True]) == ["own"]
    assert await found(planned=[True]) == ["own"]
    assert await found(planned=[False], namespaces=frozenset({"elsewhere"})) == []
    await workflows.suspend(namespace="formulary", name="own")
    assert await found(planned=[True, False]) == ["other"]
    assert await found(planned=[False]) == ["other"]


async def test_the_wrong_guess_about_a_first_word_looks_for_nothing(
    workflows: CatalogWriter, reading: Database
) -> None:
    labels = manifest.workflow("")["spec"]["labels"] | {"signalType": ["CheckoutTooSlow"]}
    await fill(workflows, [manifest.workflow("own", labels=labels), manifest.workflow("other")])
    for in_use, total in ((False, 0), (True, 2)):

        async def read(connection: Connection, in_use: bool = in_use) -> Pool:
            everything = Plan(constraints=Constraints(), words=["restart"])
            return await read_pool(
                connection,
                everything,
                stems={"restart": Stem("'restart'", ("restart",))},
                texts=Texts(),
                namespaces=HERE,
                signal_word="CheckoutTooSlow",
                in_use=in_use,
            )

        pool = await reading.read_apart(read)
        assert (pool.word_in_use, pool.total) == (True, total)


@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_nothing_stays_visible_on_the_connection(
    workflows: CatalogWriter, reading: Database, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    store = SearchStore(reading)
    for query in ("restart", "OOMKilled", ""):
        assert (await search(store, query=query)).pool.total == number
        assert await reading.fetch("select from workflow_version") == []
        assert await reading.fetch("select from workflow_search") == []
        assert (await search(store, query=query, namespaces=frozenset({"elsewhere"}))).pool.total == 0
