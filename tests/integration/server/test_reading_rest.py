"""What people read over REST and on the command line, each under their own rights (DESIGN section 14)."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import playing
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import Finished, formulary
from support.databases import migrated_database
from support.filling import fill
from support.rest_agent import rest_agent
from support.runnable import runnable
from support.runs import KEY as INPUT_KEY
from support.services import open_service
from support.serving import serving

KEY, VALUE = "k3y-team", "v4lue-payments"
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
SHOP = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-shop",
    environment="staging",
    signal_name=HOSTILE,
    target_namespace="shop-apps",
    target_kind="Deployment",
    target_name="web",
    custom_labels={KEY: (VALUE,)},
)
BANK = RequestContext(namespace="bank", name="oom", remediation_id="rr-bank", environment="production")
HERE = {"formulary", "shop", "shop-apps"}
CALLERS = KnownCallers(
    agent=Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
    sre=Rights(see=HERE, use={"shop"}, read={"shop-apps"}, approve={"shop-apps"}, contracts={"shop-apps"}),
    banker=Rights(see={"formulary", "bank"}, use={"bank"}, read={"bank"}, contracts={"bank"}),
    auditor=Rights(see={EVERYWHERE}, use={EVERYWHERE}, read={EVERYWHERE}, contracts={EVERYWHERE}),
    nobody=Rights(),
)


@dataclass(frozen=True)
class World:
    """A server, and what happened there: a search for each incident, and a run that waits in `shop-apps`."""

    url: str
    searches: dict[str, str]
    waiting: str
    client: httpx2.AsyncClient

    async def get(self, path: str, *, by: str, **parameters: Any) -> httpx2.Response:
        headers = parameters.pop("headers", {}) | {"Authorization": f"Bearer {by}"}
        return await self.client.get(f"/api/v1{path}", params=parameters, headers=headers)

    async def read(self, path: str, *, by: str, **parameters: Any) -> Any:
        response = await self.get(path, by=by, **parameters)
        assert response.status_code == 200, response.text
        return response.json()

    async def command(self, *arguments: str, by: str) -> Finished:
        return await formulary(*arguments, FORMULARY_URL=self.url, FORMULARY_TOKEN=by)


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with migrated_database(postgres) as database:
        yield database


@pytest.fixture(scope="module")
async def catalog(dsn: str) -> AsyncIterator[CatalogService]:
    writing = await Database.open(dsn, role=Role.WRITER, size=2, deadline=30)
    await fill(
        CatalogWriter(writing),
        [
            runnable("scale-out", title=f"Scale out {HOSTILE[:25]}"),
            runnable("risky", riskLevel="high"),
            runnable("only-production", labels={**runnable("x")["spec"]["labels"], "environment": ["production"]}),
            runnable("other-team", customLabels={KEY: "0ther"}),
        ],
    )
    contexts = ContextWriter(writing)
    for incident in (SHOP, BANK):
        await contexts.save(incident)
    spec = {"rules": [{"id": "ask", "effect": "REQUIRE_EVIDENCE", "rationale": "Say why."}]}
    for namespace in ("shop-apps", "bank"):
        await ContractWriter(writing, shared_namespace="formulary").save(
            spec, namespace=namespace, name="c", uid=namespace
        )
    await writing.close()
    service = await open_service(dsn)
    yield service
    await service.close()


@pytest.fixture(scope="module")
async def world(dsn: str, catalog: CatalogService, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    keys = tmp_path_factory.mktemp("keys") / "input.key"
    keys.write_text(INPUT_KEY)
    async with (
        serving(catalog, authenticator=CALLERS, input_key_file=keys) as url,
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
        rest_agent(url) as agent,
        playing.operator(dsn),
    ):
        searches = {
            incident: await agent.search(incident, f"OOMKilled risky {HOSTILE[:25]}")
            for incident in ("rr-shop", "rr-bank")
        }
        result = await agent.invoke("rr-shop", "risky", {"REPLICAS": 3}, search_id=searches["rr-shop"])
        assert result["state"] == "awaiting_approval", result
        yield World(url, searches, result["invocation_id"], client)


async def test_traces_are_listed_for_who_may_use_the_incidents_of_their_namespace(world: World) -> None:
    async def listed(by: str, **filters: Any) -> list[str]:
        return [trace["trace_id"] for trace in (await world.read("/traces", by=by, **filters))["traces"]]

    assert await listed("sre") == ["rr-shop"]
    assert await listed("banker") == ["rr-bank"]
    assert set(await listed("auditor")) >= {"rr-shop", "rr-bank"}
    assert await listed("nobody") == []
    assert await listed("auditor", namespace="bank") == ["rr-bank"]
    assert await listed("sre", namespace="bank") == []
    assert await listed("auditor", remediation_id="rr-shop") == ["rr-shop"]
    assert await listed("sre", outcome="awaiting_approval") == ["rr-shop"]
    assert await listed("sre", outcome="completed") == []
    assert await listed("banker", outcome="none") == ["rr-bank"]
    assert await listed("sre", since="1h") == ["rr-shop"]
    assert await listed("sre", since="2099-01-01") == []


async def test_pages_of_traces_follow_each_other(world: World) -> None:
    first = await world.read("/traces", by="auditor", limit=1)
    second = await world.read("/traces", by="auditor", limit=1, cursor=first["next_cursor"])
    assert {page["traces"][0]["trace_id"] for page in (first, second)} == {"rr-shop", "rr-bank"}
    refused = await world.get("/traces", by="auditor", cursor=first["next_cursor"], namespace="bank")
    assert (refused.status_code, "another question" in refused.text) == (400, True)


async def test_a_trace_is_told_as_the_command_tells_it_and_verified(world: World, dsn: str) -> None:
    trace = await world.read("/traces/rr-shop", by="sre")
    assert trace["verification"]["passed"]
    assert trace["verification"]["event_count"] == len(trace["events"]) == len(trace["story"]["passages"])
    assert [event["seq"] for event in trace["events"]] == list(range(1, len(trace["events"]) + 1))
    own = await formulary("trace", "show", "rr-shop", "--database-url", dsn)
    served = await world.command("trace", "show", "rr-shop", by="sre")
    assert (own.code, served.code) == (0, 0)
    assert served.out == own.out
    assert "\x1b" not in served.out
    listed = await world.command("trace", "list", "--json", by="sre")
    assert [each["trace_id"] for each in json.loads(listed.out)["traces"]] == ["rr-shop"]


@pytest.mark.parametrize("path", ["/traces/{}", "/incidents/{}"])
async def test_what_is_not_readable_is_answered_as_what_does_not_exist(world: World, path: str) -> None:
    foreign = await world.get(path.format("rr-bank"), by="sre")
    unknown = await world.get(path.format("rr-none"), by="sre")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace("rr-bank", "ID") == unknown.text.replace("rr-none", "ID")
    assert foreign.headers.keys() == unknown.headers.keys()


async def test_incidents_show_what_they_demand_to_who_may_use_them(world: World) -> None:
    incidents = (await world.read("/incidents", by="sre"))["incidents"]
    assert [each["incident"] for each in incidents] == ["shop/oom"]
    assert VALUE not in json.dumps(incidents)
    assert len((await world.read("/incidents", by="auditor"))["incidents"]) == 2
    assert (await world.read("/incidents", by="nobody"))["incidents"] == []
    for name in ("rr-shop", "shop/oom"):
        one = await world.read(f"/incidents/{name}", by="sre")
        assert (one["custom_labels"], one["environment"]) == ({KEY: [VALUE]}, "staging")
        assert (one["target"], one["trace_id"]) == ("shop-apps/Deployment/web", "rr-shop")


async def test_runs_and_what_waits_are_read_with_the_right_to_runs(world: World) -> None:
    for by, found in {"sre": 1, "auditor": 1, "agent": 1, "banker": 0, "nobody": 0}.items():
        runs = (await world.read("/invocations", by=by, phase="AwaitingApproval"))["invocations"]
        assert [run["invocation_id"] for run in runs] == [world.waiting] * found
        waiting = (await world.read("/approvals", by=by))["approvals"]
        assert [run["invocation_id"] for run in waiting] == [world.waiting] * found
    assert (await world.read("/invocations", by="sre", phase="running"))["invocations"] == []
    (run,) = (await world.read("/approvals", by="sre"))["approvals"]
    assert (run["risk_level"], run["target"], run["may_approve"]) == ("high", "shop-apps/Deployment/web", True)
    assert run["reason"]
    assert run["waits_until"]
    (seen,) = (await world.read("/approvals", by="auditor"))["approvals"]
    assert not seen["may_approve"]


async def test_contracts_are_read_with_the_right_to_them(world: World) -> None:
    for by, found in {"sre": ["shop-apps/c"], "banker": ["bank/c"], "agent": [], "nobody": []}.items():
        contracts = (await world.read("/contracts", by=by))["contracts"]
        assert [each["contract"] for each in contracts] == found
    (contract,) = (await world.read("/contracts", by="auditor", namespace="bank"))["contracts"]
    assert contract["rules"] == [{"id": "ask", "effect": "REQUIRE_EVIDENCE", "rationale": "Say why."}]


@pytest.mark.parametrize(
    "path", ["/traces/rr-bank", "/incidents", "/contracts", "/invocations", "/outcomes", "/workflows", "/facets"]
)
async def test_an_answer_that_the_caller_has_already_is_not_sent_again(world: World, path: str) -> None:
    first = await world.get(path, by="auditor")
    again = await world.get(path, by="auditor", headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = await world.get(path, by="auditor", headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    assert "no-cache" in first.headers["cache-control"]


async def test_a_search_is_explained_new_and_recorded(world: World) -> None:
    incident = {"X-Remediation-Id": "rr-shop"}
    why = await world.read("/explain", by="sre", workflow="scale-out", query="scale out", headers=incident)
    assert (why["allowed"], why["returned"]) == (True, True)
    assert sum(part["log_odds"] for part in why["evidence"]) == pytest.approx(why["score"], abs=1e-4)
    not_this = await world.read("/explain", by="sre", workflow="only-production", search_id=world.searches["rr-shop"])
    assert not_this["excluded_by"] == {
        "rule": "environment",
        "reason": "the incident says staging, the workflow declares production",
    }
    labelled = {"label.environment": ["staging", "test"], "label.priority": "P0"}
    asked = await world.read("/explain", by="sre", workflow="only-production", query="OOMKilled", **labelled)
    assert asked["excluded_by"]["reason"] == "the call asks for staging or test, the workflow declares production"
    custom = await world.read("/explain", by="sre", workflow="other-team", search_id=world.searches["rr-shop"])
    assert VALUE in custom["excluded_by"]["reason"]


async def test_a_recorded_search_is_read_as_the_trail_holds_it(world: World) -> None:
    search_id = world.searches["rr-shop"]
    read = await world.read(f"/searches/{search_id}", by="sre")
    assert (read["search_id"], read["trace_id"], read["caller"]) == (search_id, "rr-shop", "agent")
    assert read["query"].startswith("OOMKilled risky")
    assert read["demanded"]["environment"] == "staging"
    assert read["custom_labels"] == {KEY: [VALUE]}
    assert [each["rank"] for each in read["candidates"]] == list(range(1, len(read["candidates"]) + 1))
    assert read["candidates"][0]["workflow"] == "formulary/risky@1.0.0"
    assert read["total_results"] >= len(read["candidates"])
    foreign = await world.get(f"/searches/{search_id}", by="banker")
    unknown = await world.get("/searches/no-such", by="banker")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace(search_id, "ID") == unknown.text.replace("no-such", "ID")


async def test_a_recorded_search_is_shown_on_the_command_line(world: World, dsn: str) -> None:
    search_id = world.searches["rr-shop"]
    served = await world.command("explain", "--search-id", search_id, by="sre")
    stored = await formulary("explain", "--search-id", search_id, FORMULARY_DATABASE_URL=dsn)
    assert (served.code, served.out) == (0, stored.out)
    assert f"Search {search_id}" in served.out
    assert "formulary/risky@1.0.0" in served.out
    assert "\x1b" not in served.out
    told = await world.command("explain", "--search-id", search_id, "--json", by="sre")
    assert json.loads(told.out) == await world.read(f"/searches/{search_id}", by="sre")
    neither = await world.command("explain", by="sre")
    assert (neither.code, "--search-id" in neither.err) == (2, True)
    refused = await world.command("explain", "--search-id", search_id, by="banker")
    assert (refused.code, "no search" in refused.err) == (1, True)


async def test_who_may_not_use_an_incident_gets_no_explanation_of_its_searches(world: World) -> None:
    foreign = await world.get("/explain", by="banker", workflow="other-team", search_id=world.searches["rr-shop"])
    unknown = await world.get("/explain", by="banker", workflow="other-team", search_id="no-such")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace(world.searches["rr-shop"], "ID") == unknown.text.replace("no-such", "ID")
    headers = {"X-Remediation-Id": "rr-shop"}
    refused = await world.get("/explain", by="banker", workflow="other-team", query="OOMKilled", headers=headers)
    assert refused.status_code == 403
    for response in (foreign, refused):
        assert VALUE not in response.text
        assert KEY not in response.text


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("/explain", {"workflow": "a"}, "give the query of a new search, or search_id"),
        ("/explain", {"query": "a"}, "workflow is missing"),
        ("/explain", {"workflow": "a", "search_id": "x", "query": "y"}, "belongs to a new search"),
        ("/explain", {"workflow": "a b", "query": "y"}, "is not a workflow name"),
        ("/explain", {"workflow": "a", "query": "y", "label.team": "z"}, "unknown argument"),
        ("/outcomes", {"days": "0"}, "days"),
        ("/outcomes", {"workflow_id": "a b"}, "is not a workflow name"),
        ("/traces", {"since": "yesterday"}, "is no time"),
        ("/traces", {"outcome": "splendid"}, "is not known; give one of"),
        ("/traces", {"limit": 0}, "limit"),
        ("/traces", {"cursor": "x"}, "no cursor of a listing"),
        ("/incidents", {"cursor": "W10"}, "no cursor of a listing"),
        ("/invocations", {"phase": "Sleeping"}, "is not known; give one of"),
        ("/contracts", {"colour": "red"}, "unknown argument"),
    ],
)
async def test_what_is_asked_wrongly_is_refused_with_the_next_step(
    world: World, path: str, parameters: dict[str, Any], said: str
) -> None:
    response = await world.get(path, by="auditor", **parameters)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32002)
    assert said in response.json()["error"]["message"]


async def test_texts_of_others_are_inert_in_every_answer(world: World) -> None:
    for path in ("/traces", "/traces/rr-shop", "/incidents", "/incidents/rr-shop", "/invocations", "/approvals"):
        response = await world.get(path, by="auditor")
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "\x1b" not in response.text


async def test_a_person_reads_explains_and_decides_on_the_command_line_without_a_database(
    world: World, dsn: str
) -> None:
    explained = await world.command("explain", "only-production", "OOMKilled", "--label", "environment=test", by="sre")
    assert (explained.code, "environment: the call asks for test" in explained.out) == (1, True)
    by_itself = await formulary(
        "explain", "only-production", "x", "--label", "environment=test", FORMULARY_DATABASE_URL=dsn
    )
    assert (by_itself.code, "environment: the call asks for test" in by_itself.out) == (1, True)
    recorded = await world.command("explain", "scale-out", "--search-id", world.searches["rr-shop"], by="sre")
    assert (recorded.code, "What speaks for it" in recorded.out) == (0, True)
    waiting = await world.command("approvals", by="sre")
    assert waiting.code == 0
    assert world.waiting in waiting.out
    assert "time left" in waiting.out
    assert (await world.command("approvals", by="banker")).code == 1
    refused = await world.command("reject", world.waiting, "--reason", "no", by="auditor")
    assert (refused.code, "may not create invocationapprovals" in refused.err) == (2, True)
    rejected = await world.command("reject", world.waiting, "--reason", "not today", by="sre")
    assert rejected.code == 0
    assert "rejection is recorded" in rejected.out
