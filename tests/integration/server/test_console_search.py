"""Trying a search in the console: what an agent gets, the evidence of each hit, and why a workflow is missing."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows.labels import DIMENSIONS, Constraints, fold_all, wire_name
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, KnownCallers, Rights
from support.agent import answer_of, call, text_of
from support.databases import migrated_database
from support.filling import fill
from support.pages import Element, page_of
from support.runnable import EVERYWHERE as ANY_LABELS
from support.runnable import runnable
from support.services import open_parts
from support.serving import serving
from support.trail import recorded

KEY, VALUE = "k3y-team", "v4lue-payments"
HOSTILE = '</title><script>alert(1)</script><img src=x onerror="alert(2)">'
QUERY = "OOMKilled critical memory limit"
INCIDENT = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-shop",
    environment="production",
    priority="P1",
    signal_name=HOSTILE,
    target_namespace="shop",
    custom_labels={KEY: (VALUE,)},
    detected_labels={"gitOpsTool": "flux"},
)
CALLERS = KnownCallers(
    agent=Rights(see={EVERYWHERE}, use={EVERYWHERE}),
    sre=Rights(see={"formulary", "shop"}, use={"shop"}, constraints={"shop"}),
    author=Rights(see={"formulary"}),
)
VALUES = {"severity": ["critical", "low"], "environment": ["production", "staging"], "component": ["v1/Pod", "v1/Node"]}
CHANCE = random.Random(20261126)


def some_labels() -> dict[str, list[str]]:
    """Labels of a workflow, each with one value, several, or any."""
    return {name: CHANCE.choice([[CHANCE.choice(values)], values, ["*"]]) for name, values in VALUES.items()}


RANDOM = [
    runnable(
        f"random-{number}",
        what=f"Changes the {CHANCE.choice(['memory limit', 'number of replicas', 'node'])} of number {number}.",
        labels=ANY_LABELS | some_labels() | {"signalType": CHANCE.choice(["OOMKilled", "Evicted", "*"])},
        detectedLabels=CHANCE.choice([{}, {"gitOpsTool": "argocd"}, {"gitOpsTool": "flux"}, {"hpaEnabled": True}]),
    )
    for number in range(20)
]
ASKED: list[dict[str, str]] = [
    {
        "query": CHANCE.choice(["OOMKilled memory limit", "Evicted node", "too few replicas"]),
        **{f"label.{name}": CHANCE.choice([*values, ""]) for name, values in VALUES.items()},
        "label.signal-type": CHANCE.choice(["", "OOMKilled", "Evicted"]),
        "detected": CHANCE.choice(["", "gitOpsTool=flux", "gitOpsTool=argocd, hpaEnabled", "hpaEnabled=false"]),
        "exclude_keywords": CHANCE.choice(["", "", "replicas"]),
    }
    for _ in range(10)
]


@dataclass(frozen=True)
class World:
    """A server over a catalog that needs an incident for agents."""

    url: str
    client: httpx2.AsyncClient
    entries: list[CatalogEntry]

    async def get(self, path: str, *, by: str, **parameters: Any) -> httpx2.Response:
        return await self.client.get(path, params=parameters or None, headers={"Authorization": f"Bearer {by}"})

    async def page(self, *, by: str = "sre", **parameters: Any) -> Element:
        code = parameters.pop("code", 200)
        response = await self.get("/console/search", by=by, **parameters)
        assert response.status_code == code, response.text
        return page_of(response.text)

    async def explain(self, *, by: str = "sre", of: str = "", **parameters: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {by}"} | ({"X-Remediation-Id": of} if of else {})
        response = await self.client.get("/api/v1/explain", params=parameters, headers=headers)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def agent(self, arguments: dict[str, Any], *, of: str = "rr-shop") -> Any:
        headers = {"Authorization": "Bearer agent", "X-Remediation-Id": of}
        return await call(self.url, "search_workflow_catalog", arguments, headers=headers)


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with migrated_database(postgres) as database:
        yield database


@pytest.fixture(scope="module")
async def entries(dsn: str, embedder: Embedder) -> list[CatalogEntry]:
    writing = await Database.open(dsn, role=Role.WRITER, size=2, deadline=30)
    writer = CatalogWriter(writing)
    filled = await fill(writer, RANDOM, embedder=embedder)
    await fill(
        writer,
        [
            runnable("raise-limit", title="Raise the memory limit", what="Raises the memory limit.", riskLevel="high"),
            runnable("hostile", title=f"Memory limit {HOSTILE}", what=f"Raises the memory limit {HOSTILE}"),
            runnable("other-team", customLabels={KEY: "0ther"}),
            runnable("argo-only", detectedLabels={"gitOpsTool": "argocd"}),
        ],
        embedder=embedder,
    )
    await fill(writer, [runnable("theirs", title="Theirs: the memory limit")], namespace="bank", embedder=embedder)
    contexts = ContextWriter(writing)
    await contexts.save(INCIDENT)
    await writing.close()
    return filled


@pytest.fixture(scope="module")
async def parts(dsn: str, entries: list[CatalogEntry], embedder: Embedder) -> AsyncIterator[CatalogParts]:
    async with open_parts(dsn, embedder=embedder, policy=ContextPolicy.REQUIRED) as opened:
        yield opened


@pytest.fixture(scope="module")
async def world(parts: CatalogParts, entries: list[CatalogEntry]) -> AsyncIterator[World]:
    async with (
        serving(parts, authenticator=CALLERS) as url,
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
    ):
        yield World(url, client, entries)


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "formulary, public"})
    yield connection
    await connection.close()


def hits(page: Element) -> list[tuple[str, float]]:
    """Version and confidence of each hit, in order."""
    return [
        (each.attributes["data-version"], float(each.attributes["data-confidence"]))
        for each in page.having("data-confidence")
    ]


def parts_of(section: Element) -> dict[str, float]:
    """What each part of an evidence counts."""
    return {row.attributes["data-part"]: float(row.all("td")[1].words) for row in section.having("data-part")}


def value_of(page: Element, field: str) -> str:
    return page.one("input", name=field).attributes["value"]


@pytest.mark.parametrize(
    "asked",
    [
        {"query": QUERY},
        {"query": QUERY, "top_k": 3},
        {"query": "the node is full", "min_confidence": 0.1, "label.severity": "critical"},
        {"query": "zebra"},
    ],
)
async def test_the_page_has_what_an_agent_gets_for_that_incident(world: World, asked: dict[str, Any]) -> None:
    result = await world.agent(asked)
    answer = answer_of(result)
    page = await world.page(by="agent", incident="rr-shop", **asked)
    assert hits(page) == [(hit["version_id"], hit["confidence"]) for hit in answer["workflows"]]
    for hit, shown in zip(answer["workflows"], page.having("data-confidence"), strict=True):
        assert [each.words for each in shown.one("ul").all("li")] == hit["match_reasons"]
        assert hit.get("caution", "") in shown.text
    # Ids of searches and times differ from call to call, and their lengths hardly.
    shown_bytes = int(page.having("data-bytes")[0].attributes["data-bytes"])
    assert abs(shown_bytes - len(text_of(result).encode())) < 5
    assert len(page.one("code", id="json").text.encode()) == shown_bytes


async def test_evidence_of_a_hit_is_that_of_an_explanation(world: World) -> None:
    page = await world.page(query=QUERY, incident="rr-shop")
    assert len(hits(page)) > 1
    for shown in page.having("data-confidence"):
        version_id = shown.attributes["data-version"]
        why = await world.explain(of="rr-shop", query=QUERY, workflow=version_id)
        assert parts_of(shown) == {part["part"]: round(part["log_odds"], 2) for part in why["evidence"]}
        assert shown.one("summary").words == f"Evidence, score {why['score']:.2f}"


async def test_why_not_of_the_page_is_that_of_the_matcher(world: World) -> None:
    # A few: all 500 are asked of the service behind the page, in test_why_not.
    pairs = [(asked, entry) for asked in ASKED for entry in CHANCE.sample(world.entries, 3)]
    outcomes = set()
    for asked, entry in pairs:
        page = await world.page(by="author", workflow=entry.version_id, **asked)
        values = {name: fold_all([asked.get(f"label.{wire_name(name)}", "")]) for name in DIMENSIONS}
        pieces = [each.strip().partition("=") for each in asked["detected"].split(",") if each.strip()]
        detected = {key: value or "true" for key, _, value in pieces}
        constraints = Constraints(values={name: found for name, found in values.items() if found}, detected=detected)
        text = f"{entry.workflow.spec.description.what} {entry.workflow.spec.description.when_to_use}"
        may = allowed(entry.labels, constraints) and (asked["exclude_keywords"] or "zebra") not in text
        excluded = page.having("data-rule")
        assert bool(excluded) == (not may), (asked, entry.name)
        outcomes.add(may)
        if may:
            assert parts_of(page.one("section", **{"aria-labelledby": "why"}))
        elif not asked["detected"]:
            given = {name: value for name, value in asked.items() if value}
            why = await world.explain(by="author", workflow=entry.version_id, **given)
            assert excluded[0].attributes["data-rule"] == why["excluded_by"]["rule"]
            assert why["excluded_by"]["reason"] in excluded[0].words
    assert outcomes == {True, False}


async def test_detected_labels_that_are_made_up_count_as_those_of_an_incident(world: World) -> None:
    made_up = {"label.environment": "production", "label.priority": "P1", "detected": "gitOpsTool=flux"}
    missing = await world.page(query=QUERY, workflow="argo-only", **made_up)
    of_incident = await world.page(query=QUERY, workflow="argo-only", incident="rr-shop")
    reason = "the workflow requires gitOpsTool argocd, detected was flux"
    assert missing.having("data-rule")[0].attributes["data-rule"] == "detected-label"
    assert reason in missing.words
    assert of_incident.having("data-rule")[0].attributes["data-rule"] == "detected-label"


async def test_an_allowed_one_says_what_would_make_it_the_first(world: World) -> None:
    why = await world.explain(query=QUERY, workflow="formulary/random-1")
    page = await world.page(query=QUERY, workflow="formulary/random-1")
    section = page.one("section", **{"aria-labelledby": "why"})
    assert f"the first, {why['first']['workflow_id']}, has {why['first']['score']:.2f}" in section.words
    for change in why["to_be_first"]:
        assert change["change"] in section.text
    meters = section.all("meter")
    assert {float(each.attributes["max"]) for each in meters} == {float(meters[0].attributes["max"])}


async def test_a_person_needs_no_incident_and_the_search_is_recorded_under_their_name(
    world: World, owner: "asyncpg.Connection[Any]"
) -> None:
    asked = "the memory limit of nobody"
    page = await world.page(by="author", query=asked, **{"label.severity": "critical"})
    events = [each for each in await recorded(owner) if each["arguments"].get("query") == asked]
    (event,) = [each for each in events if each["action"] == "read.trial"]
    assert {each["caller"] for each in events} == {"author"}
    assert [each["version_id"] for each in event["result"]["candidates"] if each["returned"]] == [
        version_id for version_id, _ in hits(page)
    ]
    assert text_of(await world.agent({"query": "x"}, of="")).startswith("this server answers only for an incident")


async def test_looking_changes_neither_the_story_of_an_incident_nor_what_is_counted(
    world: World, owner: "asyncpg.Connection[Any]"
) -> None:
    answer = answer_of(await world.agent({"query": QUERY}))
    found = answer["workflows"][0]["version_id"]

    async def counted() -> list[Any]:
        numbers = [await owner.fetchval("select count(*) from trace_event where trace_id = 'rr-shop'")]
        for path in (f"workflows/{found}/impact", "stats", "coverage", "coverage/stale"):
            response = await world.get(f"/api/v1/{path}", by="agent")
            assert response.status_code == 200, response.text
            numbers.append(response.json())
        return numbers

    before = await counted()
    for _ in range(3):
        await world.page(query=QUERY, incident="rr-shop", workflow="raise-limit")
        await world.page(query="nobody ever asked for this", incident="rr-shop")
        await world.page(search_id=answer["search_id"], workflow="raise-limit")
        await world.explain(of="rr-shop", query=QUERY, workflow="raise-limit")
        await world.explain(search_id=answer["search_id"], workflow="raise-limit")
    assert await counted() == before
    events = [each for each in await recorded(owner) if each["action"] in ("read.trial", "read.explain")]
    assert all(each["trace_id"].startswith("tr_") for each in events)
    tries = [each for each in events if each["arguments"].get("query") == "nobody ever asked for this"]
    assert len([each for each in tries if each["action"] == "read.trial"]) == 3
    assert {(each["remediation_id"], "sealed" in each) for each in tries} == {("rr-shop", True)}


async def test_a_try_is_opened_again_by_whoever_may_read_its_incident(world: World) -> None:
    tried = await world.page(query=QUERY, incident="rr-shop")
    (link,) = [each.attributes["href"] for each in tried.all("a") if "search_id=" in each.attributes["href"]]
    search_id = link.partition("search_id=")[2]
    again = await world.page(search_id=search_id)
    assert "by sre" in again.words
    assert f"{KEY} {VALUE}" in again.words
    assert [row.attributes["data-version"] for row in again.having("data-version") if "left out" not in row.words] == [
        version_id for version_id, _ in hits(tried)
    ]
    assert (await world.get("/console/search", by="author", search_id=search_id)).status_code == 404


async def test_a_recorded_search_is_opened_by_its_id_with_what_it_found_then(world: World) -> None:
    answer = answer_of(await world.agent({"query": QUERY, "label.severity": "critical"}))
    page = await world.page(search_id=answer["search_id"])
    returned = [row for row in page.having("data-version") if "left out" not in row.words]
    assert [row.attributes["data-version"] for row in returned] == [hit["version_id"] for hit in answer["workflows"]]
    for row, hit in zip(returned, answer["workflows"], strict=True):
        assert f"{hit['confidence']:.4f}" in row.words
    assert "by agent" in page.words
    assert f"{KEY} {VALUE}" in page.words
    assert value_of(page, "query") == QUERY
    assert value_of(page, "label.severity") == "critical"
    assert value_of(page, "incident") == "rr-shop"
    why = await world.page(search_id=answer["search_id"], workflow="other-team")
    assert why.having("data-rule")[0].attributes["data-rule"] == "custom-label"
    assert VALUE in why.having("data-rule")[0].words


async def test_custom_labels_and_searches_of_an_incident_are_for_who_may_read_it(world: World) -> None:
    answer = answer_of(await world.agent({"query": QUERY}))
    seen = await world.page(query=QUERY, incident="rr-shop")
    assert f"{KEY} {VALUE}" in seen.words
    for asked in ({"search_id": answer["search_id"]}, {"query": QUERY, "incident": "rr-shop"}):
        refused = await world.get("/console/search", by="author", **asked)
        assert refused.status_code in (400, 404)
        assert not any(secret in refused.text for secret in (KEY, VALUE))
    unknown = await world.page(by="author", code=404, search_id="00000000-0000-4000-8000-000000000000")
    assert "that you may read is recorded" in unknown.one("p", role="alert").words


async def test_what_the_visitor_may_not_see_is_no_hit_and_no_workflow_to_ask_about(world: World) -> None:
    page = await world.page(by="author", query="Theirs: the memory limit", workflow="bank/theirs")
    assert "bank" not in {each.words.rpartition(" in ")[2].split()[0] for each in page.all("p") if " in " in each.words}
    assert "'bank/theirs' is not found" in page.one("p", role="alert").words
    assert len(hits(page)) > 0


async def test_the_form_keeps_its_values_whatever_comes_of_it(world: World) -> None:
    asked = {
        "query": f"memory {HOSTILE}",
        "label.severity": "critical, high",
        "detected": "gitOpsTool=flux",
        "top_k": "7",
        "exclude_keywords": "restart, drain",
        "workflow": "raise-limit",
    }
    page = await world.page(**asked)
    assert {field: value_of(page, field) for field in asked} == asked
    wrong = await world.page(code=400, **(asked | {"top_k": "700"}))
    assert "“Maximum number of results” is '700'" in wrong.one("p", role="alert").words
    assert {field: value_of(wrong, field) for field in asked} == asked | {"top_k": "700"}
    blank = await world.page(query="", top_k="", **{"label.severity": " "})
    assert "No search yet" in blank.words


@pytest.mark.parametrize("asked", [{"query": HOSTILE}, {"query": QUERY, "workflow": HOSTILE}, {"query": QUERY}])
async def test_hostile_texts_are_data(world: World, asked: dict[str, str]) -> None:
    response = await world.get("/console/search", by="sre", incident="rr-shop", **asked)
    page = page_of(response.text)
    assert HOSTILE in page.text + value_of(page, "query")
    assert all(each.attributes["src"].startswith("/console/static/") for each in page.all("script"))
    assert not page.all("img")
    assert not [name for each in page.inside for name in each.attributes if name.startswith("on") or name == "style"]


async def test_a_bad_field_is_answered_in_words_beside_the_form(world: World) -> None:
    for asked, words in (
        ({"query": "x", "colour": "red"}, "colour"),
        ({"label.severity": "critical"}, "query is missing"),
        ({"query": "x", "detected": "=flux"}, "value without a key"),
        ({"query": "x", "search_id": "y"}, "belongs to a new search"),
        ({"query": "x", "incident": "rr-none"}, "rr-none"),
    ):
        response = await world.get("/console/search", by="sre", **asked)
        assert response.status_code in (400, 403, 404), response.text
        page = page_of(response.text)
        assert words.lower() in page.one("p", role="alert").words.lower()
        assert page.one("form", action="/console/search").all("input")
