"""An agent uses its own token where people read: it learns no more there than over MCP, nor which incidents exist."""

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from formulary_catalog.domain.access import READ_CONSTRAINTS
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import EVERYWHERE, KnownCallers, Rights
from support.agent import agent, answer_of, call, found, refused
from support.databases import migrated_database
from support.filling import fill
from support.services import open_parts
from support.serving import load, serving
from support.tenants import BANK, BANK_INCIDENT, COPIED_INCIDENT, SHARED, SHOP, SHOP_INCIDENT, write_manifests

TEAM, OTHER = "vault-team", "codename"
"""What the incident demands, and what a workflow declares that it forbids."""
SEEN = {SHARED, SHOP}
CALLERS = KnownCallers(
    agent=Rights(see=SEEN, use={SHOP}, analyse={EVERYWHERE}),
    person=Rights(see=SEEN, use={SHOP}, constraints=SEEN, analyse={EVERYWHERE}),
    elsewhere=Rights(see=SEEN, use={SHOP}, constraints={BANK}),
)
EXPLAIN, WORDS = "/api/v1/explain", "OOMKilled critical"
WAIT = 0.6
SECRETS = (TEAM, OTHER, "strict-one")


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    async with migrated_database(postgres) as dsn:
        await load([write_manifests(tmp_path_factory.mktemp("tenants"))], dsn=dsn, embedder=None)
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        forbidden = manifest.workflow("forbidden", customLabels={"team": [OTHER]})
        old, new = (manifest.workflow("withdrawn", version=each) for each in ("1.0.0", "2.0.0"))
        await fill(CatalogWriter(writing), [forbidden, old, new])
        await CatalogWriter(writing).suspend(namespace=SHARED, name="withdrawn")
        await writing.close()
        async with open_parts(dsn, embedder=None, context_wait_seconds=WAIT) as opened:
            yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, authenticator=CALLERS, strict_custom_labels=frozenset({"strict-one"})) as address:
        yield address


def by(token: str, incident: Mapping[str, str] = {}) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **incident}


async def get(url: str, path: str, token: str, named: Mapping[str, str] = {}, **query: str) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.get(path, params=query, headers=by(token, named))


async def search_id(url: str) -> str:
    """A search of the agent for its incident."""
    answer = answer_of(await call(url, "search_workflow_catalog", {"query": WORDS}, headers=by("agent", SHOP_INCIDENT)))
    identifier: str = answer["search_id"]
    return identifier


@pytest.mark.parametrize("token", ["agent", "elsewhere"])
async def test_with_the_token_of_an_agent_nobody_reads_what_the_incident_demands(url: str, token: str) -> None:
    searched = await search_id(url)
    pages = [
        await get(url, EXPLAIN, token, SHOP_INCIDENT, workflow="formulary/forbidden", query=WORDS),
        await get(url, EXPLAIN, token, workflow="formulary/forbidden", search_id=searched),
        await get(url, EXPLAIN, token, SHOP_INCIDENT, workflow="shop-restart", query=WORDS),
        await get(url, f"/api/v1/searches/{searched}", token),
        await get(url, "/api/v1/incidents/rr-shop", token),
        await get(url, "/api/v1/incidents/shop/oom", token),
        await get(url, "/api/v1/incidents", token),
        await get(url, "/api/v1/traces/rr-shop", token),
        await get(url, "/api/v1/traces/rr-shop/files", token),
        await get(url, "/console/incidents/rr-shop", token),
        await get(url, "/console/search", token, search_id=searched, workflow="formulary/forbidden"),
        await get(url, "/console/search", token, incident="rr-shop", workflow="formulary/forbidden", query=WORDS),
    ]

    assert {page.status_code for page in pages} == {200}
    assert [(page.url.path, secret) for page in pages for secret in SECRETS if secret in page.text] == []
    assert pages[0].json()["excluded_by"]["reason"] == "an incident label excludes it"
    assert f"you may not {READ_CONSTRAINTS} in namespace shop" in " ".join(pages[4].json()["notes"])


async def test_people_with_the_right_read_it(url: str) -> None:
    searched = await search_id(url)
    explained = (await get(url, EXPLAIN, "person", SHOP_INCIDENT, workflow="formulary/forbidden", query=WORDS)).json()
    incident = (await get(url, "/api/v1/incidents/rr-shop", "person")).json()
    recorded = (await get(url, f"/api/v1/searches/{searched}", "person")).json()
    page = await get(url, "/console/incidents/rr-shop", "person")

    assert explained["excluded_by"]["reason"] == f"team: the incident says {TEAM}, the workflow declares {OTHER}"
    assert (incident["custom_labels"], incident["strict_keys"]) == ({"team": [TEAM]}, ["strict-one"])
    assert recorded["custom_labels"] == {"team": [TEAM]}
    assert TEAM in page.text


@pytest.mark.parametrize("incident", [{}, SHOP_INCIDENT])
@pytest.mark.parametrize("token", ["agent", "elsewhere"])
async def test_with_the_token_of_an_agent_no_suspended_workflow_is_found(
    url: str, token: str, incident: Mapping[str, str]
) -> None:
    names = ("withdrawn", "formulary/withdrawn", "withdrawn@1.0.0", "withdrawn@2.0.0")
    pages = [await get(url, EXPLAIN, token, incident, workflow=name, query=WORDS) for name in names]

    assert {page.status_code for page in pages} == {404}
    assert not [
        page
        for page in pages
        if "suspended" in page.text or "withdrawn" in str(page.json()["error"]["data"]["nearest"])
    ]


@pytest.mark.parametrize("status", ["Disabled", "Superseded"])
async def test_with_the_token_of_an_agent_no_suspended_workflow_is_listed_or_counted(url: str, status: str) -> None:
    listed = await get(url, "/api/v1/workflows", "agent", status=status)
    facets = await get(url, "/api/v1/facets", "agent")
    stats = await get(url, "/api/v1/stats", "agent")
    page = await get(url, "/console/catalog", "agent", status=status)

    assert [(each.status_code, "withdrawn" in each.text) for each in (listed, facets, stats, page)] == [
        (200, False)
    ] * 4
    assert listed.json()["total"] == 0
    assert [each["value"] for each in facets.json()["facets"]["status"]] == ["Active"]
    assert list(stats.json()["by_status"]) == ["Active"]


async def test_people_with_the_right_find_suspended_workflows(url: str) -> None:
    explained = (await get(url, EXPLAIN, "person", workflow="withdrawn", query=WORDS)).json()
    listed = (await get(url, "/api/v1/workflows", "person", status="Disabled")).json()
    facets = (await get(url, "/api/v1/facets", "person")).json()["facets"]["status"]
    stats = (await get(url, "/api/v1/stats", "person")).json()["by_status"]

    assert explained["excluded_by"]["rule"] == "suspended"
    assert [line["workflow_id"] for line in listed["workflows"]] == ["withdrawn"]
    assert {each["value"]: each["count"] for each in facets}["Disabled"] == stats["Disabled"] == 1


async def both(url: str, tool: str, arguments: dict[str, Any], *headers: Mapping[str, str]) -> list[str]:
    return [refused(await call(url, tool, arguments, headers=by("agent", each))) for each in headers]


UNKNOWN = {"X-Remediation-Id": "rr-nope"}


@pytest.mark.parametrize(
    ("theirs", "beside"),
    [
        (BANK_INCIDENT, {}),
        pytest.param(COPIED_INCIDENT, {}, marks=pytest.mark.long),
        pytest.param(BANK_INCIDENT, {"X-AIAnalysis": "shop/oom"}, marks=pytest.mark.long),
    ],
)
async def test_an_id_of_another_team_is_answered_as_one_that_nobody_has(
    url: str, theirs: Mapping[str, str], beside: Mapping[str, str]
) -> None:
    own = theirs["X-Remediation-Id"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_workflow_catalog", {"query": "OOMKilled"}),
        ("get_workflow_details", {"workflow_id": "shop-restart"}),
        ("list_workflows", {}),
        ("invoke_workflow", {"workflow_id": "shop-restart"}),
    ]
    for tool, arguments in calls:
        told, nobody = await both(url, tool, arguments, {**theirs, **beside}, {**UNKNOWN, **beside})
        assert told.replace(own, "rr-nope") == nobody
        assert BANK not in told.replace(own, "")
    for path in ("/api/v1/workflows", "/api/v1/workflows/shop-restart"):
        answers = [await get(url, path, "agent", {**each, **beside}) for each in (theirs, UNKNOWN)]
        assert [each.status_code for each in answers] == [400, 400]
        assert answers[0].text.replace(own, "rr-nope") == answers[1].text
    async with agent(url, headers=by("agent", {**theirs, **beside})) as client:
        with pytest.raises(MCPError) as raised:
            await client.read_resource("workflow://shop/shop-restart")
    assert "is not known here" in raised.value.error.message
    assert BANK not in raised.value.error.message.replace(own, "")


async def test_an_id_of_another_team_is_answered_no_sooner_than_one_that_nobody_has(url: str) -> None:
    for incident in (BANK_INCIDENT, UNKNOWN):
        began = time.monotonic()
        await get(url, "/api/v1/workflows", "agent", incident)
        assert time.monotonic() - began >= WAIT


async def test_ids_in_the_ways_of_people_say_no_more(url: str) -> None:
    for path in ("/api/v1/incidents/{}", "/api/v1/traces/{}", "/api/v1/traces/{}/files", "/console/incidents/{}"):
        theirs, nobodys = [await get(url, path.format(each), "agent") for each in ("rr-bank", "rr-nope")]
        assert (theirs.status_code, nobodys.status_code) == (404, 404)
        assert theirs.text.replace("rr-bank", "rr-nope") == nobodys.text


async def test_the_incident_of_the_caller_itself_is_used_as_before(url: str) -> None:
    result = await call(url, "search_workflow_catalog", {"query": WORDS}, headers=by("agent", SHOP_INCIDENT))

    assert "shop-restart" in found(result)
