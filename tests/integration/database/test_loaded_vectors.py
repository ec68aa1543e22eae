"""Vectors of what is loaded: made once for a text, and never what a load waits for or fails by."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable, TextsRefused
from formulary_catalog.loading.loader import Loader
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.loading import Manifests
from support.manifest import analysis, workflow
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


async def test_progress_of_both_phases_is_told_to_its_end(manifests: Manifests, embedder: Embedder) -> None:
    manifests.write("all.yaml", *(workflow(f"w{number}") for number in range(3)))
    told: list[tuple[str, int, int]] = []
    await manifests.loader.load(embedder=embedder, progress=lambda *step: told.append(step))
    assert ("embedding", 3, 3) in told
    assert told[-1] == ("loading", 3, 3)


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
    assert (len(report.created), report.embedded, report.rejections, report.notes) == (118, 118, [], [])
    again = await loader.load(embedder=embedder)
    assert (again.unchanged, again.embedded, again.changed) == (118, 0, False)


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
