"""The first page of the console: numbers that say whether all is well, each as far as who looks may read it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.kernel import readable
from formulary_catalog.kernel.targets import TargetContexts
from support.incident_console import World, served
from support.pages import page_of
from support.targets import example_reader

UNKNOWN = "\u2013"
"""What stands where a number would."""


FOUR = {"Waiting for a person", "Open incidents", "Runs that helped", "Alerts without a remedy"}
"""The numbers that are always there; others say what is wrong."""


@pytest.fixture(scope="module")
async def world(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with served(dsn, directory=tmp_path_factory.mktemp("keys")) as world:
        yield world


async def tiles(world: World, *, by: str) -> dict[str, tuple[str, str]]:
    """Each number of the page by its name, with what it says."""
    shown = page_of(await world.page("/overview", by=by)).all("li")
    found = [each for each in shown if each.all("strong")]
    return {each.one("a").words: (each.one("strong").words, each.one("span").words) for each in found}


async def test_the_numbers_are_those_that_the_visitor_may_read(world: World) -> None:
    seen = await tiles(world, by="sre")
    assert seen["Waiting for a person"] == ("1", "approve or reject")
    assert seen["Open incidents"][1].startswith("alerts that fire: 0; AIAnalysis objects: ")
    assert "run ended" in seen["Runs that helped"][1]
    assert seen["Alerts without a remedy"] == (UNKNOWN, "no alerting rule that you may see is known")
    bank = await tiles(world, by="banker")
    assert bank["Open incidents"][0] == "1"
    assert bank["Waiting for a person"] == (
        UNKNOWN,
        "not known: you may get workflowinvocations.formulary.dev in no namespace that Formulary knows of",
    )
    assert bank["Runs that helped"][0] == UNKNOWN
    nothing = await tiles(world, by="nobody")
    assert nothing.keys() == FOUR
    assert {number for number, _ in nothing.values()} == {UNKNOWN}
    assert "have access to anything shown here" in await world.page("/overview", by="nobody")


async def test_it_says_what_needs_a_person_and_leads_there(world: World) -> None:
    page = page_of(await world.page("/overview", by="sre"))
    said = next(each.words for each in page.all("p") if each.attributes.get("role") == "status")
    assert "needs attention Waiting for a person: approve or reject" in said
    links = {each.attributes["href"] for each in page.all("a")}
    assert {"/console/waiting", "/console/incidents/rr-shop", "/console/coverage"} <= links
    assert any(each.startswith("/console/waiting/inv-") for each in links)
    assert "/console/incidents/rr-bank" not in links


async def test_who_reads_runs_in_a_namespace_that_was_not_asked_about_sees_what_waits_and_that_more_may_be_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable, "ASKED_ABOUT", 0)
    assert (await tiles(world, by="sre"))["Waiting for a person"] == ("1", "approve or reject")
    shown = await world.page("/overview", by="banker")
    assert "only the first by name were looked through" in shown
    assert (
        "Nothing you can see needs attention, but not everything could be checked" in page_of(shown).one("main").words
    )


async def test_a_record_that_was_changed_is_no_fine_one(world: World, dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    changed = "update formulary.trace_event set body = replace(body, $1, $2) where trace_id = 'rr-bank' and seq = 1"
    try:
        await owner.execute("set session_replication_role = replica")
        await owner.execute(changed, "agent", "agenT")
        seen = await tiles(world, by="banker")
        assert seen["Altered records"] == ("1", "not as recorded; see below")
        assert "not as recorded" in await world.page("/overview", by="banker")
        await owner.execute(changed, "agenT", "agent")
        assert (await tiles(world, by="banker")).keys() == FOUR
        assert "Their records are as they were written" in await world.page("/overview", by="banker")
    finally:
        await owner.close()


def test_each_team_of_the_examples_is_shown_with_one_workload() -> None:
    examples = TargetContexts(example_reader(), mapping=DEFAULT_MAPPING).examples()
    assert list(map(str, examples)) == ["example-payments/Deployment/checkout", "example-search/Deployment/indexer"]
    assert TargetContexts(None, mapping=DEFAULT_MAPPING).examples() == []
