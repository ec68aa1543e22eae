"""What a search reads beside the ranking comes in as few statements as it can, and is of workflows that are served."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.search.candidates import IndexedText
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.search.lexemes import Texts
from formulary_catalog.store.search.page import PageReader
from formulary_catalog.store.search.statement import FEW, CandidateQuery, CandidateReader, Candidates
from formulary_catalog.store.workflows.writer import ApplyOutcome, CatalogWriter
from support import manifest
from support.filling import entry, fill
from support.services import service_on

CALLER = Caller(name="test", access=EVERYTHING)
HERE = frozenset({"formulary"})
EVERYWHERE = frozenset({"formulary", "elsewhere"})
SIZES = {"few": FEW - 2, "many": FEW + 6}


@asynccontextmanager
async def serving_from(database: Database) -> AsyncIterator[CatalogService]:
    """The read side on a database that somebody else closes."""
    yield service_on(CatalogParts.on(database, settings=Settings(), policy=ContextPolicy.OPTIONAL, metrics=Metrics()))


def names(number: int) -> list[str]:
    return [f"w{each:02d}" for each in range(number)]


def ids(candidates: Candidates) -> list[str]:
    return [each.version_id for each in candidates.evidence]


async def statements_of(database: Database) -> list[str]:
    """The statements about workflows that its one connection is asked from now on."""
    asked: list[str] = []

    def note(record: Any) -> None:
        if "workflow_" in record.query and "trace" not in record.query:
            asked.append(record.query)

    async def listen(connection: Connection) -> None:
        connection.add_query_logger(note)

    await database.read_apart(listen)
    return asked


async def candidates_of(
    reader: CandidateReader, *, namespaces: frozenset[str] = HERE, word: str = "restart"
) -> Candidates:
    return await reader.read(CandidateQuery(constraints=Constraints(), words=[word]), namespaces=namespaces)


async def search(service: CatalogService) -> SearchAnswer:
    return await service.search(search_request(query="restart", top_k=50), caller=CALLER)


def ambiguity_and_outcome(versions: Mapping[str, StoredVersion]) -> dict[str, Any]:
    return {id_: (each.ambiguous, each.outcome) for id_, each in versions.items()}


@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_a_row_says_the_same_with_the_candidates_and_by_itself(
    workflows: CatalogWriter, reading: Database, database: str, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number - 2)])
    await fill(workflows, [manifest.workflow("w01"), manifest.workflow("w03")], namespace="elsewhere")
    owner = await asyncpg.connect(database)
    await owner.execute(
        "insert into formulary.workflow_outcome (version_id, succeeded, failed, median_seconds, helped, verified) "
        "select version_id, 3, 1, 12.5, 6, 8 from formulary.workflow_version where name in ('w00', 'w01')"
    )
    await owner.close()
    candidates = await candidates_of(CandidateReader(reading), namespaces=EVERYWHERE)
    pages, wanted = PageReader(reading), ids(candidates)

    unknown, documents = await pages.read(wanted, known=(), namespaces=EVERYWHERE)
    known, none = await pages.read(wanted, known=wanted, namespaces=EVERYWHERE)

    assert unknown.keys() == known.keys() == set(wanted)
    assert len(wanted) == number
    assert ambiguity_and_outcome(known) == ambiguity_and_outcome(unknown)
    assert ambiguity_and_outcome(candidates.versions) == (ambiguity_and_outcome(unknown) if number <= FEW else {})
    assert sum(row.ambiguous for row in known.values()) == 4
    assert [row.outcome.median_seconds for row in known.values()].count(12.5) == 3
    assert documents.keys() == set(wanted)
    assert all(documents.values())
    assert not none
    # Of what the caller does not see, not even that it is there.
    here = await candidates_of(CandidateReader(reading))
    assert len(here.evidence) == number - 2
    assert not any(row.ambiguous for row in here.versions.values())
    hidden, _ = await pages.read(wanted, known=wanted, namespaces=HERE)
    assert hidden.keys() == set(ids(here))
    assert not any(row.ambiguous for row in hidden.values())


@pytest.mark.parametrize(("number", "statements"), [(SIZES["few"], 1), (SIZES["many"], 2)], ids=SIZES)
async def test_a_search_of_known_workflows_takes_no_more_statements_than_it_needs(
    workflows: CatalogWriter, reading: Database, number: int, statements: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    async with serving_from(reading) as service:
        first = await search(service)
        asked = await statements_of(reading)
        second = await search(service)
    assert len(asked) == statements
    assert first.workflows == second.workflows
    assert len(second.workflows) == number


async def test_a_text_that_was_not_read_before_takes_one_statement_more_once(
    workflows: CatalogWriter, reading: Database
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(SIZES["many"])])
    reader = CandidateReader(reading)
    await candidates_of(reader)
    await fill(workflows, [manifest.workflow("new")])
    asked = await statements_of(reading)
    found = await candidates_of(reader)
    assert "new" in {each.name for each in found.evidence}
    assert len(asked) == 2
    assert await candidates_of(reader) == found
    assert len(asked) == 3


def words(candidates: Candidates) -> dict[str, tuple[int, ...]]:
    return {each.name: tuple(each.places) for each in candidates.evidence}


async def test_words_that_another_release_derives_in_another_way_are_read_anew(
    workflows: CatalogWriter, reading: Database
) -> None:
    stored = entry(manifest.workflow("own"))
    await fill(workflows, [manifest.workflow("own"), manifest.workflow("other")])
    reader = CandidateReader(reading)
    before = await candidates_of(reader)

    derived = replace(
        stored, lexical_texts={**stored.lexical_texts, WordPlace.NAME: "nothing", WordPlace.WHAT: "restart"}
    )
    assert await workflows.apply(derived, model_id="") is ApplyOutcome.UNCHANGED

    assert words(before) == {"own": (WordPlace.NAME,), "other": (WordPlace.NAME,)}
    assert words(await candidates_of(reader)) == {"own": (WordPlace.WHAT,), "other": (WordPlace.NAME,)}

    assert await workflows.remove(namespace="formulary", name="own")
    await workflows.apply(stored, model_id="")
    assert words(await candidates_of(reader)) == words(before)


async def test_of_a_very_long_text_only_what_is_asked_for_is_read_and_nothing_is_remembered(
    workflows: CatalogWriter, reading: Database
) -> None:
    long = " ".join(f"w{number}" for number in range(1_500))
    await fill(workflows, [manifest.workflow("long", what=f"{long} zebra"), manifest.workflow("short")])
    reader = CandidateReader(reading)
    await candidates_of(reader)
    asked = await statements_of(reading)
    for word in ("zebra", "w1", "w1499", "w9999"):
        found = await candidates_of(reader, word=word)
        assert words(found)["long"] == (WordPlace.NONE if word == "w9999" else WordPlace.WHAT,)
    assert len([statement for statement in asked if "ts_filter" in statement]) == 4


async def test_texts_that_are_forgotten_meanwhile_are_read_again(
    workflows: CatalogWriter, reading: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(SIZES["few"])])
    everything = await candidates_of(CandidateReader(reading))
    monkeypatch.setattr("formulary_catalog.store.search.lexemes._CAPACITY", 10_000)
    reader = CandidateReader(reading)
    for _ in range(3):
        assert await candidates_of(reader) == everything


@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_a_candidate_that_ceases_to_be_served_before_its_text_is_read_is_not_returned(
    workflows: CatalogWriter, reading: Database, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    read, asked_for = Texts.of, []

    async def suspended_meanwhile(
        texts: Texts, connection: Connection, version_ids: Collection[str], **asked: Any
    ) -> Mapping[str, IndexedText]:
        asked_for.append(len(version_ids))
        await workflows.suspend(namespace="formulary", name="w03")
        return await read(texts, connection, version_ids, **asked)

    monkeypatch.setattr(Texts, "of", suspended_meanwhile)
    async with serving_from(reading) as service:
        answer = await search(service)

    assert asked_for == [number, number - 1]
    assert answer.total_results == len(answer.workflows) == number - 1
    assert "w03" not in {hit.workflow_id for hit in answer.workflows}


@pytest.mark.smoke
@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_what_ceases_to_be_served_between_two_statements_is_not_returned(
    workflows: CatalogWriter, reading: Database, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    read, asked_for = PageReader.read, []

    async def suspended_meanwhile(pages: PageReader, version_ids: Iterable[str], **asked: Any) -> Any:
        wanted = list(version_ids)
        asked_for.append(len(wanted))
        await workflows.suspend(namespace="formulary", name="w03")
        return await read(pages, wanted, **asked)

    monkeypatch.setattr(PageReader, "read", suspended_meanwhile)
    async with serving_from(reading) as service:
        answer = await search(service)

    assert asked_for[0] == number
    assert answer.total_results == len(answer.workflows) == number - 1
    assert "w03" not in {hit.workflow_id for hit in answer.workflows}


@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_a_workflow_whose_version_somebody_took_away_by_hand_is_left_out_and_the_others_are_found(
    workflows: CatalogWriter, reading: Database, database: str, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    owner = await asyncpg.connect(database)
    await owner.execute("update formulary.workflow_version set status = 'Disabled' where name = 'w03'")
    await owner.close()
    async with serving_from(reading) as service:
        answer = await search(service)

    assert answer.total_results == len(answer.workflows) == number - 1
    assert "w03" not in {hit.workflow_id for hit in answer.workflows}


@pytest.mark.smoke
@pytest.mark.parametrize("number", SIZES.values(), ids=SIZES)
async def test_nothing_stays_visible_on_the_connection(
    workflows: CatalogWriter, reading: Database, number: int
) -> None:
    await fill(workflows, [manifest.workflow(name) for name in names(number)])
    reader, pages = CandidateReader(reading), PageReader(reading)
    for word in ("restart", "OOMKilled", "the"):
        found = await candidates_of(reader, word=word)
        assert found.total == number
        assert await reading.fetch("select from workflow_version") == []
        assert await reading.fetch("select from workflow_search") == []
        assert len((await pages.read(ids(found), known=(), namespaces=HERE))[0]) == number
        assert await reading.fetch("select from workflow_version") == []
        hidden = await candidates_of(reader, word=word, namespaces=frozenset({"elsewhere"}))
        assert (hidden.total, hidden.evidence, dict(hidden.versions)) == (0, (), {})
        assert await pages.read(ids(found), known=(), namespaces=frozenset({"elsewhere"})) == ({}, {})
