"""`formulary select` and `formulary export skill`, against a running server and against a database."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.database.migrate import describe
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.commands import answer_of, formulary
from support.databases import migrated_database
from support.manifest import analysis, text, workflow
from support.process import FORMULARY
from support.services import open_parts
from support.serving import load, serving

WHY = "The limit is the only cap."


@dataclass(frozen=True, slots=True)
class World:
    """Two workflows, one of them for team red alone, and an incident of team blue."""

    dsn: str
    url: str

    def where(self, by: str) -> tuple[str, str]:
        return ("--url", self.url) if by == "server" else ("--database-url", self.dsn)


def names_below(directory: Path) -> set[str]:
    return {str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file()}


@pytest_asyncio.fixture(scope="module")
async def world(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    manifests = tmp_path_factory.mktemp("selecting")
    red = workflow("for-red", customLabels={"team": ["red"]})
    (manifests / "all.yaml").write_text(
        text(workflow("restart"), red, analysis("ai", remediation_id="rr-blue", labels={"team": ["blue"]}))
    )
    async with migrated_database(postgres) as dsn:
        await load([manifests], dsn=dsn, embedder=embedder)
        async with open_parts(dsn, embedder=embedder) as parts, serving(parts) as url:
            yield World(dsn=dsn, url=url)


@pytest.mark.parametrize("by", ["server", "database"])
async def test_a_choice_is_recorded_with_its_reasons_and_its_search(world: World, by: str) -> None:
    incident = ("--remediation-id", "rr-blue", *world.where(by))
    searched = json.loads((await formulary("search", "restart", "--top-k", "1", "--json", *incident)).out)
    chosen = ("restart", "--version", "1.0.0", "--confidence", "0.9", "--search-id", searched["search_id"])

    done = await formulary("select", *chosen, "--reasoning", WHY, "--json", *incident)

    assert done.code == 0, done.err
    receipt = json.loads(done.out)
    assert (receipt["recorded"], receipt["supported"], receipt["version"]) == (True, True, "1.0.0")
    assert receipt["search_id"] == searched["search_id"]
    story = await formulary("trace", "show", "rr-blue", "--database-url", world.dsn)
    assert WHY in story.out


@pytest.mark.parametrize("by", ["server", "database"])
async def test_a_recorded_choice_is_told_in_words(world: World, by: str) -> None:
    done = await formulary("select", "restart", "--reasoning", WHY, *world.where(by))
    assert (done.code, done.err) == (0, answer_of(world.url if by == "server" else describe(world.dsn)))
    assert done.out.startswith("recorded: restart@1.0.0\n")


@pytest.mark.parametrize("by", ["server", "database"])
async def test_what_an_incident_forbids_cannot_be_chosen_for_it(world: World, by: str) -> None:
    done = await formulary("select", "for-red", "--reasoning", WHY, "--remediation-id", "rr-blue", *world.where(by))
    assert (done.code, done.out) == (1, "")
    assert "there is no workflow 'for-red' that may be used here" in done.err


async def test_a_choice_is_refused_in_the_words_of_the_command(world: World) -> None:
    wrong = await formulary("select", "restart", "--reasoning", WHY, "--confidence", "2", *world.where("server"))
    assert (wrong.code, wrong.out) == (2, "")
    assert "--confidence" in wrong.err
    unexplained = await formulary("select", "restart", *world.where("server"))
    assert (unexplained.code, unexplained.out) == (2, "")
    assert "Missing option '--reasoning'" in unexplained.err


async def test_skills_are_written_to_the_directory_skills_where_none_is_named(world: World, tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [FORMULARY, "export", "skill", "restart", "--url", world.url],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    written = done.stdout.splitlines()
    assert all(line.startswith("skills/") for line in written)
    assert len(written) == 2
    assert set(written) == names_below(tmp_path)
