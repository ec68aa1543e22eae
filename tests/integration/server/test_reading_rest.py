"""What people read over REST and on the command line, each under their own rights (DESIGN section 14)."""

import json
import re
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME
from support.agent import answer_of, call
from support.commands import formulary
from support.pages import page_of
from support.readable import KEY, VALUE, World, served


@pytest.fixture(scope="module")
async def world(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with served(dsn, directory=tmp_path_factory.mktemp("keys")) as world:
        yield world


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
    reported = await formulary("trace", "show", "rr-shop", "--json", "--database-url", dsn)
    served = await world.command("trace", "show", "rr-shop", "--json", by="sre")
    assert json.loads(served.out) == json.loads(reported.out)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([], {"rr-shop", "rr-bank"}),
        (["--namespace", "bank"], {"rr-bank"}),
        (["--remediation-id", "rr-shop"], {"rr-shop"}),
        (["--outcome", "awaiting_approval"], {"rr-shop"}),
        (["--outcome", "NONE", "--of", "incidents"], {"rr-bank"}),
        (["--outcome", "completed"], set()),
        (["--since", "2099-01-01"], set()),
    ],
)
async def test_a_server_and_a_database_list_the_same_traces_for_the_same_filters(
    world: World, dsn: str, filters: list[str], found: set[str]
) -> None:
    own = await formulary("trace", "list", *filters, "--json", "--database-url", dsn)
    served = await world.command("trace", "list", *filters, "--json", by="auditor")
    assert own.code == served.code == (0 if found else 1)
    listed = {each["trace_id"]: each for each in json.loads(served.out)["traces"]}
    owned = {each["trace_id"]: each for each in json.loads(own.out)["traces"]}
    assert set(listed) == found
    assert {trace_id: owned[trace_id] for trace_id in found} == listed
    # The owner also sees what people read.
    assert {each["outcome"] for trace_id, each in owned.items() if trace_id not in found} <= {"none"}
    assert filters == [] or set(owned) == found


async def test_a_misspelt_incident_is_not_answered_as_one_without_a_run(world: World, dsn: str) -> None:
    served = await world.command("trace", "list", "--remediation-id", "rr-shpo", by="sre")
    own = await formulary("trace", "list", "--remediation-id", "rr-shpo", "--database-url", dsn)
    assert (served.code, served.out) == (
        1,
        "Nothing that you may read is known of incident 'rr-shpo'; check the id.\n",
    )
    assert (own.code, own.out) == (1, "Nothing is known of incident 'rr-shpo'; check the id.\n")


async def test_a_filter_that_is_misspelt_is_wrong_usage(world: World, dsn: str) -> None:
    own = await formulary("trace", "list", "--outcome", "complete", "--database-url", dsn)
    served = await world.command("trace", "list", "--outcome", "complete", by="sre")
    assert own.err == served.err
    assert served.code == 2
    assert served.err.startswith("formulary: --outcome ")
    assert "completed" in served.err


@pytest.mark.parametrize("path", ["/traces/{}", "/incidents/{}"])
async def test_what_is_not_readable_is_answered_as_what_does_not_exist(world: World, path: str) -> None:
    foreign = await world.get(path.format("rr-bank"), by="sre")
    unknown = await world.get(path.format("rr-none"), by="sre")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace("rr-bank", "ID") == unknown.text.replace("rr-none", "ID")
    assert foreign.headers.keys() == unknown.headers.keys()


async def test_incidents_show_what_they_demand_to_who_may_read_constraints(world: World) -> None:
    incidents = (await world.read("/incidents", by="sre"))["incidents"]
    assert [each["incident"] for each in incidents] == ["shop/oom"]
    assert VALUE not in json.dumps(incidents)
    assert len((await world.read("/incidents", by="auditor"))["incidents"]) == 2
    assert (await world.read("/incidents", by="nobody"))["incidents"] == []
    for name in ("rr-shop", "shop/oom"):
        one = await world.read(f"/incidents/{name}", by="sre")
        assert (one["custom_labels"], one["environment"]) == ({KEY: [VALUE]}, "staging")
        assert (one["target"], one["trace_id"]) == ("shop-apps/Deployment/web", "rr-shop")


@pytest.mark.parametrize(
    ("path", "entries", "right", "page", "command"),
    [
        ("/incidents", "incidents", "get aianalyses.kubernaut.ai", "", []),
        ("/traces", "traces", "get aianalyses.kubernaut.ai", "/incidents", ["trace", "list"]),
        ("/invocations", "invocations", "get workflowinvocations.formulary.dev", "", []),
        ("/approvals", "approvals", "get workflowinvocations.formulary.dev", "/waiting", ["approvals"]),
        ("/contracts", "contracts", "get governancecontracts.formulary.dev", "/rules", ["governance", "contracts"]),
        ("/halts", "halts", "get workflowinvocations.formulary.dev", "/rules/halts", []),
    ],
)
async def test_an_empty_list_says_that_the_reader_may_not_see_what_it_would_hold_wherever_it_is_read(
    world: World, path: str, entries: str, right: str, page: str, command: list[str]
) -> None:
    said = (
        f"ou may not {right} in any namespace that Formulary knows of, so what others may see there is left out; ask "
        "an administrator of the namespace for a RoleBinding that allows it"
    )
    answer = await world.read(path, by="nobody")
    assert (answer[entries], answer["notes"]) == ([], [f"y{said}"])
    assert "may not" not in " ".join((await world.read(path, by="auditor"))["notes"])
    named = await world.read(path, by="sre", namespace="bank")
    assert named["notes"] == [f"y{said}".replace("any namespace that Formulary knows of", "namespace bank")]
    if page:
        shown = await world.client.get(f"/console{page}", headers={"Authorization": "Bearer nobody"})
        assert f"Y{said}." in page_of(shown.text).words
    if command:
        listed = await world.command(*command, by="nobody")
        assert f"note y{said}" in " ".join(listed.out.split())


async def test_a_model_learns_that_runs_may_wait_which_its_token_does_not_show(world: World) -> None:
    found = await call(world.url, "list_pending_approvals", {}, headers={"Authorization": "Bearer blind"})
    assert answer_of(found)["notes"] == [
        "you may not get workflowinvocations.formulary.dev in namespace formulary, so what others may see there is "
        "left out; ask an administrator of the namespace for a RoleBinding that allows it"
    ]


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


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["approvals"], "/waiting/{waiting}"),
        (["explain", "scale-out", "OOMKilled", "--label", "environment=staging"], "/catalog/formulary/scale-out"),
        (["explain", "--search-id", "{search}"], "/search?search_id={search}"),
        (["coverage"], "/coverage"),
    ],
)
async def test_commands_say_where_the_console_shows_the_same(world: World, command: list[str], path: str) -> None:
    named = {"waiting": world.waiting, "search": world.searches["rr-shop"]}
    asked = [part.format(**named) for part in command]
    at = {"FORMULARY_CONSOLE_URL": "https://formulary.example"}
    said = await world.command(*asked, by="sre", **at)
    assert f"console    https://formulary.example/console{path.format(**named)}\n" in re.sub(" {2,}", "    ", said.out)
    assert "/console/" not in (await world.command(*asked, "--json", by="sre", **at)).out
    assert "/console/" not in (await world.command(*asked, by="sre")).out


async def test_contracts_are_read_with_the_right_to_them(world: World) -> None:
    for by, found in {"sre": ["shop-apps/c"], "banker": ["bank/c"], "agent": [], "nobody": []}.items():
        contracts = (await world.read("/contracts", by=by))["contracts"]
        assert [each["contract"] for each in contracts] == found
        listed = await world.command("governance", "contracts", "--json", by=by)
        assert json.loads(listed.out)["contracts"] == contracts
    table = await world.command("governance", "contracts", by="sre")
    assert re.search(r"shop-apps/c +ask +REQUIRE_EVIDENCE +Say why.", table.out)
    assert "no contract is in force" in (await world.command("governance", "contracts", by="agent")).out
    (contract,) = (await world.read("/contracts", by="auditor", namespace="bank"))["contracts"]
    assert contract["rules"] == [{"id": "ask", "effect": "REQUIRE_EVIDENCE", "rationale": "Say why."}]


async def test_contracts_are_read_in_pages_by_namespace_and_name(world: World) -> None:
    first = await world.read("/contracts", by="auditor", limit=1)
    second = await world.read("/contracts", by="auditor", limit=1, cursor=first["next_cursor"])
    assert [each["contract"] for page in (first, second) for each in page["contracts"]] == ["bank/c", "shop-apps/c"]
    assert (first["total"], second["total"], second["next_cursor"]) == (2, 2, "")
    whole = await world.read("/contracts", by="auditor")
    assert (whole["contracts"], whole["next_cursor"]) == (first["contracts"] + second["contracts"], "")
    assert (await world.read("/contracts", by="banker", limit=1))["next_cursor"] == ""
    other = await world.get("/contracts", by="auditor", namespace="bank", cursor=first["next_cursor"])
    assert (other.status_code, "belongs to another question" in other.text) == (400, True)


@pytest.mark.parametrize(
    "path",
    [
        "/traces/rr-bank",
        "/incidents",
        "/contracts",
        "/invocations",
        "/approvals",
        "/halts",
        "/outcomes",
        "/workflows",
        "/facets",
        "/refused",
        "/coverage",
        "/coverage/stale",
        "/coverage/duplicates",
        "/explain?workflow=scale-out&query=scale%20out",
    ],
)
async def test_an_answer_that_the_caller_has_already_is_not_sent_again(world: World, path: str) -> None:
    first = await world.get(path, by="auditor")
    again = await world.get(path, by="auditor", headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = await world.get(path, by="auditor", headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    assert "no-cache" in first.headers["cache-control"]


@pytest.mark.parametrize("path", ["/contracts", "/workflows", "/workflows/scale-out", "/openapi.json"])
async def test_a_head_tells_what_a_get_would_without_the_body(world: World, path: str) -> None:
    whole = await world.get(path, by="auditor")
    headers = {"Authorization": "Bearer auditor"}
    head = await world.client.head(f"/api/v1{path}", headers=headers)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", whole.headers["etag"])
    assert head.headers["content-length"] == str(len(whole.content))
    same = await world.client.head(f"/api/v1{path}", headers=headers | {"If-None-Match": whole.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    missing = await world.client.head("/api/v1/workflows/none", headers=headers)
    assert (missing.status_code, missing.content) == (404, b"")


async def test_a_path_that_only_takes_posts_takes_no_head(world: World) -> None:
    posted = await world.client.head("/api/v1/selections", headers={"Authorization": "Bearer auditor"})
    assert (posted.status_code, posted.headers["allow"]) == (405, "POST")
    put = await world.client.put("/api/v1/contracts", json={}, headers={"Authorization": "Bearer auditor"})
    assert (put.status_code, put.headers["allow"]) == (405, "GET, HEAD")


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
    shown = await world.command("explain", "--search-id", search_id, "--json", by="sre")
    assert json.loads(shown.out) == await world.read(f"/searches/{search_id}", by="sre")
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
    assert refused.status_code == 400
    for response in (foreign, refused):
        assert VALUE not in response.text
        assert KEY not in response.text


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("/explain", {"workflow": "a"}, "give the query of a new search, or search_id"),
        ("/explain", {"query": "a"}, "workflow is missing"),
        ("/explain", {"workflow": "a", "search_id": "x", "query": "y"}, "belongs to a new search"),
        ("/explain", {"workflow": "a", "query": "y", "label.team": "z"}, "unknown argument"),
        ("/outcomes", {"days": "0"}, "days"),
        ("/traces", {"since": "yesterday"}, "is no time"),
        ("/traces", {"outcome": "splendid"}, "is not known; give one of"),
        ("/traces", {"limit": 0}, "limit"),
        ("/traces", {"cursor": "x"}, "no cursor of a listing"),
        ("/incidents", {"cursor": "W10"}, "no cursor of a listing"),
        ("/coverage", {"cursor": "W10"}, "no cursor of a listing"),
        ("/coverage", {"limit": 1001}, "limit"),
        ("/workflows/OOMKilled/related", {"cursor": "W10"}, "no cursor of a listing"),
        ("/invocations", {"phase": "Sleeping"}, "is not known; give one of"),
        ("/contracts", {"colour": "red"}, "unknown argument"),
        ("/contracts", {"limit": 201}, "limit"),
        ("/contracts", {"cursor": "W10"}, "no cursor of a listing"),
    ],
)
async def test_what_is_asked_wrongly_is_refused_with_the_next_step(
    world: World, path: str, parameters: dict[str, Any], said: str
) -> None:
    response = await world.get(path, by="auditor", **parameters)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32002)
    assert said in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "parameters"), [("/explain", {"workflow": "a b", "query": "y"}), ("/outcomes", {"workflow_id": "a b"})]
)
async def test_what_can_be_no_name_of_a_workflow_is_not_found(
    world: World, path: str, parameters: dict[str, Any]
) -> None:
    response = await world.get(path, by="auditor", **parameters)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["data"]) == (404, -32001, {"workflow_id": "a b"})
    assert "is not a workflow name" in error["message"]


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/workflows/none",
            "/workflows/none/related",
            "/workflows/scale-out/difference?against=9.9.9",
            "/traces/none",
        ),
        *("/incidents/none", "/invocations/inv-0", f"/searches/{uuid.UUID(int=0)}", "/documents/none"),
    ],
)
async def test_what_is_not_there_is_answered_in_the_words_of_people(world: World, path: str) -> None:
    response = await world.get(path, by="auditor")
    assert response.status_code == 404, response.text
    message = response.json()["error"]["message"]
    assert "retry" not in message
    assert [name for name in TOOLS_BY_NAME if name in message] == []


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
    assert (recorded.code, "Evidence, in log odds" in recorded.out) == (0, True)
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


async def test_what_belongs_to_no_incident_is_left_out_of_traces_on_request(world: World) -> None:
    headers = {"Authorization": "Bearer auditor"}
    await world.client.post("/api/v1/workflows/search", json={"query": "OOMKilled"}, headers=headers)

    async def listed(**filters: Any) -> set[str]:
        return {trace["trace_id"] for trace in (await world.read("/traces", by="auditor", **filters))["traces"]}

    everything = await listed()
    own = {trace for trace in everything if trace.startswith(OWN_TRACE)}
    assert own
    assert await listed(of="all") == everything
    assert await listed(of="incidents") == everything - own
    assert await listed(of="incidents", namespace="shop") == {"rr-shop"}
    assert await listed(of="incidents", remediation_id=min(own)) == {min(own)}
    first = await world.read("/traces", by="auditor", limit=1, of="incidents")
    pages = [first, await world.read("/traces", by="auditor", limit=1, of="incidents", cursor=first["next_cursor"])]
    assert {trace["trace_id"] for page in pages for trace in page["traces"]} == everything - own
    refused = await world.get("/traces", by="auditor", limit=1, cursor=first["next_cursor"])
    assert (refused.status_code, "another question" in refused.text) == (400, True)
    tag = (await world.get("/traces", by="auditor", of="incidents")).headers["etag"]
    assert (await world.get("/traces", by="auditor", of="incidents", headers={"If-None-Match": tag})).status_code == 304
    assert (await world.get("/traces", by="auditor", headers={"If-None-Match": tag})).status_code == 200
    assert (await world.get("/traces", by="auditor", of="people")).status_code == 400
