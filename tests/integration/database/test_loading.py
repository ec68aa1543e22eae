"""Manifests from files into a real catalog: what is served, kept and removed."""

import os
from dataclasses import replace

import asyncpg
import pytest
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.workflows.labels import DIMENSIONS
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import Unavailable
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.loading import Manifests, messages
from support.manifest import analysis, contract, workflow


async def test_an_invalid_file_is_reported_and_the_others_are_served(manifests: Manifests) -> None:
    manifests.write("good.yaml", workflow("good"))
    manifests.write("bad.yaml", workflow("bad", version="one"))
    (manifests.directory / "broken.yaml").write_text("a: [")
    manifests.write("other.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    report = await manifests.load()
    assert report.created == ["formulary/good@1.0.0"]
    assert [message.split(": ")[0] for message in messages(report)] == ["bad.yaml", "broken.yaml"]
    assert report.ignored == 1
    assert [stored.source for stored in await manifests.catalog.served()] == ["file:good.yaml"]


@pytest.mark.parametrize("dimension", DIMENSIONS)
async def test_labels_that_an_index_of_the_database_does_not_take_are_refused_by_their_place(
    manifests: Manifests, embedder: Embedder, database: str, dimension: str
) -> None:
    """As when a migration adds a dimension of labels that `mark_slim` does not measure."""
    connection = await asyncpg.connect(database)
    await connection.execute("alter table formulary.workflow_search disable trigger mark_slim")
    await connection.execute("alter table formulary.workflow_search alter column slim set default true")
    await connection.close()
    label = to_camel(dimension)
    labels = workflow("long")["spec"]["labels"] | {label: [os.urandom(20).hex() for _ in range(100)]}
    manifests.write("a.yaml", workflow("long", labels=labels), workflow("short"))
    report = await manifests.load(embedder)
    assert report.created == ["formulary/short@1.0.0"]
    (rejection,) = report.rejections
    assert (rejection.source, rejection.field) == ("a.yaml (document 1)", f"spec.labels.{label}")
    assert rejection.message == (
        f"a.yaml (document 1): spec.labels.{label}: the labels are longer together than an index of the database "
        "takes; shorten this list of 100 values, which is the longest"
    )
    assert await manifests.served() == {"short": "1.0.0"}


async def test_a_deleted_file_ends_serving_of_what_came_from_files_only(
    manifests: Manifests, workflows: CatalogWriter
) -> None:
    applied = catalog_entry(workflow("applied"), source="cluster", default_namespace="formulary")
    await workflows.apply(replace(applied, source="kubernetes"))
    path = manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    path.unlink()
    report = await manifests.load()
    assert report.removed == ["formulary/a"]
    assert await manifests.served() == {"applied": "1.0.0"}


async def test_a_changed_manifest_with_its_old_version_is_refused_and_the_old_one_served(
    manifests: Manifests,
) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    manifests.write("a.yaml", workflow("a", what="Deletes it."))
    report = await manifests.load()
    (message,) = messages(report)
    assert message == (
        "a.yaml: spec.version: formulary/a 1.0.0 is already stored with other content (from a.yaml); raise spec.version"
    )
    assert report.rejections[0].source == "a.yaml"
    assert (report.removed, await manifests.served()) == ([], {"a": "1.0.0"})


async def test_a_file_that_breaks_keeps_its_last_good_workflows_and_contexts(manifests: Manifests) -> None:
    path = manifests.write("a.yaml", workflow("a"), analysis("ai", remediation_id="rr-1"))
    manifests.write("old.yaml", workflow("a", version="0.9.0"))
    await manifests.load()
    path.write_text("kind: [")
    report = await manifests.load()
    assert (len(report.rejections), report.removed, report.removed_contexts) == (1, [], [])
    assert await manifests.served() == {"a": "1.0.0"}
    assert set(await manifests.contexts.stored()) == {("shop", "ai")}


async def test_the_highest_version_is_served_and_removing_it_serves_the_next(manifests: Manifests) -> None:
    manifests.write("v1.yaml", workflow("a", version="1.0.0"))
    newer = manifests.write("v2.yaml", workflow("a", version="2.0.0"))
    report = await manifests.load()
    assert report.created == ["formulary/a@2.0.0"]
    assert report.notes == ["v1.yaml: formulary/a 1.0.0 is kept as history; 2.0.0 (v2.yaml) is served"]
    assert not (await manifests.load()).changed
    newer.unlink()
    assert (await manifests.load()).updated == ["formulary/a@1.0.0"]
    assert await manifests.served() == {"a": "1.0.0"}


async def test_one_version_that_is_suspended_in_one_file_and_not_in_another_is_refused(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a", suspend=True))
    manifests.write("b.yaml", workflow("a"))
    report = await manifests.load()
    assert [rejection.field for rejection in report.rejections] == ["spec.version"]


async def test_switching_suspend_takes_effect_without_a_new_version(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    manifests.write("a.yaml", workflow("a", suspend=True))
    await manifests.load()
    assert [stored.status for stored in await manifests.catalog.served()] == ["Disabled"]


async def test_contexts_follow_their_files(manifests: Manifests) -> None:
    path = manifests.write("ai.yaml", analysis("ai", remediation_id="rr-1"))
    first = await manifests.load()
    assert (first.changed_contexts, first.contexts) == (["shop/ai"], 1)
    assert not (await manifests.load()).changed
    manifests.write("ai.yaml", analysis("ai", remediation_id="rr-1", environment="staging"))
    assert (await manifests.load()).changed_contexts == ["shop/ai"]
    path.unlink()
    last = await manifests.load()
    assert (last.removed_contexts, last.contexts, await manifests.contexts.stored()) == (["shop/ai"], 0, {})


async def test_contexts_of_others_are_left_alone_in_a_shared_database(manifests: Manifests) -> None:
    path = manifests.write("ai.yaml", analysis("theirs", remediation_id="rr-1"))
    await manifests.load()
    path.unlink()
    await manifests.new_loader(owns_contexts=False).load(embedder=None)
    assert set(await manifests.contexts.stored()) == {("shop", "theirs")}
    await manifests.new_loader(owns_contexts=True).load(embedder=None)
    assert await manifests.contexts.stored() == {}


async def test_a_load_that_the_database_interrupts_is_finished_by_the_next(manifests: Manifests, database: str) -> None:
    manifests.write("a.yaml", workflow("a"))
    owner = await asyncpg.connect(database)
    await owner.execute("alter table formulary.workflow_version rename to elsewhere")
    with pytest.raises(Unavailable):
        await manifests.load()
    await owner.execute("alter table formulary.elsewhere rename to workflow_version")
    await owner.close()
    assert (await manifests.load()).created == ["formulary/a@1.0.0"]


async def test_contracts_come_and_go_with_their_files_and_an_invalid_edit_keeps_the_last_good_rules(
    manifests: Manifests,
) -> None:
    manifests.write("rules.yaml", contract("freeze"))
    report = await manifests.load()
    assert (report.changed_contracts, report.contracts) == (["formulary/freeze"], 1)
    assert await manifests.contracts.stored() == {("formulary", "freeze"): "manifest"}
    broken = contract("freeze", match={"workflow": ["misspelt"]})
    manifests.write("rules.yaml", broken)
    report = await manifests.load()
    assert messages(report) == [
        "rules.yaml: spec.rules.0.match.workflow: is unknown; did you mean workflows?",
    ]
    assert await manifests.contracts.stored() == {("formulary", "freeze"): "manifest"}
    (manifests.directory / "rules.yaml").unlink()
    report = await manifests.load()
    assert report.removed_contracts == ["formulary/freeze"]
    assert await manifests.contracts.stored() == {}
