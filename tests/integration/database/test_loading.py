"""Manifests from files into a real catalog, with the real model."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import numpy.typing as npt
import pytest

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable, StartupError, TextsRefused, Unavailable
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.runtime.hot_reload import watch
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.manifest import analysis, contract, text, workflow
from support.models import Formula, Held


class CountingEmbedder:
    """The real embedder, remembering what it was asked; optionally it fails."""

    def __init__(self, embedder: Embedder, *, failing: bool = False) -> None:
        self._embedder = embedder
        self._failing = failing
        self.texts: list[str] = []

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self._failing:
            raise EmbedderUnavailable("The model broke.")
        self.texts += texts
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return self._embedder.embed_query(text)


class Manifests:
    """A directory of manifests and a loader of it."""

    def __init__(
        self, directory: Path, *, catalog: CatalogWriter, contexts: ContextWriter, contracts: ContractWriter
    ) -> None:
        self.directory = directory
        self.contracts = contracts
        self.catalog = catalog
        self.contexts = contexts
        self.loader = self.new_loader()

    def new_loader(self, *, owns_contexts: bool = True) -> Loader:
        return Loader(
            [self.directory],
            catalog=self.catalog,
            contexts=self.contexts,
            contracts=self.contracts,
            default_namespace="formulary",
            owns_contexts=owns_contexts,
        )

    def write(self, name: str, *documents: dict[str, Any]) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(*documents))
        return path

    async def load(self, embedder: Embedder | None = None) -> LoadReport:
        return await self.loader.load(embedder=embedder)

    async def served(self) -> dict[str, str]:
        return {stored.name: stored.version for stored in await self.catalog.served()}


@pytest.fixture
def manifests(
    tmp_path: Path, workflows: CatalogWriter, contexts: ContextWriter, contracts: ContractWriter
) -> Manifests:
    directory = tmp_path / "manifests"
    directory.mkdir()
    return Manifests(directory, catalog=workflows, contexts=contexts, contracts=contracts)


@pytest.fixture
def contracts(writing: Database) -> ContractWriter:
    """Where the rules of contracts are kept."""
    return ContractWriter(writing, shared_namespace="formulary")


def messages(report: LoadReport) -> list[str]:
    return [rejection.message for rejection in report.rejections]


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


async def test_an_unchanged_file_is_neither_embedded_nor_written_again(
    manifests: Manifests, embedder: Embedder
) -> None:
    counting = CountingEmbedder(embedder)
    manifests.write("a.yaml", workflow("a"))
    manifests.write("b.yaml", workflow("b"))
    first = await manifests.load(counting)
    assert (first.embedded, len(counting.texts)) == (2, 2)
    manifests.write("b.yaml", workflow("b", version="1.1.0", what="Something else."))
    second = await manifests.load(counting)
    assert (second.updated, second.unchanged, second.embedded) == (["formulary/b@1.1.0"], 1, 1)
    third = await manifests.load(counting)
    assert (third.changed, third.unchanged, len(counting.texts)) == (False, 2, 3)


async def test_a_new_version_of_the_same_text_needs_no_new_vector(manifests: Manifests, embedder: Embedder) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load(embedder)
    manifests.write("a.yaml", workflow("a", version="2.0.0"))
    report = await manifests.load(embedder)
    assert (report.updated, report.embedded) == (["formulary/a@2.0.0"], 0)
    assert [stored.model_id for stored in await manifests.catalog.served()] == [embedder.model_id]


async def test_without_an_embedder_all_is_loaded_and_vectors_follow_later(
    manifests: Manifests, embedder: Embedder
) -> None:
    manifests.write("a.yaml", workflow("a"))
    assert (await manifests.load()).created == ["formulary/a@1.0.0"]
    assert [stored.model_id for stored in await manifests.catalog.served()] == [""]
    assert (await manifests.load(embedder)).embedded == 1
    assert [stored.model_id for stored in await manifests.catalog.served()] == [embedder.model_id]


async def test_a_model_that_breaks_costs_only_the_vectors(manifests: Manifests, embedder: Embedder) -> None:
    manifests.write("a.yaml", workflow("a"))
    report = await manifests.load(CountingEmbedder(embedder, failing=True))
    assert report.created == ["formulary/a@1.0.0"]
    assert report.unembedded == "The model broke. Workflows found by their words alone meanwhile: 1"
    assert (await manifests.load(embedder)).unembedded == ""


async def test_a_text_that_the_model_refuses_costs_no_other_its_vector(manifests: Manifests) -> None:
    def check(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise TextsRefused("Not this one.")

    manifests.write("a.yaml", *(workflow(f"w{number}") for number in range(40)))
    # The same text in two namespaces is one that is refused, and two workflows without a vector.
    poison = [workflow("poison"), workflow("poison")]
    poison[1]["metadata"]["namespace"] = "other"
    manifests.write("b.yaml", *poison)
    report = await manifests.load(Formula("one@1", before=check))
    assert report.embedded == 40
    assert report.unembedded == "Not this one. Workflows found by their words alone meanwhile: 2"


async def test_what_the_model_gave_before_it_failed_is_kept(manifests: Manifests) -> None:
    asked = 0

    def fails_later(texts: Sequence[str]) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise EmbedderUnavailable("No more today.")

    manifests.write("a.yaml", *(workflow(f"w{number}") for number in range(40)))
    report = await manifests.load(Formula("one@1", before=fails_later))
    assert report.embedded == 31
    assert report.unembedded == "No more today. Workflows found by their words alone meanwhile: 9"
    assert (await manifests.load(Formula("one@1"))).embedded == 9


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


async def test_a_missing_directory_changes_nothing(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    manifests.directory.rename(manifests.directory.with_name("moved"))
    with pytest.raises(StartupError, match=r"manifests directory .* cannot be read: No such file or directory"):
        await manifests.load()
    assert await manifests.served() == {"a": "1.0.0"}


async def test_a_subdirectory_that_cannot_be_listed_is_reported_and_deletes_nothing(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a"))
    gone = manifests.write("b.yaml", workflow("b"))
    await manifests.load()
    gone.unlink()
    _make_unlistable(manifests.directory)
    report = await manifests.load()
    shutil.rmtree(manifests.directory / "deep")
    (message,) = messages(report)
    assert message.startswith("deep/")
    assert message.endswith(": cannot be listed: File name too long; check the directory's permissions")
    assert (report.removed, await manifests.served()) == ([], {"a": "1.0.0", "b": "1.0.0"})
    assert (await manifests.load()).removed == ["formulary/b"]


def _make_unlistable(directory: Path) -> None:
    """A subdirectory whose path is longer than the system takes: not even root can list it by its path."""
    (directory / "deep").mkdir()
    descriptor = os.open(directory / "deep", os.O_RDONLY)
    for _ in range(17):
        os.mkdir("d" * 250, dir_fd=descriptor)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)


async def test_files_are_found_in_order_through_links_and_without_hidden_ones(manifests: Manifests) -> None:
    for name in ("b.yaml", "a.yml", "sub/c.json", ".hidden/d.yaml", ".e.yaml", "notes.txt"):
        manifests.write(name, workflow("x"))
    (manifests.directory / "sub" / "loop").symlink_to(manifests.directory)
    (manifests.directory / "dangling.yaml").symlink_to("nowhere.yaml")
    (manifests.directory / "z").symlink_to(manifests.directory / "sub")
    os.mkfifo(manifests.directory / "pipe.yaml")
    os.mkdir(os.fsencode(manifests.directory) + b"/\xff")
    os.rename(manifests.directory / "b.yaml", os.fsencode(manifests.directory) + b"/\xff/b.yaml")
    found = find_manifests([manifests.directory])
    names = ["a.yml", "dangling.yaml", "sub/c.json", "\N{REPLACEMENT CHARACTER}/b.yaml"]
    assert [file.name for file in found.files] == names
    assert (found.rejections, found.incomplete) == ([], False)


async def test_a_link_that_lost_its_directory_proves_nothing_of_what_was_there(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("x"))
    (manifests.directory / "team").symlink_to("nowhere")
    (manifests.directory / "loop.yaml").symlink_to("loop.yaml")
    found = find_manifests([manifests.directory])
    assert [file.name for file in found.files] == ["a.yaml", "loop.yaml"]
    assert found.incomplete
    assert [rejection.source for rejection in found.rejections] == ["team"]


async def test_progress_of_both_phases_is_told_to_its_end(manifests: Manifests, embedder: Embedder) -> None:
    manifests.write("all.yaml", *(workflow(f"w{number}") for number in range(3)))
    told: list[tuple[str, int, int]] = []
    await manifests.loader.load(embedder=embedder, progress=lambda *step: told.append(step))
    assert ("embedding", 3, 3) in told
    assert told[-1] == ("loading", 3, 3)


async def test_a_load_that_the_database_interrupts_is_finished_by_the_next(manifests: Manifests, database: str) -> None:
    manifests.write("a.yaml", workflow("a"))
    owner = await asyncpg.connect(database)
    await owner.execute("alter table formulary.workflow_version rename to elsewhere")
    with pytest.raises(Unavailable):
        await manifests.load()
    await owner.execute("alter table formulary.elsewhere rename to workflow_version")
    await owner.close()
    assert (await manifests.load()).created == ["formulary/a@1.0.0"]


async def test_the_starter_catalog_loads_whole_and_embeds_nothing_again(
    workflows: CatalogWriter,
    contexts: ContextWriter,
    contracts: ContractWriter,
    embedder: Embedder,
    starter_catalog: Path,
) -> None:
    loader = Loader(
        [starter_catalog],
        catalog=workflows,
        contexts=contexts,
        contracts=contracts,
        default_namespace="formulary",
        owns_contexts=True,
    )
    report = await loader.load(embedder=embedder)
    assert (len(report.created), report.embedded, report.rejections, report.notes) == (51, 51, [], [])
    again = await loader.load(embedder=embedder)
    assert (again.unchanged, again.embedded, again.changed) == (51, 0, False)


async def _next_change(reports: AsyncIterator[object]) -> LoadReport:
    """The next report that says something; bounded by the test's own time limit."""
    async for report in reports:
        if isinstance(report, LoadReport) and (report.changed or report.rejections):
            return report
    raise AssertionError("the watch ended")


async def test_a_load_that_is_asked_for_during_another_one_has_the_last_word(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a"))
    held = Held(texts=0)
    slow = asyncio.create_task(manifests.load(Formula("slow@1", before=held)))
    await held.until_reached()
    manifests.write("a.yaml", workflow("a", suspend=True))
    later = asyncio.create_task(manifests.load())
    await asyncio.wait({later}, timeout=1)  # as long as the other one is held it may not be done
    held.go_on.set()
    await asyncio.gather(slow, later)
    assert [stored.status for stored in await manifests.catalog.served()] == ["Disabled"]


async def test_what_is_suspended_or_removed_and_incidents_wait_for_no_embedder(manifests: Manifests) -> None:
    for name in ("a", "b"):
        manifests.write(f"{name}.yaml", workflow(name))
    await manifests.load()
    manifests.write("a.yaml", workflow("a", suspend=True))
    (manifests.directory / "b.yaml").unlink()
    manifests.write("new.yaml", workflow("new"), analysis("incident", remediation_id="rr-1"))
    held = Held(texts=0)
    slow = asyncio.create_task(manifests.load(Formula("slow@1", before=held)))
    await held.until_reached()
    assert {stored.name: stored.status for stored in await manifests.catalog.served()} == {"a": "Disabled"}
    assert [name for _, name in await manifests.contexts.stored()] == ["incident"]
    held.go_on.set()
    assert (await slow).created == ["formulary/new@1.0.0"]
    assert {stored.name: stored.model_id for stored in await manifests.catalog.served()} == {"a": "", "new": "slow@1"}


async def test_the_watch_sees_added_changed_broken_and_removed_files_and_a_replaced_directory(
    manifests: Manifests,
) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    manifests.write("early.yaml", workflow("early"))
    async with aclosing(watch(manifests.loader, embedder=lambda: None)) as reports:
        assert (await _next_change(reports)).created == ["formulary/early@1.0.0"]
        manifests.write("a.yaml", workflow("a", version="1.1.0"))
        assert (await _next_change(reports)).updated == ["formulary/a@1.1.0"]
        (manifests.directory / "b.yaml").write_text("a: [")
        assert len((await _next_change(reports)).rejections) == 1
        (manifests.directory / "b.yaml").unlink()
        (manifests.directory / "early.yaml").unlink()
        assert (await _next_change(reports)).removed == ["formulary/early"]
        manifests.directory.rename(manifests.directory.with_name("moved"))
        manifests.write("new.yaml", workflow("new"))
        changed = await _next_change(reports)
        assert (changed.created, changed.removed) == (["formulary/new@1.0.0"], ["formulary/a"])
        manifests.write("newer.yaml", workflow("newer"))
        assert (await _next_change(reports)).created == ["formulary/newer@1.0.0"]


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
