"""Refused objects: REST, the page Catalog and the command list the same, each to who may list workflows there."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import formulary
from support.filling import entry, fill, refusal
from support.manifest import workflow
from support.pages import Element, page_of
from support.serving import serving

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)> \u202e'
CALLERS = KnownCallers(
    shopper=Rights(see={"shop"}), banker=Rights(see={"bank"}), admin=Rights(see={EVERYWHERE}), nobody=Rights()
)
SAID = {
    "shop": [
        refusal("carts", namespace="shop"),
        refusal("prices", namespace="shop", reason="VersionImmutable", message="raise spec.version"),
        refusal("hostile", namespace="shop", version=HOSTILE, message=HOSTILE),
    ],
    "bank": [refusal("ledger", namespace="bank", version="")],
}


@dataclass(frozen=True)
class World:
    """A server whose catalog has one workflow, of the shop, and objects that two tenants were refused."""

    url: str
    client: httpx2.AsyncClient

    async def get(self, path: str, *, by: str, **parameters: Any) -> httpx2.Response:
        return await self.client.get(path, params=parameters or None, headers={"Authorization": f"Bearer {by}"})

    async def read(self, *, by: str = "admin", path: str = "/refused", **parameters: Any) -> Any:
        response = await self.get(f"/api/v1{path}", by=by, **parameters)
        assert response.status_code == 200, response.text
        return response.json()

    async def page(self, *, by: str = "admin", **parameters: Any) -> Element:
        response = await self.get("/console/catalog", by=by, **parameters)
        assert response.status_code == 200, response.text
        return page_of(response.text)


@pytest.fixture
async def world(parts: CatalogParts, workflows: CatalogWriter, writing: Database) -> AsyncIterator[World]:
    await fill(workflows, [workflow("carts")], namespace="shop")
    for refused in SAID.values():
        for each in refused:
            await RefusalWriter(writing).note(each)
    async with (
        serving(parts, authenticator=CALLERS) as url,
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
    ):
        yield World(url, client)


def named(answer: Any) -> list[str]:
    return [f"{line['namespace']}/{line['name']}" for line in answer["refused"]]


def shown(page: Element) -> list[str]:
    return [row.attributes["data-refused"] for row in page.having("data-refused")]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("shopper", ["shop/carts", "shop/hostile", "shop/prices"]),
        ("banker", ["bank/ledger"]),
        ("admin", ["shop/carts", "shop/hostile", "bank/ledger", "shop/prices"]),
    ],
)
async def test_each_sees_what_was_refused_where_it_may_list_workflows(
    world: World, by: str, expected: list[str]
) -> None:
    answer = await world.read(by=by)
    page = await world.page(by=by, status="Invalid")
    assert (named(answer), shown(page)) == (expected, expected)
    assert (
        page.one("p", role="status").words
        == f"{len(expected)} {'workflow' if len(expected) == 1 else 'workflows'} refused"
    )
    facets = (await world.read(by=by, path="/facets", status="Invalid"))["facets"]
    assert {"value": "Invalid", "count": len(expected)} in facets["status"]
    counted = {each["value"]: each["count"] for each in facets["namespace"]}
    assert counted == {name: len(SAID[name]) for name in {each.partition("/")[0] for each in expected}}
    assert {"value": "Invalid", "count": len(expected)} in (await world.read(by=by, path="/facets"))["facets"]["status"]


async def test_who_may_list_nowhere_is_told_so(world: World) -> None:
    for path in ("/api/v1/refused", "/console/catalog?status=Invalid"):
        answer = await world.get(path, by="nobody")
        assert answer.status_code == 403
        assert "ledger" not in answer.text


async def test_a_line_says_what_is_wrong_since_when_and_what_to_do(world: World) -> None:
    (line,) = (await world.read(text="is no TEXT severity", namespace="bank"))["refused"]
    assert line == {
        "namespace": "bank",
        "name": "ledger",
        "version": "",
        "reason": "Invalid",
        "message": "spec.labels.severity: 1 is no text",
        "since": "2026-01-02T03:04:05Z",
        "next_step": "correct the object and apply it again; its status: kubectl describe remediationworkflow ledger "
        "--namespace bank",
    }
    page = await world.page(namespace="bank", status="Invalid", text="severity")
    assert "spec.labels.severity: 1 is no text" in page.words
    assert "kubectl describe remediationworkflow ledger --namespace bank" in page.words


async def test_pages_follow_one_another_without_a_gap(world: World) -> None:
    whole, found, cursor = named(await world.read()), list[str](), ""
    while True:
        answer = await world.read(limit=1, **({"cursor": cursor} if cursor else {}))
        assert answer["total"] == len(whole)
        found += named(answer)
        if not (cursor := answer["next_cursor"]):
            break
    assert found == whole
    further = next(link for link in (await world.page(status="Invalid", limit=3)).all("a") if link.words == "Next page")
    assert shown(page_of((await world.get(further.attributes["href"], by="admin")).text)) == whole[3:]
    stale = await world.get("/api/v1/refused", by="admin", limit=1, namespace="shop", cursor="abc")
    assert stale.status_code == 400


async def test_filters_that_say_nothing_of_refused_objects_leave_none(world: World) -> None:
    assert named(await world.read(text="no-such-thing")) == []
    page = await world.page(status="Invalid", risk_level="high")
    assert shown(page) == []
    assert "remove signal, risk and action" in page.words
    assert (await world.get("/api/v1/refused", by="admin", risk_level="high")).status_code == 400


async def test_the_list_of_workflows_says_where_refused_objects_are(world: World) -> None:
    answer = await world.read(path="/workflows", status="Invalid")
    assert answer["workflows"] == []
    assert "GET /api/v1/refused" in answer["notes"][0]


async def test_that_nothing_is_refused_is_said_only_while_a_resync_is_known(world: World, writing: Database) -> None:
    none, server = "No refused objects that you can see", {"FORMULARY_URL": world.url, "FORMULARY_TOKEN": "admin"}
    await writing.execute("delete from refused_workflow")

    async def seen_by_people() -> list[str]:
        listed = await formulary("list", "--refused", **server)
        return [(await world.page(status="Invalid")).words, " ".join(listed.out.split())]

    async def all_notes() -> list[str]:
        notes: list[str] = (await world.read())["notes"]
        return notes

    unknown = await all_notes()
    assert unknown == [
        "no resync recorded yet: only objects that an operator refuses are listed, not the files of "
        "`formulary up`, and operators of older releases record none"
    ]
    for words in await seen_by_people():
        assert unknown[0] in words.lower()
        assert none not in words
    await ResyncWriter(writing).note("a/one", listed=3, differed=0, refused=None, every_seconds=300)
    assert await all_notes() == []
    for words in await seen_by_people():
        assert none in words
    await writing.execute("update resync set finished_at = now() - interval '1 hour'")
    late = await all_notes()
    assert late == ["no recent resync recorded, so objects refused since then may be missing here"]
    for words in await seen_by_people():
        assert late[0] in words.lower()
        assert none not in words


async def test_hostile_texts_are_data(world: World) -> None:
    response = await world.get("/console/catalog?status=Invalid", by="shopper")
    page = page_of(response.text)
    assert all(each.attributes["src"].startswith("/console/static/") for each in page.all("script"))
    assert not page.all("img")
    assert "\u202e" not in response.text
    assert HOSTILE[:-2] in page.text


async def test_the_command_lists_the_same(world: World, database: str) -> None:
    server = {"FORMULARY_URL": world.url, "FORMULARY_TOKEN": "admin"}
    answer = await world.read()
    for where in (server, {"FORMULARY_DATABASE_URL": database}):
        reported = await formulary("list", "--refused", "--json", **where)
        assert (reported.code, json.loads(reported.out)) == (0, answer)
    reported = await formulary("list", "--refused", "--namespace", "bank", **server)
    assert reported.out.splitlines()[0] == "bank/ledger"
    assert "kubectl describe remediationworkflow ledger --namespace bank" in " ".join(reported.out.split())
    assert (
        "1 of 3 objects" in (await formulary("list", "--refused", "--namespace", "shop", "--limit", "1", **server)).out
    )
    assert "No refused object is known" in (await formulary("list", "--refused", "--namespace", "none", **server)).out
    for status in ("Invalid", "invalid"):
        assert json.loads((await formulary("list", "--status", status, "--json", **server)).out) == answer
    risky = await formulary("list", "--status", "Invalid", "--risk", "low", **server)
    assert (risky.code, "leave out everything but" in risky.err) == (2, True)
    assert "Invalid" in (await formulary("list", "--help")).out
    both = await formulary("list", "--refused", "--risk", "low", **server)
    assert (both.code, "leave out everything but" in both.err) == (2, True)


@pytest.mark.parametrize(("by", "number"), [("shopper", 3), ("banker", 1), ("admin", 4)])
async def test_the_list_of_workflows_says_where_refused_objects_are_and_how_many(
    world: World, by: str, number: int
) -> None:
    answer = await world.read(by=by, path="/workflows", status="Invalid")
    assert (answer["workflows"], answer["total"]) == ([], 0)
    (note,) = answer["notes"]
    assert "GET /api/v1/refused and `formulary list --refused` list them" in note
    assert note.endswith(f", {number} here")
    elsewhere = await world.read(by=by, path="/workflows", status="Invalid", namespace="none")
    assert elsewhere["notes"][0].endswith(", 0 here")


async def test_it_is_over_once_the_object_is_stored_or_gone_and_only_then(
    world: World, workflows: CatalogWriter, writing: Database
) -> None:
    await workflows.apply(entry(workflow("prices"), namespace="shop"), owner="uid-1")
    assert named(await world.read(by="shopper")) == ["shop/carts", "shop/hostile"]
    assert not await workflows.remove(namespace="shop", name="carts", source="cluster", unless_owned_by="uid-9")
    assert "shop/carts" in named(await world.read(by="shopper"))
    await workflows.remove(namespace="shop", name="carts", source="cluster")
    assert named(await world.read(by="shopper")) == ["shop/hostile"]
    await RefusalWriter(writing).note(refusal("hostile", namespace="shop", message="now another"))
    (line,) = (await world.read(by="shopper"))["refused"]
    assert line["message"] == "now another"
