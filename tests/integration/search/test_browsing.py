"""Where an incident is required, people still browse without one, as far as their rights go (DESIGN section 6)."""

import json
from collections.abc import AsyncIterator, Mapping

import httpx2
import pytest
from mcp_types import TextResourceContents

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import EVERYWHERE, KnownCallers, Rights
from support.agent import ERAS, agent, call, protocol_error, refused
from support.commands import formulary
from support.manifest import text, workflow
from support.serving import catalog, serving
from support.tenants import BANK, SECRET, SHARED, SHOP, SHOP_INCIDENT, write_manifests

CALLERS = KnownCallers(
    person=Rights(see={SHARED, SHOP}, use={SHOP}, invoke={EVERYWHERE}),
    admin=Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
    outsider=Rights(see={BANK}, use={SHOP}),
)
LIST = "/api/v1/workflows"
SHARED_ONE = f"{SHARED}-restart"
NEEDS_AN_INCIDENT = "answers only for an incident"
UNKNOWN = {"X-Remediation-Id": "rr-nobody"}


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    """Workflows of four namespaces, and one of the shared namespace for another team than the incident's."""
    manifests = write_manifests(tmp_path_factory.mktemp("tenants"))
    (manifests.parent / "others.yaml").write_text(text(workflow("for-others", customLabels={"team": ["others"]})))
    async with catalog(
        [manifests.parent], postgres=postgres, embedder=None, policy=ContextPolicy.REQUIRED, context_wait_seconds=0
    ) as loaded:
        yield loaded


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, authenticator=CALLERS) as at:
        yield at


def by(name: str, incident: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of a caller."""
    return {"Authorization": f"Bearer {name}", **(incident or {})}


async def get(url: str, path: str, headers: Mapping[str, str]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.get(path, headers=headers)


def names(listed: httpx2.Response) -> list[str]:
    assert listed.status_code == 200, listed.text
    return [line["workflow_id"] for line in listed.json()["workflows"]]


async def test_a_listing_without_an_incident_holds_what_the_caller_may_see(url: str) -> None:
    assert names(await get(url, LIST, by("person"))) == ["for-others", SHARED_ONE, "shop-restart"]
    assert names(await get(url, LIST, by("admin"))) == [
        "bank-restart",
        "for-others",
        SHARED_ONE,
        "shop-apps-restart",
        "shop-restart",
    ]


async def test_a_workflow_is_read_without_an_incident_where_the_caller_may_see_it(url: str) -> None:
    shown = await get(url, f"{LIST}/for-others", by("person"))

    assert shown.json()["workflow_id"] == "for-others"
    for hidden in ("bank-restart", "bank/bank-restart", "no-such"):
        assert (await get(url, f"{LIST}/{hidden}", by("person"))).status_code == 404
    assert (await get(url, f"{LIST}/bank/bank-restart", by("admin"))).status_code == 200


async def test_a_caller_browses_nothing_where_it_has_no_right(url: str) -> None:
    assert names(await get(url, LIST, by("outsider"))) == ["bank-restart"]
    for path in (f"{LIST}/{SHARED_ONE}", f"{LIST}/shop/shop-restart"):
        assert (await get(url, path, by("outsider"))).status_code == 404


async def test_an_incident_that_is_named_constrains_browsing_too(url: str) -> None:
    assert names(await get(url, LIST, by("person", SHOP_INCIDENT))) == [SHARED_ONE, "shop-restart"]
    assert (await get(url, f"{LIST}/for-others", by("person", SHOP_INCIDENT))).status_code == 404


@pytest.mark.parametrize("path", [LIST, f"{LIST}/{SHARED_ONE}"])
async def test_an_unknown_incident_fails_closed_for_browsing_too(url: str, path: str) -> None:
    answered = await get(url, path, by("person", UNKNOWN))

    assert answered.status_code == 400
    assert "'rr-nobody' is not known here" in answered.json()["error"]["message"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_resource_is_read_without_an_incident_and_obeys_one_that_is_named(url: str, mode: str) -> None:
    uri = f"workflow://{SHARED}/for-others"

    async with agent(url, mode=mode, headers=by("person")) as client:
        (contents,) = (await client.read_resource(uri)).contents

    assert isinstance(contents, TextResourceContents)
    assert json.loads(contents.text)["workflow_id"] == "for-others"
    for incident, saying in ((SHOP_INCIDENT, "not found"), (UNKNOWN, "not known here")):
        error = await protocol_error(
            url, lambda client: client.read_resource(uri), mode=mode, headers=by("person", incident)
        )
        assert saying in error.message
        assert SECRET not in error.message


@pytest.mark.parametrize(
    "uri",
    [
        "workflow://shop/shop-restart",
        "workflow://shop/shop-restart#steps",
        "skill://workflows/shop/shop-restart/SKILL.md",
    ],
)
async def test_a_resource_of_another_namespace_is_not_read_without_an_incident_whatever_may_be_browsed(
    url: str, uri: str
) -> None:
    assert (await get(url, f"{LIST}/shop/shop-restart", by("person"))).status_code == 200

    error = await protocol_error(url, lambda client: client.read_resource(uri), headers=by("person"))

    assert "not found" in error.message
    async with agent(url, headers=by("person", SHOP_INCIDENT)) as client:
        assert (await client.read_resource(uri)).contents


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_workflow_catalog", {"query": "OOMKilled"}),
        ("get_workflow_details", {"workflow_id": SHARED_ONE}),
        ("record_workflow_selection", {"workflow_id": SHARED_ONE, "reasoning": "It fits."}),
        ("invoke_workflow", {"workflow_id": SHARED_ONE, "dry_run": True}),
    ],
)
async def test_the_tools_of_agents_need_an_incident_whatever_the_rights(
    url: str, mode: str, tool: str, arguments: dict[str, object]
) -> None:
    assert NEEDS_AN_INCIDENT in refused(await call(url, tool, arguments, mode=mode, headers=by("admin")))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{LIST}/search", {"query": "OOMKilled"}),
        ("/api/v1/selections", {"workflow_id": SHARED_ONE, "reasoning": "It fits."}),
        (
            "/api/v1/invoke",
            {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": {"workflow_id": SHARED_ONE}},
        ),
    ],
)
async def test_rest_searches_selections_and_runs_need_an_incident(url: str, path: str, body: dict[str, object]) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answered = await http.post(path, json=body, headers=by("admin"))

    assert answered.status_code == 400
    assert NEEDS_AN_INCIDENT in answered.json()["error"]["message"]


async def test_list_and_show_browse_a_server_that_requires_incidents_and_search_does_not(url: str) -> None:
    asked = {"FORMULARY_TOKEN": "person"}

    listed = await formulary("list", "--url", url, **asked)
    shown = await formulary("show", "for-others", "--url", url, "--json", **asked)
    searched = await formulary("search", "OOMKilled", "--url", url, **asked)

    assert (listed.code, "for-others" in listed.out) == (0, True)
    assert (shown.code, json.loads(shown.out)["workflow_id"]) == (0, "for-others")
    assert searched.code != 0
    assert NEEDS_AN_INCIDENT in searched.err


async def test_list_and_show_browse_a_database_where_incidents_are_required(database: str) -> None:
    listed = await formulary("list", "--database-url", database, FORMULARY_REQUEST_CONTEXT="required")
    shown = await formulary("show", "none", "--database-url", database, FORMULARY_REQUEST_CONTEXT="required")

    assert NEEDS_AN_INCIDENT not in listed.err + shown.err
    assert "there is no workflow" in shown.err
