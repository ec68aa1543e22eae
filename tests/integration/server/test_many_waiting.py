"""More runs that wait, in more namespaces, than one page or one question about rights has room for."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import playing
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import formulary
from support.pages import Element, page_of
from support.rest_agent import rest_agent
from support.runnable import TARGET, runnable_database
from support.runs import KEY
from support.services import open_parts
from support.serving import serving

WAITING = "/console/waiting"
LAST = "zz-last-of-all"
CALLERS = KnownCallers(
    agent=Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
    sre=Rights(see={EVERYWHERE}, use={EVERYWHERE}, read={TARGET}, approve={TARGET}),
    last=Rights(see={LAST}, read={LAST}, approve={LAST}),
)


@dataclass(frozen=True)
class World:
    """A server, and its database as its owner."""

    url: str
    client: httpx2.AsyncClient
    database: "asyncpg.Connection[Any]"
    run: str

    async def get(self, path: str, *, by: str, **parameters: Any) -> httpx2.Response:
        response = await self.client.get(path, params=parameters or None, headers={"Authorization": f"Bearer {by}"})
        assert response.status_code == 200, response.text
        return response

    async def page(self, address: str = WAITING, *, by: str = "sre", **parameters: Any) -> Element:
        return page_of((await self.get(address, by=by, **parameters)).text)

    async def changes(self, of: Element) -> Element:
        """What an open page gets when it asks for changes."""
        (asking,) = [each for each in of.having("hx-get") if "changes" in each.attributes["hx-get"]]
        address = httpx2.URL(asking.attributes["hx-get"])
        sent = {name: [each.attributes["value"] for each in of.having("name", name)] for name in ("shown", "total")}
        return await self.page(str(address.copy_merge_params(sent)))

    async def copies(self, number: int, *, namespace: str = TARGET, after: int = 1) -> None:
        """So many runs more, each a second younger than the one before."""
        await self.database.execute(
            """
            insert into formulary.invocation
            select (jsonb_populate_record(run, jsonb_build_object(
                'id', 'inv-' || lpad((number + $3)::text, 20, '0'), 'object_name', 'copy-' || number + $3,
                'created_at', created_at + (number + $3) * interval '1 second', 'idempotency_key', '',
                'namespace', replace($4, '%', number::text)))).*
            from formulary.invocation as run, generate_series(1, $2::int) as number where run.id = $1
            """,
            self.run,
            number,
            after,
            namespace,
        )


@pytest.fixture
async def catalog(postgres: EmbeddedPostgres, tmp_path: Path) -> AsyncIterator[tuple[str, CatalogParts]]:
    async with runnable_database(postgres, tmp_path) as dsn, open_parts(dsn) as parts:
        yield dsn, parts


@pytest.fixture
async def world(catalog: tuple[str, CatalogParts], tmp_path: Path) -> AsyncIterator[World]:
    dsn, parts = catalog
    (keys := tmp_path / "input.key").write_text(KEY)
    database = await asyncpg.connect(dsn)
    async with (
        serving(parts, authenticator=CALLERS, input_key_file=keys) as url,
        playing.operator(dsn, ends=lambda _: None),
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
    ):
        async with rest_agent(url) as agent:
            run = await agent.invoke("rr-production", "risky", {"REPLICAS": 3, "TOKEN": "t"})
        yield World(url, client, database, run["invocation_id"])
    await database.close()


def shown(page: Element) -> list[str]:
    return [each.attributes["id"] for each in page.all("article")]


def further(page: Element) -> dict[str, str]:
    """Where other pages of the list are, by the words of the link."""
    return {link.words: link.attributes["href"] for link in page.one("div", id="further").all("a")}


async def test_pages_of_what_waits_follow_one_another_without_a_gap(world: World) -> None:
    await world.copies(51)
    page = await world.page()
    assert "52 runs wait. The 50 that have waited longest are shown." in page.words
    first = shown(page)
    rest = await world.page(further(page)["Later"])
    assert (len(first), len(shown(rest)), len({*first, *shown(rest)})) == (50, 2, 52)
    assert list(further(rest)) == ["Oldest"]
    assert shown(await world.page(further(rest)["Oldest"])) == first

    asked: dict[str, Any] = {"limit": 20}
    found: list[str] = []
    while asked.get("cursor", "first"):
        answer = (await world.get("/api/v1/approvals", by="sre", **asked)).json()
        found += [run["invocation_id"] for run in answer["approvals"]]
        assert answer["total"] == 52
        asked["cursor"] = answer["next_cursor"]
    assert found == [*first, *shown(rest)]


async def test_an_open_page_that_is_full_says_that_more_wait_and_leads_to_them(world: World) -> None:
    await world.copies(49)
    page = await world.page()
    assert (len(shown(page)), further(page)) == (50, {})
    assert not (await world.changes(page)).having("id", "count")
    await world.copies(1, after=100)
    changes = await world.changes(page)
    assert "51 runs wait. The 50 that have waited longest are shown." in changes.one("div", id="count").words
    (last,) = shown(await world.page(further(changes)["Later"]))
    assert last == f"inv-{101:020}"


async def test_the_command_lists_more_than_one_page_has_room_for(world: World) -> None:
    await world.copies(220)
    known = {"FORMULARY_URL": world.url, "FORMULARY_TOKEN": "sre"}
    listed = await formulary("approvals", **known)
    assert listed.code == 0, listed.err
    assert "221 runs waiting" in listed.out
    assert listed.out.count("time left") == 221
    few = await formulary("approvals", "--limit", "201", **known)
    assert ("201 of 221 runs waiting" in few.out, few.out.count("time left")) == (True, 201)


async def test_who_reads_one_namespace_of_many_misses_nothing_that_waits_there(world: World) -> None:
    await world.copies(150, namespace="ns-%")
    await world.copies(1, namespace=LAST, after=500)
    page = await world.page(by="last")
    assert shown(page) == [f"inv-{501:020}"]
    assert "1 run waits." in page.words
    answer = (await world.get("/api/v1/approvals", by="last")).json()
    assert (answer["total"], len(answer["approvals"])) == (1, 1)
    assert "ns-1" not in page.words


async def test_where_runs_wait_in_too_many_namespaces_the_answer_says_that_it_is_not_whole(world: World) -> None:
    await world.copies(200, namespace="ns-%")
    await world.copies(1, namespace=LAST, after=2000)
    page = await world.page(by="last")
    assert "Runs wait in more than 200 namespaces" in page.words
    named = await world.page(by="last", namespace=LAST)
    assert shown(named) == [f"inv-{2001:020}"]


async def test_lists_say_where_there_are_more_namespaces_than_were_asked_about(world: World) -> None:
    for path in ("invocations", "traces", "incidents", "contracts"):
        assert "more than" not in (await world.get(f"/api/v1/{path}", by="last")).text
    await world.copies(120, namespace="ns-%")
    for path in ("invocations", "traces", "incidents", "contracts"):
        assert "more than 100 namespaces" in (await world.get(f"/api/v1/{path}", by="last")).json()["notes"][0], path
        assert "more than" not in (await world.get(f"/api/v1/{path}", by="last", namespace=LAST)).text
    assert "knows of more than 100 namespaces" in (await world.page("/console/incidents", by="last")).words
