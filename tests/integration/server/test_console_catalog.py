"""The catalog page of the console: what it lists and shows is what REST answers to the same person."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import Finished, formulary
from support.databases import migrated_database
from support.filling import fill
from support.pages import Element, page_of
from support.runnable import EVERYWHERE as ANY_LABELS
from support.runnable import runnable
from support.services import open_parts
from support.serving import serving

HOSTILE = '</title><script>alert(1)</script><img src=x onerror="alert(2)">\u202e'
KEY, VALUE = "k3y-team", "v4lue-payments"
CALLERS = KnownCallers(
    person=Rights(see={"formulary"}),
    auditor=Rights(see={EVERYWHERE}, read={EVERYWHERE}, use={EVERYWHERE}, contracts={EVERYWHERE}),
    banker=Rights(see={"bank"}),
    nobody=Rights(),
)
SIGNALS = ("OOMKilled", "Evicted", "DiskAlert")
FILTERS: list[dict[str, str]] = [
    {},
    {"risk_level": "high"},
    {"signal_type": "oomkilled", "risk_level": "low"},
    {"action_type": "drainnode"},
    {"namespace": "formulary", "text": "drain Node"},
    {"text": "DiskAl"},
    {"status": "Superseded"},
    {"status": "Disabled"},
    {"status": "Pending"},
    {"status": "Invalid"},
    {"text": "no-such-thing"},
]


@dataclass(frozen=True)
class World:
    """A server over a catalog of two tenants."""

    url: str
    client: httpx2.AsyncClient

    async def command(self, *arguments: str) -> Finished:
        return await formulary(*arguments, FORMULARY_URL=self.url, FORMULARY_TOKEN="auditor")

    async def get(self, path: str, *, by: str = "auditor", **parameters: Any) -> httpx2.Response:
        return await self.client.get(path, params=parameters or None, headers={"Authorization": f"Bearer {by}"})

    async def page(self, path: str, *, by: str = "auditor", **parameters: Any) -> Element:
        code = parameters.pop("code", 200)
        response = await self.get(f"/console/catalog{path}", by=by, **parameters)
        assert response.status_code == code, response.text
        return page_of(response.text)

    async def read(self, path: str, *, by: str = "auditor", **parameters: Any) -> Any:
        response = await self.get(f"/api/v1{path}", by=by, **parameters)
        assert response.status_code == 200, response.text
        return response.json()


def documents() -> list[dict[str, Any]]:
    many = [
        runnable(
            f"drain-{number}",
            title=f"Drain node {number}",
            actionType="DrainNode" if number % 2 else "Drainnode",
            riskLevel=("low", "medium", "high")[number % 3],
            labels=ANY_LABELS | {"signalType": [SIGNALS[number % 3], *(["*"] if number % 4 == 0 else [])]},
        )
        for number in range(9)
    ]
    steps = [{"name": "look", "command": "kubectl get node\nkubectl describe node"}]
    return [
        *many,
        runnable("raise-limit", title="Raise the limit", customLabels={KEY: ["0ld"]}),
        runnable(
            "raise-limit",
            version="1.1.0",
            title="Raise the limit at once",
            steps=steps,
            customLabels={KEY: [VALUE]},
            related=[{"name": "drain-1", "relation": "escalatesTo"}, {"name": "theirs", "relation": "requires"}],
        ),
        runnable("lower-limit", related=[{"name": "raise-limit", "relation": "rollbackOf"}]),
        runnable("asleep", suspend=True),
        runnable(
            "hostile",
            title=HOSTILE[:-1],
            labels=ANY_LABELS | {"signalType": [HOSTILE[:-1]]},
            steps=[{"name": HOSTILE[:-1], "command": HOSTILE[:-1]}],
        ),
        runnable("hostile", version="2.0.0", title=HOSTILE[:-1] * 2),
    ]


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with migrated_database(postgres) as database:
        yield database


@pytest.fixture(scope="module")
async def parts(dsn: str) -> AsyncIterator[CatalogParts]:
    writing = await Database.open(dsn, role=Role.WRITER, size=2, deadline=30)
    writer = CatalogWriter(writing)
    await fill(writer, documents())
    await fill(
        writer,
        [
            runnable("theirs", title="Theirs", actionType="TheirAction", labels=ANY_LABELS | {"signalType": "Secret"}),
            runnable("leads-here", related=[{"name": "formulary/raise-limit", "relation": "escalatesTo"}]),
        ],
        namespace="bank",
    )
    await writing.close()
    async with open_parts(dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
async def world(parts: CatalogParts) -> AsyncIterator[World]:
    async with (
        serving(parts, authenticator=CALLERS) as url,
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
    ):
        yield World(url, client)


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "formulary, public"})
    yield connection
    await connection.close()


def versions(page: Element) -> list[str]:
    return [row.attributes["data-version"] for row in page.having("data-version")]


def linked(page: Element, words: str) -> str:
    return next(link.attributes["href"] for link in page.all("a") if link.words == words)


def path_of(address: str) -> str:
    return address.removeprefix("/console/catalog")


@pytest.mark.parametrize("by", ["person", "auditor", "banker"])
@pytest.mark.parametrize("asked", FILTERS)
async def test_the_list_is_that_of_rest(world: World, asked: dict[str, str], by: str) -> None:
    page = await world.page("", by=by, **asked)
    answer = await world.read("/workflows", by=by, **asked)
    assert versions(page) == [line["version_id"] for line in answer["workflows"]]
    assert page.one("p", role="status").words.startswith(f"{answer['total']} workflow")
    for note in (
        answer["notes"] if asked.get("status") != "Invalid" else ()
    ):  # there the page has the objects themselves
        assert note[1:] in page.words


async def test_pages_follow_one_another_without_a_gap(world: World) -> None:
    address, found = "/console/catalog?limit=4&status=Active", list[str]()
    for _ in range(10):
        page = page_of((await world.get(address)).text)
        found += versions(page)
        if not (further := page.all("a", lambda link: link.attributes.get("rel") == "next")):
            break
        address = further[0].attributes["href"]
    assert found == [line["version_id"] for line in (await world.read("/workflows"))["workflows"]]


@pytest.mark.parametrize("by", ["person", "auditor"])
@pytest.mark.parametrize(
    "asked", [{}, {"risk_level": "low"}, {"signal_type": "Evicted"}, {"text": "drain", "action_type": "DrainNode"}]
)
async def test_each_count_is_the_total_of_the_list_behind_it(world: World, asked: dict[str, str], by: str) -> None:
    page = await world.page("", by=by, **asked)
    lines = page.one("div", id="narrow").all("li")
    counted = [(line.one("a"), line.words.rpartition(" ")[2]) for line in lines if line.all("a")]
    assert len(counted) > 6
    for link, count in counted:
        behind = page_of((await world.get(link.attributes["href"], by=by)).text)
        if count.isdecimal():
            assert behind.one("p", role="status").words.split()[0] == count, link.words


@pytest.mark.parametrize("by", ["person", "auditor", "banker"])
@pytest.mark.parametrize("asked", FILTERS)
async def test_facets_of_rest_are_those_of_the_page(world: World, asked: dict[str, str], by: str) -> None:
    page = await world.page("", by=by, **asked)
    facets = (await world.read("/facets", by=by, **asked))["facets"]
    lines = [line.words for line in page.one("div", id="narrow").all("li")]
    assert list(facets) == ["namespace", "signal_type", "risk_level", "action_type", "status"]
    for field, values in facets.items():
        assert [each["value"] for each in values if f"{each['value']} {each['count']}" not in lines] == [], field
    for value in facets["risk_level"]:
        listed = await world.read("/workflows", by=by, **{**asked, "risk_level": value["value"]})
        assert listed["total"] == value["count"]


async def test_facets_are_asked_for_as_the_list_is(world: World) -> None:
    for parameters, words in (({"status": "Sleeping"}, "give one of Active"), ({"limit": "3"}, "unknown argument")):
        refused = await world.get("/api/v1/facets", **parameters)
        assert (refused.status_code, words in refused.text) == (400, True)
    assert (await world.get("/api/v1/facets", by="nobody")).status_code == 403
    assert "bank" not in (await world.get("/api/v1/facets", by="person")).text


async def test_workflows_of_others_are_in_no_list_or_count(world: World) -> None:
    for path in ("", "/formulary/raise-limit", "/formulary/drain-1"):
        words = (await world.get(f"/console/catalog{path}", by="person")).text
        assert not any(
            theirs in words for theirs in ("theirs", "Theirs", "TheirAction", "Secret", "bank", "leads-here")
        )
    seen = (await world.get("/console/catalog/formulary/raise-limit", by="auditor")).text
    assert "leads-here" in seen
    await world.page("/bank/theirs", by="person", code=404)
    await world.page("", by="nobody", code=403)


async def test_who_may_list_in_one_namespace_sees_its_workflows_and_no_others(world: World) -> None:
    page = await world.page("", by="banker")
    rows = page.all("tr")
    text = (await world.get("/console/catalog", by="banker")).text

    assert len(rows) == 1 + 2
    assert "bank/theirs" in text
    assert "formulary/" not in text
    await world.page("/bank/theirs", by="banker")
    await world.page("/formulary/lower-limit", by="banker", code=404)


@pytest.mark.parametrize(
    "address",
    [
        "/workflows/{}",
        "/workflows/{}/related",
        "/workflows/{}/impact",
        "/workflows/{}/sections/steps",
        "/workflows/{}/difference?against=1.0.0",
        "/explain?query=Secret&workflow={}",
        "/outcomes?workflow_id={}",
    ],
)
async def test_rest_finds_for_who_may_list_in_one_namespace_its_workflows_and_no_others(
    world: World, address: str
) -> None:
    for workflow, status in (("bank/theirs", 200), ("formulary/lower-limit", 404)):
        answer = await world.get(f"/api/v1{address.format(workflow)}", by="banker")
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/names?name=theirs", "bank/theirs"),
        ("/coverage", '"name":"Secret"'),
        ("/coverage/stale", '"compared":2'),
    ],
)
async def test_what_rest_says_of_the_catalog_is_about_what_its_reader_may_list(
    world: World, address: str, said: str
) -> None:
    answer = await world.get(f"/api/v1{address}", by="banker")
    assert answer.status_code == 200, answer.text
    assert said in answer.text
    assert "lower-limit" not in answer.text


async def test_a_person_of_one_namespace_tries_a_search_for_its_workflows(world: World) -> None:
    response = await world.get("/console/search", by="banker", query="Secret", workflow="bank/theirs")
    page = page_of(response.text)
    assert response.status_code == 200
    assert "is not found" not in page.words
    assert [each.attributes["data-version"] for each in page.having("data-confidence")]


async def test_a_workflow_is_shown_as_rest_has_it(world: World) -> None:
    page = await world.page("/formulary/raise-limit")
    answer = await world.read("/workflows/formulary/raise-limit")
    assert page.one("h1").words == answer["title"]
    for said in ("version_id", "description", "when_to_use", "action_type"):
        assert answer[said] in page.words
    assert [each.text for each in page.all("code") if "kubectl get node" in each.text] == [
        step["command"] for step in answer["steps"]
    ]
    for parameter in answer["parameters"]:
        assert parameter["name"] in page.words
    for version in answer["versions"]:
        assert version["version_id"] in page.words
    related = await world.read("/workflows/formulary/raise-limit/related")
    listed = {link.words for line in page.all("li") for link in line.all("a")}
    wanted = {each["name"] for each in related["related"] if each["relation"] not in ("previousVersion", "sameAction")}
    assert wanted
    assert wanted <= listed


async def test_success_counts_runs_that_helped_and_no_share_is_shown_of_few(
    world: World, owner: "asyncpg.Connection[Any]"
) -> None:
    version_ids = {name: (await world.read(f"/workflows/{name}"))["version_id"] for name in ("drain-1", "drain-2")}
    await owner.executemany(
        "insert into workflow_outcome (version_id, succeeded, failed, median_seconds, helped, verified) "
        "values ($1, 40, 0, 42, $2, $3)",
        [(version_ids["drain-1"], 2, 3), (version_ids["drain-2"], 30, 40)],
    )
    few, many = await world.page("/drain-1"), await world.page("/drain-2")
    assert "3 runs of this version have a known outcome. The rate is shown from five runs on." in few.words
    assert "This version helped in 75% of 40 runs (60% to 86%)" in many.words
    assert "No run of this version has a known outcome" in (await world.page("/drain-3")).words


async def test_two_versions_are_shown_side_by_side_without_custom_labels(world: World) -> None:
    page = await world.page("/formulary/raise-limit")
    compared = page_of((await world.get(linked(page, "with 1.1.0").partition("#")[0])).text)
    assert compared.one("h2", id="difference").words == "Version 1.0.0 and 1.1.0"
    assert [each.words for each in compared.all("del")][:2] == ["version: 1.0.0", "title: Raise the limit"]
    assert [each.words for each in compared.all("ins")][:2] == ["version: 1.1.0", "title: Raise the limit at once"]
    assert "custom labels differ as well" in compared.words
    for secret in (KEY, VALUE, "0ld"):
        assert secret not in compared.text
    older = await world.page("/formulary/raise-limit@1.0.0", against="1.1.0")
    assert [each.words for each in older.all("del")] == [each.words for each in compared.all("del")]
    missing = await world.page("/formulary/raise-limit", against="9.9.9")
    assert "has no version '9.9.9'; there are 1.1.0, 1.0.0" in missing.one("p", role="alert").words


async def test_versions_are_compared_over_rest_as_on_the_page(world: World) -> None:
    page = await world.page("/formulary/raise-limit", against="1.0.0")
    compared = await world.read("/workflows/formulary/raise-limit/difference", against="1.0.0")
    assert (compared["workflow_id"], compared["older"], compared["newer"]) == ("raise-limit", "1.0.0", "1.1.0")
    rows = compared["rows"]
    assert [each.text for each in page.all("del")] == [
        row["older"] for row in rows if row["kind"] in ("changed", "removed")
    ]
    assert [each.text for each in page.all("ins")] == [
        row["newer"] for row in rows if row["kind"] in ("changed", "added")
    ]
    assert not any(secret in str(compared) for secret in (KEY, VALUE, "0ld"))
    turned = await world.read("/workflows/raise-limit@1.0.0/difference", by="person", against="v1.1.0")
    assert turned == compared
    for path, parameters, status, words in (
        ("raise-limit", {"against": "9.9.9"}, 404, "has no version '9.9.9'"),
        ("raise-limit", {}, 400, "against is missing"),
        ("raise-limit", {"against": "1.0.0", "version": "1.1.0"}, 400, "unknown argument"),
        ("bank/theirs", {"against": "1.0.0"}, 404, "is not found"),
    ):
        refused = await world.get(f"/api/v1/workflows/{path}/difference", by="person", **parameters)
        assert (refused.status_code, words in refused.text) == (status, True), refused.text


async def test_versions_are_compared_on_the_command_line(world: World, dsn: str) -> None:
    served = await world.command("show", "raise-limit", "--against", "1.0.0")
    stored = await formulary("show", "raise-limit@1.0.0", "--against", "1.1.0", FORMULARY_DATABASE_URL=dsn)
    assert (served.code, stored.code, served.out) == (0, 0, stored.out)
    lines = served.out.splitlines()
    assert lines[0] == "raise-limit  1.0.0 → 1.1.0"
    assert lines[1:5] == [
        "- version: 1.0.0",
        "- title: Raise the limit",
        "+ version: 1.1.0",
        "+ title: Raise the limit at once",
    ]
    assert "custom labels differ as well" in " ".join(served.out.split())
    told = await world.command("show", "raise-limit", "--against", "1.0.0", "--json")
    assert json.loads(told.out) == await world.read("/workflows/raise-limit/difference", against="1.0.0")
    both = await world.command("show", "raise-limit", "--against", "1.0.0", "--section", "steps")
    assert (both.code, "leave out --section" in both.err) == (2, True)


async def test_exports_are_what_rest_answers(world: World) -> None:
    exported = await world.get("/console/catalog/formulary/raise-limit@1.0.0/details.json")
    assert json.loads(exported.text) == await world.read("/workflows/formulary/raise-limit@1.0.0")
    assert exported.headers["content-disposition"].startswith("attachment")
    skill = await world.get("/console/catalog/formulary/raise-limit@1.0.0/SKILL.md")
    assert skill.text.startswith("---\nname: raise-limit\n")


@pytest.mark.parametrize("path", ["", "/formulary/hostile", "/formulary/hostile?against=1.0.0", "?text=%3Cscript%3E"])
async def test_hostile_texts_are_data(world: World, path: str) -> None:
    response = await world.get(f"/console/catalog{path}")
    page = page_of(response.text)
    assert all(each.attributes["src"].startswith("/console/static/") for each in page.all("script"))
    assert not page.all("img")
    assert not [name for each in page.inside for name in each.attributes if name.startswith("on") or name == "style"]
    assert "\u202e" not in response.text
    if "script" not in path:
        assert HOSTILE[:-1] in page.text


async def test_where_there_is_nothing_the_page_says_what_to_do_next(world: World) -> None:
    invalid = page_of((await world.get("/console/catalog?status=Invalid")).text)
    assert "No refused object is known" in invalid.words
    assert "formulary validate DIR" in invalid.words
    nothing = await world.page("", text="zebra")
    assert "or search by meaning" in nothing.words
    assert linked(nothing, "search for it by meaning") == "/console/search?query=zebra"


async def test_a_bad_address_is_answered_in_words(world: World) -> None:
    for path, status, words in (
        ("?status=Sleeping", 400, "is not known; give one of Active"),
        ("?colour=red", 400, "colour"),
        ("?cursor=abc", 400, "cursor"),
        ("/formulary/drain-99", 404, "drain-9"),
        ("/not a name", 404, "is not a workflow name"),
    ):
        response = await world.get(f"/console/catalog{path}")
        assert response.status_code == status, response.text
        assert words in page_of(response.text).words
