"""The life of a workflow's versions in the store: superseding, immutability, suspending, removing, vectors."""

import asyncio
from typing import Any

import asyncpg
import numpy as np
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import NotFound, UnknownWorkflow, VersionImmutable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.workflows.writer import ApplyOutcome, CatalogWriter
from support import manifest
from support.filling import entry, fill
from support.services import service_on

NOWHERE = ContextReference()
CALLER = Caller(name="test", access=EVERYTHING)
VECTOR = np.full(384, 1 / np.sqrt(384), dtype=np.float32)


def _version(version: str, *, what: str = "Restarts it.", **spec: Any) -> Any:
    return entry(manifest.workflow("restart", version=version, what=what, **spec))


async def _served(parts: CatalogParts) -> list[str]:
    answer = await service_on(parts).search(search_request(query="OOMKilled restart"), caller=CALLER)
    listed = await Listing(parts).page(context=NOWHERE, caller=CALLER)
    found = sorted(hit.version for hit in answer.workflows)
    assert found == sorted(line.version for line in listed.workflows)
    assert answer.total_results == listed.total_results == len(found)
    return found


async def test_a_new_version_supersedes_the_old_one_which_stays_readable(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    old, new = _version("1.0.0"), _version("1.1.0", what="Restarts it slowly.")
    assert await workflows.apply(old) is ApplyOutcome.CREATED
    assert await workflows.apply(new) is ApplyOutcome.UPDATED
    assert await _served(parts) == ["1.1.0"]
    assert (await service.details("restart", context=NOWHERE, caller=CALLER)).version == "1.1.0"
    for form in (old.version_id, "restart@1.0.0", "restart@v1.0.0", "formulary/restart@1.0.0"):
        found = await service.details(form, context=NOWHERE, caller=CALLER)
        assert (found.version_id, found.status, found.description) == (old.version_id, "Superseded", "Restarts it.")
        assert any("superseded" in note for note in found.notes)
        assert [(line.version, line.status) for line in found.versions] == [
            ("1.1.0", "Active"),
            ("1.0.0", "Superseded"),
        ]
    assert await parts.workflows.counts() == {"Active": 1, "Superseded": 1}


async def test_an_unknown_version_is_answered_with_those_that_the_workflow_has(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    for version in ("1.0.0", "1.1.0"):
        await workflows.apply(_version(version, what=f"Restarts it, {version}."))
    with pytest.raises(UnknownWorkflow) as refused:
        await service.details("restart@1.2.0", context=NOWHERE, caller=CALLER)
    assert refused.value.nearest == ("restart@1.1.0", "restart@1.0.0")


async def test_an_older_version_that_is_applied_again_is_served_again(
    workflows: CatalogWriter, parts: CatalogParts
) -> None:
    await fill(workflows, [_version(number).document for number in ("1.0.0", "2.0.0")])
    assert await workflows.apply(_version("1.0.0")) is ApplyOutcome.UPDATED
    assert await _served(parts) == ["1.0.0"]
    assert await parts.workflows.counts() == {"Active": 1, "Superseded": 1}


async def test_defaults_that_an_api_server_writes_into_an_object_are_no_edit(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    written, defaulted = manifest.workflow("restart"), manifest.workflow("restart")
    written["spec"]["execution"], written["spec"]["labels"]["component"] = {}, "v1/Pod"
    defaulted["spec"] |= {"suspend": False, "title": "", "parameters": [], "riskLevel": None}
    defaulted["spec"]["labels"]["cluster"] = []
    await workflows.apply(entry(written))
    await workflows.check(entry(defaulted))
    assert await workflows.apply(entry(defaulted)) is ApplyOutcome.UPDATED
    assert await _served(parts) == ["1.0.0"]
    assert (await service.details("restart", context=NOWHERE, caller=CALLER)).version_id == entry(defaulted).version_id


async def test_an_unknown_field_is_content_too(workflows: CatalogWriter) -> None:
    await workflows.apply(_version("1.0.0"))
    with pytest.raises(VersionImmutable):
        await workflows.check(_version("1.0.0", somethingElse="changed"))


async def test_an_object_that_was_deleted_and_made_anew_may_have_any_content(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    await workflows.apply(_version("1.0.0"), owner="uid-1")
    await workflows.apply(_version("1.1.0"), owner="uid-1")
    with pytest.raises(VersionImmutable):
        await workflows.apply(_version("1.0.0", what="Deletes it."), owner="uid-1")
    assert await _served(parts) == ["1.1.0"]
    again = _version("1.0.0", what="Deletes it.")
    assert await workflows.apply(again, owner="uid-2") is ApplyOutcome.CREATED
    assert await _served(parts) == ["1.0.0"]
    found = await service.details("restart", context=NOWHERE, caller=CALLER)
    assert [line.version_id for line in found.versions] == [again.version_id]


async def test_an_owner_takes_over_what_had_none(workflows: CatalogWriter, service: CatalogService) -> None:
    await workflows.apply(_version("1.0.0"))
    assert await workflows.apply(_version("1.0.0"), owner="uid-1") is ApplyOutcome.UNCHANGED
    with pytest.raises(VersionImmutable):
        await workflows.apply(_version("1.0.0", what="Deletes it."), owner="uid-1")


async def test_history_can_be_added_without_being_served(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    await workflows.apply(_version("2.0.0"))
    assert await workflows.apply(_version("1.0.0"), superseded=True) is ApplyOutcome.SUPERSEDED
    assert await workflows.apply(_version("1.0.0"), superseded=True) is ApplyOutcome.UNCHANGED
    assert await workflows.apply(_version("2.0.0"), superseded=True) is ApplyOutcome.UNCHANGED
    assert await _served(parts) == ["2.0.0"]
    assert (await service.details("restart@1.0.0", context=NOWHERE, caller=CALLER)).status == "Superseded"


@pytest.mark.parametrize("superseded", [False, True])
async def test_the_same_version_with_other_content_is_refused_and_the_stored_content_stays_served(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts, superseded: bool
) -> None:
    good = _version("1.0.0")
    await workflows.apply(good)
    changed = _version("1.0.0", what="Deletes it.")
    with pytest.raises(VersionImmutable, match=r"formulary/restart 1\.0\.0 .* raise spec\.version") as refusal:
        await workflows.apply(changed, superseded=superseded)
    assert refusal.value.field == "spec.version"
    assert await _served(parts) == ["1.0.0"]
    found = await service.details("restart", context=NOWHERE, caller=CALLER)
    assert (found.version_id, found.description) == (good.version_id, "Restarts it.")
    with pytest.raises(NotFound):
        await service.details(changed.version_id, context=NOWHERE, caller=CALLER)


async def test_a_superseded_version_is_immutable_too(workflows: CatalogWriter, parts: CatalogParts) -> None:
    await fill(workflows, [_version(number).document for number in ("1.0.0", "2.0.0")])
    with pytest.raises(VersionImmutable):
        await workflows.apply(_version("1.0.0", what="Deletes it."))
    assert await _served(parts) == ["2.0.0"]


async def test_versions_of_one_name_in_two_namespaces_do_not_touch(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    await fill(workflows, [_version("1.0.0").document], namespace="shop")
    await fill(workflows, [_version("1.0.0", what="Other.").document], namespace="web")
    assert await _served(parts) == ["1.0.0", "1.0.0"]
    assert await workflows.remove(namespace="shop", name="restart")
    assert (await service.details("restart", context=NOWHERE, caller=CALLER)).namespace == "web"


async def test_suspending_and_resuming_needs_no_new_version(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    running, suspended = _version("1.0.0"), _version("1.0.0", suspend=True)
    await workflows.apply(running)
    assert await workflows.apply(suspended) is ApplyOutcome.UPDATED
    assert await _served(parts) == []
    with pytest.raises(NotFound):
        await service.details("restart", context=NOWHERE, caller=CALLER)
    with pytest.raises(NotFound):
        await service.details("restart@1.0.0", context=NOWHERE, caller=CALLER)
    assert await workflows.apply(suspended) is ApplyOutcome.UNCHANGED
    assert [stored.status for stored in await workflows.served()] == ["Disabled"]
    assert await workflows.apply(running) is ApplyOutcome.UPDATED
    assert await _served(parts) == ["1.0.0"]
    with pytest.raises(VersionImmutable):
        await workflows.apply(_version("1.0.0", what="Deletes it.", suspend=True))


async def test_one_version_id_is_left_after_suspending_and_back_however_it_is_written(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    running = _version("1.0.0")
    spellings: tuple[dict[str, Any], ...] = ({}, {"suspend": True}, {"suspend": False}, {"suspend": True}, {})
    for spelling in spellings:
        await workflows.apply(_version("1.0.0", **spelling))
    found = await service.details("restart", context=NOWHERE, caller=CALLER)
    assert [(line.version_id, line.status) for line in found.versions] == [(running.version_id, "Active")]


async def test_removing_ends_serving_and_reading_but_keeps_the_rows(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    entries = await fill(workflows, [_version(number).document for number in ("1.0.0", "2.0.0")])
    assert await workflows.remove(namespace="formulary", name="restart")
    assert not await workflows.remove(namespace="formulary", name="restart")
    assert await _served(parts) == []
    for form in ("restart", "restart@1.0.0", *(each.version_id for each in entries)):
        with pytest.raises(NotFound):
            await service.details(form, context=NOWHERE, caller=CALLER)
    assert await parts.workflows.counts() == {"Deleted": 2}
    assert await workflows.served() == []


async def test_a_removed_workflow_can_be_created_again_with_the_same_or_other_content(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts
) -> None:
    await workflows.apply(_version("1.0.0"))
    await workflows.remove(namespace="formulary", name="restart")
    assert await workflows.apply(_version("1.0.0")) is ApplyOutcome.CREATED
    assert await _served(parts) == ["1.0.0"]
    await workflows.remove(namespace="formulary", name="restart")
    assert await workflows.apply(_version("1.0.0", what="Other.")) is ApplyOutcome.CREATED
    found = await service.details("restart", context=NOWHERE, caller=CALLER)
    assert (found.description, len(found.versions)) == ("Other.", 1)


async def test_applying_what_is_stored_changes_nothing(workflows: CatalogWriter, database: str) -> None:
    owner = await asyncpg.connect(database)
    state = """
        select array_agg((v.version_id, v.changed_at, s.ctid))
        from formulary.workflow_version v join formulary.workflow_search s using (version_id)
    """
    await workflows.apply(_version("1.0.0"))
    before = await owner.fetchval(state)
    assert await workflows.apply(_version("1.0.0")) is ApplyOutcome.UNCHANGED
    assert await owner.fetchval(state) == before
    await owner.close()


async def test_concurrent_applies_of_one_name_leave_one_version_served(
    workflows: CatalogWriter, parts: CatalogParts
) -> None:
    versions = [_version(f"1.{number}.0") for number in range(12)]
    outcomes = await asyncio.gather(*(workflows.apply(each) for each in [*versions, *versions]))
    assert outcomes.count(ApplyOutcome.CREATED) == 1
    assert len(await _served(parts)) == 1
    assert await parts.workflows.counts() == {"Active": 1, "Superseded": 11}


async def test_concurrent_applies_and_removals_leave_a_workflow_whole_or_gone(
    workflows: CatalogWriter, parts: CatalogParts
) -> None:
    same = _version("1.0.0")
    for _ in range(15):
        await asyncio.gather(
            workflows.apply(same),
            workflows.remove(namespace="formulary", name="restart"),
            workflows.apply(same),
            workflows.remove(namespace="formulary", name="restart"),
        )
        current = [stored.version for stored in await workflows.served()]
        assert await _served(parts) == current


async def test_contradicting_contents_of_one_version_cannot_both_win(
    workflows: CatalogWriter, service: CatalogService
) -> None:
    contents = [_version("1.0.0", what=f"Does {number}.") for number in range(8)]
    outcomes = await asyncio.gather(*(workflows.apply(each) for each in contents), return_exceptions=True)
    assert outcomes.count(ApplyOutcome.CREATED) == 1
    assert sum(isinstance(outcome, VersionImmutable) for outcome in outcomes) == 7
    winner = contents[outcomes.index(ApplyOutcome.CREATED)]
    assert (await service.details("restart", context=NOWHERE, caller=CALLER)).version_id == winner.version_id


async def test_an_unchanged_text_is_not_embedded_again(workflows: CatalogWriter) -> None:
    first, second = _version("1.0.0"), _version("2.0.0", title="Only the title is new")
    hashes = {first.text_hash, second.text_hash}
    assert await workflows.missing_texts(hashes, model_id="m@1") == {first.text_hash} == hashes
    await workflows.save_vectors({first.text_hash: VECTOR}, model_id="m@1")
    await workflows.apply(second, model_id="m@1")
    assert await workflows.missing_texts(hashes, model_id="m@1") == set()
    assert await workflows.missing_texts(hashes, model_id="m@2") == hashes
    assert [stored.model_id for stored in await workflows.served()] == ["m@1"]


async def test_a_vector_that_comes_later_is_linked_without_a_new_version(workflows: CatalogWriter) -> None:
    stored = _version("1.0.0")
    assert await workflows.apply(stored, model_id="m@1") is ApplyOutcome.CREATED
    assert [each.model_id for each in await workflows.served()] == [""]
    await workflows.save_vectors({stored.text_hash: VECTOR}, model_id="m@1")
    assert await workflows.apply(stored, model_id="m@1") is ApplyOutcome.UNCHANGED
    assert [each.model_id for each in await workflows.served()] == ["m@1"]


async def test_vectors_of_another_model_are_not_compared(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts, embedder: Embedder
) -> None:
    stored = _version("1.0.0")
    await workflows.save_vectors({stored.text_hash: VECTOR}, model_id="other@1")
    await workflows.apply(stored, model_id="other@1")
    request = search_request(query="OOMKilled restart")
    answer = await service.search(request, caller=CALLER)
    assert (answer.search_mode, answer.workflows[0].similarity_score) == ("lexical", None)
    assert any("words only" in note for note in answer.notes)
    await fill(workflows, [stored.document], embedder=embedder)
    answer = await service.search(request, caller=CALLER)
    assert answer.search_mode == "hybrid"
    assert answer.workflows[0].similarity_score is not None
    parts.vectors.use(None)
    assert (await service.search(request, caller=CALLER)).search_mode == "lexical"


async def test_an_embedding_of_any_magnitude_can_be_given(
    workflows: CatalogWriter, service: CatalogService, embedder: Embedder
) -> None:
    await fill(workflows, [_version("1.0.0").document], embedder=embedder)
    scores = set()
    for scale in (1e-300, 1.0, 1e300):
        request = search_request(query="OOMKilled restart", embedding=tuple(float(x) * scale for x in VECTOR))
        answer = await service.search(request, caller=CALLER)
        assert answer.search_mode == "hybrid"
        scores.add(answer.workflows[0].similarity_score)
    assert len(scores) == 1


async def test_a_stored_workflow_that_this_version_cannot_read_hides_itself_alone(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts, database: str
) -> None:
    await fill(workflows, [manifest.workflow("bad"), manifest.workflow("good")])
    owner = await asyncpg.connect(database)
    await owner.execute("update formulary.workflow_version set document = '{}' where name = 'bad'")
    await owner.close()
    answer = await service.search(search_request(query="OOMKilled restart"), caller=CALLER)
    assert [hit.workflow_id for hit in answer.workflows] == ["good"]
    assert answer.total_results == 1
    listed = await Listing(parts).page(context=NOWHERE, caller=CALLER)
    assert [line.workflow_id for line in listed.workflows] == ["good"]
    with pytest.raises(NotFound):
        await service.details("bad", context=NOWHERE, caller=CALLER)
