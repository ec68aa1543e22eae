"""Workflows without a vector of the model: those that it refuses, and those that get one later."""

from collections.abc import Callable, Sequence

import pytest

from formulary_catalog.errors import EmbedderUnavailable, TextsRefused
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.workflows.reembedding import ReembeddingStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import fill
from support.manifest import workflow
from support.models import Formula
from support.reembedding import MANY, A, B, failing_after, many, reembedding, served_models, served_vectors


def refusing(word: str) -> Callable[[Sequence[str]], None]:
    """For a model that does not take texts with this word."""

    def check(texts: Sequence[str]) -> None:
        if any(word in text for text in texts):
            raise TextsRefused("not this one")

    return check


async def test_a_workflow_that_this_release_cannot_read_holds_nothing_up_and_is_found_by_its_words(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, [workflow("fine"), workflow("strange")], embedder=Formula(A))
    await writing.execute("update workflow_version set document = '{\"spec\": 1}' where name = 'strange'")
    report = await reembedding(writing, Formula(B)).run()
    assert len(report.unreadable) == 1
    served = {name: model_id for name, (model_id, _) in (await served_vectors(database)).items()}
    assert served == {"fine": B, "strange": None}


async def test_a_workflow_that_the_new_model_refuses_holds_nothing_up_and_is_found_by_its_words(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    entries = await fill(workflows, many(), embedder=Formula(A))
    report = await reembedding(writing, Formula(B, before=refusing("w007"))).run()
    (refused,) = (each for each in entries if each.name == "w007")
    assert (report.refused, report.refusal, report.embedded) == ({refused.version_id}, "not this one", MANY - 1)
    served = await served_vectors(database)
    assert [name for name, (model_id, _) in served.items() if model_id != B] == ["w007"]


async def test_workflows_that_the_model_refuses_keep_no_later_run_from_its_end(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    first = await reembedding(writing, Formula(B, before=refusing("w0"))).run()
    assert (len(first.refused), first.changed) == (100, True)
    again = await reembedding(writing, Formula(B, before=refusing("w0"))).run()
    assert (len(again.refused), again.embedded) == (100, 0)
    await fill(workflows, [workflow("late")])
    assert (await reembedding(writing, Formula(B, before=refusing("w0"))).complete()).embedded == 1


async def test_a_model_that_refuses_everything_has_failed(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, many(), embedder=Formula(A))
    with pytest.raises(TextsRefused):
        await reembedding(writing, Formula(B, before=refusing("w"))).run()
    assert await served_models(database) == {A}


@pytest.mark.smoke
async def test_what_has_no_vector_of_the_serving_model_gets_one_as_far_as_the_model_works(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore, store: ReembeddingStore
) -> None:
    await fill(workflows, many())
    assert await store.unranked(A) == MANY
    with pytest.raises(EmbedderUnavailable):
        await reembedding(writing, failing_after(100, model_id=A)).complete()
    assert await store.unranked(A) == MANY - 93
    report = await reembedding(writing, Formula(A)).complete()
    assert (report.embedded, report.changed) == (MANY - 93, False)
    assert await served_models(database) == {A}
    assert await store.unranked(A) == 0
    assert await store.unranked(B) == 0, "what does not serve ranks nothing, and lacks nothing"


async def test_a_vector_that_was_stored_and_never_used_is_used_without_embedding_again(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore, store: ReembeddingStore
) -> None:
    (entry,) = await fill(workflows, [workflow("only")])
    vectors = {entry.text_hash: Formula(A).embed_query(entry.embedding_text)}
    await store.save(A, vectors=vectors, text_hashes={})
    assert await store.unranked(A) == 1
    assert (await reembedding(writing, Formula(A)).complete()).embedded == 0
    assert await store.unranked(A) == 0


async def test_only_the_model_that_serves_is_completed(
    database: str, writing: Database, workflows: CatalogWriter, models: ModelStore
) -> None:
    await fill(workflows, [workflow("only")], embedder=Formula(A))
    await reembedding(writing, Formula(B)).complete()
    assert await served_models(database) == {A}
    assert await models.serving() == A


async def test_a_catalog_without_vectors_gets_its_first_ones_in_the_same_way(
    database: str, writing: Database, workflows: CatalogWriter
) -> None:
    await fill(workflows, many())
    report = await reembedding(writing, Formula(A)).run()
    assert (report.before, report.embedded) == ("", MANY)
    assert await served_models(database) == {A}
