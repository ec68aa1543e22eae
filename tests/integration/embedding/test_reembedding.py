"""From one embedding model to another on a real database: what is served meanwhile, and after it ended early."""

import asyncio

import asyncpg
import numpy as np
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.migrate import _upgrade, migrate
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import entry, fill
from support.manifest import workflow
from support.models import Formula, Held
from support.reembedding import MANY, A, B, C, failing_after, many, reembedding, served_models, served_vectors
from support.services import open_parts, service_on


async def top_hit(service: CatalogService) -> tuple[str, float | None]:
    """How a search ranked, and the similarity of its first result."""
    answer = await service.search(
        search_request(query="restart the w007 pods"), caller=Caller(name="test", access=EVERYTHING)
    )
    return answer.search_mode, answer.workflows[0].similarity_score


async def kept_models(dsn: str) -> set[str]:
    """The models of which vectors are kept."""
    connection = await asyncpg.connect(dsn)
    try:
        return {row[0] for row in await connection.fetch("select distinct model_id from formulary.embedding")}
    finally:
        await connection.close()


async def test_the_first_model_that_a_catalog_gets_serves_and_stays(models: ModelStore) -> None:
    assert await models.adopt(B) == A
    assert await models.serving() == A


@pytest.mark.smoke
async def test_old_vectors_are_served_until_all_new_ones_are_there_and_then_only_new_ones(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    entries = await fill(workflows, many(), embedder=Formula(A))
    held = Held(texts=MANY - 1)
    new = Formula(B, before=held)
    running = asyncio.create_task(reembedding(writing, new).run())
    await held.until_reached()

    assert await models.serving() == A
    assert await served_models(database) == {A}

    held.go_on.set()
    report = await running
    assert (report.changed, report.before, report.workflows, report.embedded) == (True, A, MANY, MANY)
    served = await served_vectors(database)
    for each in entries:
        model_id, vector = served[each.name]
        assert model_id == B
        assert np.array_equal(vector, new.embed_query(each.embedding_text))
    assert await models.serving() == B
    assert report.purged == MANY
    assert await kept_models(database) == {B}


async def test_one_that_failed_midway_goes_on_where_it_stopped(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    with pytest.raises(EmbedderUnavailable):
        await reembedding(writing, failing_after(100)).run()
    assert await served_models(database) == {A}

    again = Formula(B)
    report = await reembedding(writing, again).run()
    assert len(again.embedded) == MANY - 93 + report.documents
    assert (report.embedded, report.workflows) == (MANY - 93, MANY)
    assert await served_models(database) == {B}


async def test_what_comes_in_meanwhile_is_embedded_before_the_change(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    held = Held(texts=MANY - 1)
    running = asyncio.create_task(reembedding(writing, Formula(B, before=held)).run())
    await held.until_reached()
    await fill(
        workflows, [workflow("a-new-one"), workflow("w000", version="2.0.0", what="Other.")], embedder=Formula(A)
    )
    assert await served_models(database) == {A}

    held.go_on.set()
    await running
    served = await served_vectors(database)
    assert len(served) == MANY + 1
    assert {model_id for model_id, _ in served.values()} == {B}


async def test_a_workflow_written_after_the_change_carries_the_vector_of_the_new_model(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, [workflow("before")], embedder=Formula(A))
    await reembedding(writing, Formula(B)).run()
    await fill(workflows, [workflow("after")], embedder=Formula(B))
    # A process that has not noticed: what it brings is kept, and never compared with vectors of another model.
    await fill(workflows, [workflow("behind")], embedder=Formula(A))
    served = {name: model_id for name, (model_id, _) in (await served_vectors(database)).items()}
    assert served == {"before": B, "after": B, "behind": None}

    report = await reembedding(writing, Formula(B)).run()
    assert (report.changed, report.embedded) == (False, 1)
    assert await served_models(database) == {B}


async def test_writers_and_the_change_do_not_get_into_each_others_way(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))

    async def edit(name: str) -> None:
        for version in ("2.0.0", "3.0.0", "4.0.0"):
            new = entry(workflow(name, version=version, what=f"Version {version}."))
            # As a loader does it that knows of the change.
            for embedder in (Formula(A), Formula(B)):
                vector = embedder.embed_query(new.embedding_text)
                await workflows.save_vectors({new.text_hash: vector}, model_id=embedder.model_id)
            await workflows.apply(new, model_id=A)
        if name.endswith("7"):
            await workflows.remove(namespace="formulary", name=name)

    await asyncio.gather(reembedding(writing, Formula(B)).run(), *(edit(f"w{number:03}") for number in range(30)))
    served = await served_vectors(database)
    assert len(served) == MANY - 3
    assert {model_id for model_id, _ in served.values()} == {B}


async def test_those_who_store_the_same_vectors_in_opposite_orders_do_not_block_each_other(
    workflows: CatalogWriter,
) -> None:
    vector = Formula(A).embed_query("")
    for number in range(5):
        hashes = [f"{number} {text:03}" for text in range(400)]
        await asyncio.gather(
            *(workflows.save_vectors(dict.fromkeys(order, vector), model_id=A) for order in (hashes, hashes[::-1]))
        )
        assert not await workflows.missing_texts(hashes, model_id=A)


async def test_only_one_runs_at_a_time(writing: Database, workflows: CatalogWriter, models: ModelStore) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    held = Held(texts=0)
    running = asyncio.create_task(reembedding(writing, Formula(B, before=held)).run())
    await held.until_reached()
    for other in (B, C):
        with pytest.raises(Unavailable, match="another process is re-embedding"):
            await reembedding(writing, Formula(other)).run()
    held.go_on.set()
    assert (await running).changed


async def test_a_model_that_was_given_up_midway_leaves_nothing_behind(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    with pytest.raises(EmbedderUnavailable):
        await reembedding(writing, failing_after(100)).run()
    report = await reembedding(writing, Formula(C)).run()
    assert (report.before, await served_models(database)) == (A, {C})
    assert await kept_models(database) == {C}
    assert report.purged == MANY + 93


async def test_a_search_ranks_by_its_own_model_or_by_words_and_never_by_vectors_of_another(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    async with open_parts(database) as parts:
        parts.vectors.use(Formula(A))
        service = service_on(parts)
        before = await top_hit(service)
        running = asyncio.create_task(reembedding(writing, Formula(B)).run())
        meanwhile = []
        while not running.done():
            meanwhile.append(await top_hit(service))
        by_words = await top_hit(service)
        parts.vectors.use(Formula(B))
        after = await top_hit(service)
    assert (await running).changed
    assert (before[0], by_words, after[0]) == ("hybrid", ("lexical", None), "hybrid")
    assert before != after
    assert set(meanwhile) <= {before, by_words}


async def test_rows_that_an_earlier_release_kept_of_a_change_do_not_stand_in_the_way(
    database: str, writing: Database, workflows: CatalogWriter
) -> None:
    await fill(workflows, [workflow("only")])
    await writing.execute("insert into embedding_model (model_id, state) values ('a@1', 'preparing')")
    assert await ModelStore(writing).adopt(A) == A
    await writing.execute("insert into embedding_model (model_id, state) values ('b@1', 'previous')")
    await reembedding(writing, Formula(B)).run()
    assert await ModelStore(writing).serving() == B


async def test_a_text_that_another_release_made_of_a_workflow_is_replaced_by_that_of_this_one(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, [workflow("old")], embedder=Formula(A))
    await writing.execute("update workflow_version set text_hash = 'made by another release'")
    new = Formula(B)
    await reembedding(writing, new).run()
    served = await served_vectors(database)
    assert np.array_equal(served["old"][1], new.embed_query(entry(workflow("old")).embedding_text))


@pytest.mark.parametrize("owner", ["superuser", "plain"])
async def test_after_an_upgrade_the_model_of_the_stored_vectors_serves(
    owner: str, empty_database: str, database: str
) -> None:
    admin = await asyncpg.connect(empty_database)
    await admin.execute("create schema formulary; create extension if not exists vector")
    dsn = empty_database
    if owner == "plain":
        name = await admin.fetchval("select current_database()")
        await admin.execute(f"create role plain_{name} login; grant formulary_server, formulary_writer to plain_{name}")
        await admin.execute(
            f"alter schema formulary owner to plain_{name}; grant create on database {name} to plain_{name}"
        )
        dsn = empty_database.replace("postgres@", f"plain_{name}@")
    await _upgrade(dsn, to="0006")
    await admin.execute(
        """
        insert into formulary.tenant (namespace) values ('shop');
        insert into formulary.workflow_version (version_id, tenant_id, namespace, name, version, content_hash,
            text_hash, index_hash, status, source, document)
        select 'v' || n, 1, 'shop', 'n' || n, '1', '', '', '', 'Active', '', '{}' from generate_series(1, 3) n;
        insert into formulary.workflow_search (version_id, tenant_id, signal_type, signal_name, leading_row, namespace,
            name, signal_types, severity, environment, component, priority, risk_tolerance, business_category, cluster,
            custom, detected, exclusion_text, lexemes, model_id)
        select 'v' || n, 1, '', '', true, 'shop', 'n' || n, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}',
            '{}', '{}', '', '', case n when 1 then 'stray@1' else 'usual@1' end from generate_series(1, 3) n
        """
    )
    await asyncio.to_thread(migrate, dsn)
    rows = await admin.fetch("select model_id, source, state from formulary.embedding_model")
    assert [tuple(row) for row in rows] == [("usual@1", "", "serving")]
    if owner == "plain":
        await admin.execute(
            f"reassign owned by plain_{name} to postgres; drop owned by plain_{name}; drop role plain_{name}"
        )
    await admin.close()


async def test_documents_change_their_model_with_the_workflows(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, [workflow("only")], embedder=Formula(A))
    await reembedding(writing, Formula(A)).complete()
    assert await _models_of_documents(database) == {A}
    report = await reembedding(writing, Formula(B)).run()
    assert (report.embedded, report.documents) == (1, 2)
    assert await _models_of_documents(database) == {B}


async def _models_of_documents(dsn: str) -> set[str | None]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("set role formulary_writer")
        return {row[0] for row in await connection.fetch("select model_id from formulary.knowledge_document")}
    finally:
        await connection.close()
