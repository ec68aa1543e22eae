"""Running workflows over REST and from the command line, against a real server; a test plays the operator."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx2
import pytest
import yaml

from formulary_catalog.domain.runs.outcome import Outcome
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.contracts import ContractWriter
from support import playing
from support.access import KnownCallers, Rights
from support.commands import answer_of, formulary
from support.runnable import TARGET, nobody_runs_anything
from support.runs import KEY
from support.serving import serving

INVOKE = "/api/v1/invoke"
STAGING = {"X-Remediation-Id": "rr-staging"}
PRODUCTION = {"X-Remediation-Id": "rr-production"}


@pytest.fixture(scope="module")
async def url(parts: CatalogParts, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "input.key"
    keys.write_text(KEY)
    async with serving(parts, input_key_file=keys) as at:
        yield at


@pytest.fixture
async def http(url: str, dsn: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with nobody_runs_anything(dsn), httpx2.AsyncClient(base_url=url, timeout=50) as client:
        yield client


def request(workflow_id: str = "scale-out", *, rpc_id: Any = 7, method: str = "invoke_workflow", **params: Any) -> Any:
    given = {"workflow_id": workflow_id, "input": {"REPLICAS": 3}, **params}
    return {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": given}


async def invoke(http: httpx2.AsyncClient, *, headers: dict[str, str] = STAGING, **params: Any) -> httpx2.Response:
    return await http.post(INVOKE, json=request(**params), headers=headers)


def error_of(response: httpx2.Response, *, status: int, code: int) -> dict[str, Any]:
    body = response.json()
    assert (response.status_code, body["jsonrpc"], body["error"]["code"]) == (status, "2.0", code), body
    assert set(body) == {"jsonrpc", "id", "error"}
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize("method", ["invoke_workflow", "workflow.invoke"])
async def test_a_run_is_asked_for_by_json_rpc_and_its_output_returned(
    http: httpx2.AsyncClient, dsn: str, method: str
) -> None:
    async with playing.operator(dsn):
        response = await invoke(http, method=method, rpc_id="a", options={"timeoutMs": 20000})

    body = response.json()
    assert (response.status_code, body["jsonrpc"], body["id"]) == (200, "2.0", "a")
    assert (body["result"]["state"], body["result"]["output"]) == ("completed", {"healed": True})


async def test_a_longer_run_is_polled_by_its_id_at_both_paths(http: httpx2.AsyncClient, dsn: str) -> None:
    async with playing.run_writer(dsn) as runs:
        await runs.announce()
        begun = (await invoke(http, options={"timeoutMs": 60000})).json()["result"]
        invocation_id = begun["invocation_id"]
        pending = (await http.get(f"/api/v1/invocations/{invocation_id}")).json()
        older = (await http.get(f"/api/workflow/status/{invocation_id}")).json()
        await runs.begin(invocation_id)
        await runs.finish(invocation_id, phase=playing.GOOD.phase, reason="Completed", message="", outputs={"a": [1]})
        ended = (
            await http.get(f"/api/v1/invocations/{invocation_id}", params={"wait_ms": 10000, "after_revision": 1})
        ).json()

    assert (begun["state"], pending["state"], older["state"]) == ("running", "pending", "running")
    assert (ended["state"], ended["output"]) == ("completed", {"a": [1]})


async def test_fitness_and_feedback_of_a_run_are_its_outcome(http: httpx2.AsyncClient, dsn: str) -> None:
    async with playing.operator(dsn, ends=lambda run: playing.GOOD):
        begun = (await invoke(http, options={"timeoutMs": 20000})).json()["result"]
    assert (begun["outcome"], begun["fitness"]) == ("", None)
    assert "whether it helped is decided at 20" in begun["feedback"]
    path = f"/api/v1/invocations/{begun['invocation_id']}"
    await playing.decide(dsn, Outcome.RELAPSED, only=begun["invocation_id"])
    answer = (await http.get(path)).json()
    assert (answer["outcome"], answer["fitness"], answer["feedback"]) == ("Relapsed", 0, "the test says Relapsed")
    listed = (await http.get("/api/v1/invocations")).json()["invocations"]
    (ran,) = [each for each in listed if each["invocation_id"] == begun["invocation_id"]]
    assert (ran["outcome"], ran["state"]) == ("Relapsed", "relapsed")
    (trace,) = (await http.get("/api/v1/traces", params={"remediation_id": "rr-staging"})).json()["traces"]
    incident = (await http.get("/api/v1/incidents/rr-staging")).json()
    listed = (await http.get("/api/v1/incidents")).json()["incidents"]
    run = {each["remediation_id"]: each["run"] for each in listed}["rr-staging"]
    assert (trace["state"], incident["run"], run) == ("relapsed",) * 3


async def test_each_problem_of_the_input_is_told_with_field_rule_and_value(http: httpx2.AsyncClient, dsn: str) -> None:
    async with playing.operator(dsn):
        response = await invoke(http, input={"REPLICAS": 0, "SAY": 5})

    error = error_of(response, status=400, code=-32002)
    assert {(each["field"], each["value"]) for each in error["data"]["problems"]} == {("REPLICAS", "0"), ("SAY", "5")}
    assert all(each["rule"] for each in error["data"]["problems"])
    assert (error["data"]["field"], error["data"]["retry"]) == ("input", False)


@pytest.mark.parametrize(("ending", "status", "code"), [(playing.BAD, 500, -32003), (playing.LATE, 408, -32004)])
async def test_a_run_that_ends_badly_has_the_status_of_the_mapping(
    http: httpx2.AsyncClient, dsn: str, ending: playing.Ending, status: int, code: int
) -> None:
    async with playing.operator(dsn, ends=lambda _: ending):
        error = error_of(await invoke(http, workflow_id="fragile"), status=status, code=code)

    assert ending.message in error["message"]
    assert (await http.get(f"/api/v1/invocations/{error['data']['invocation_id']}")).json()[
        "state"
    ] == ending.phase.state


async def test_what_is_unknown_not_runnable_or_without_executor_is_told_by_code(
    http: httpx2.AsyncClient, dsn: str
) -> None:
    error_of(await invoke(http, workflow_id="no-such"), status=404, code=-32001)
    error_of(await invoke(http, workflow_id="only-words"), status=400, code=-32002)
    missing = error_of(await invoke(http), status=500, code=-32003)
    assert "no executor" in missing["message"]


async def test_a_denied_run_names_its_rule(http: httpx2.AsyncClient, dsn: str) -> None:
    database = await Database.open(dsn, role=Role.WRITER, size=1, deadline=10)
    spec = {"rules": [{"id": "closed", "effect": "DENY", "rationale": "Shop is closed."}]}
    await ContractWriter(database, shared_namespace="formulary").save(spec, namespace=TARGET, name="hours", uid="1")
    await database.close()
    async with playing.operator(dsn):
        error = error_of(await invoke(http), status=403, code=-32003)

    assert "Shop is closed." in error["message"]
    assert error["data"]["decision"]["rules"][0]["id"] == "closed"


@pytest.mark.parametrize(
    ("content", "status", "code", "rpc_id"),
    [
        (b"{", 400, -32700, None),
        (b"NaN", 400, -32700, None),
        (b"[]", 400, -32600, None),
        (b'{"jsonrpc": "1.0", "id": 3, "method": "invoke_workflow"}', 400, -32600, 3),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "invoke_workflow", "params": []}', 400, -32600, None),
        *(
            (b'{"jsonrpc": "2.0", "id": %s, "method": "invoke_workflow", "params": {}}' % wrong, 400, -32600, None)
            for wrong in (b"true", b"[1]", b"1e400", b'"\\ud800"')
        ),
        (b'{"jsonrpc": "2.0", "id": %s, "method": "x"}' % (b"9" * 400), 404, -32601, int("9" * 400)),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "delete_workflow"}', 404, -32601, "x"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": {"a": 1, "a": 2}}', 400, -32600, None),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "invoke_workflow"}', 400, -32002, "x"),
        (b'{"jsonrpc": "2.0", "method": "invoke_workflow", "params": {"workflow_id": 7}}', 400, -32002, None),
    ],
)
async def test_what_is_no_request_is_a_json_rpc_error(
    http: httpx2.AsyncClient, content: bytes, status: int, code: int, rpc_id: Any
) -> None:
    response = await http.post(INVOKE, content=content, headers={"Content-Type": "application/json"})

    error_of(response, status=status, code=code)
    assert response.json()["id"] == rpc_id


@pytest.mark.parametrize(
    ("params", "nearest"),
    [
        ({"inputs": {}}, "input"),
        ({"options": {"timeout": 5}}, "options.timeoutMs"),
        ({"options": {"workflow_id": "other"}}, "options"),
        ({"options": [1]}, "options"),
        ({"custom_labels": {"team": "x"}}, "allowed are"),
    ],
)
async def test_an_unknown_member_is_refused_with_the_nearest_name(
    http: httpx2.AsyncClient, params: dict[str, Any], nearest: str
) -> None:
    assert nearest in error_of(await invoke(http, **params), status=400, code=-32002)["message"]


async def test_a_timeout_out_of_bounds_is_refused(http: httpx2.AsyncClient) -> None:
    for wrong in (0, 999, 43_200_001, "soon"):
        error = error_of(await invoke(http, options={"timeoutMs": wrong}), status=400, code=-32002)
        assert f"options.timeoutMs is {wrong!r}, which is not a whole number" in error["message"]


@pytest.mark.parametrize("given", ["s3cr3t", ["s3cr3t"], '["s3cr3t"]'])
async def test_an_input_that_is_no_object_is_refused_without_being_recorded(
    http: httpx2.AsyncClient, dsn: str, given: object
) -> None:
    error = error_of(await invoke(http, input=given), status=400, code=-32002)

    connection = await asyncpg.connect(dsn)
    bodies = await connection.fetch("select body from formulary.trace_event where kind = 'invocation.refused'")
    await connection.close()
    assert bodies
    assert "s3cr3t" not in str(bodies) + str(error)


async def test_a_quoted_input_with_a_member_twice_is_refused(http: httpx2.AsyncClient) -> None:
    error = error_of(await invoke(http, input='{"REPLICAS": 2, "REPLICAS": 9}'), status=400, code=-32002)
    assert error["data"]["field"] == "input"


async def test_the_input_may_be_the_json_text_of_an_object(http: httpx2.AsyncClient, dsn: str) -> None:
    async with playing.operator(dsn):
        response = await invoke(http, input=json.dumps({"REPLICAS": "4", "SAY": None}))

    assert response.json()["result"]["state"] == "completed"


async def followed(http: httpx2.AsyncClient, path: str, answer: dict[str, Any]) -> dict[str, Any]:
    while answer["state"] in ("awaiting_approval", "pending", "running"):
        answer = (await http.get(path, params={"wait_ms": 10000, "after_revision": answer["revision"]})).json()
    return answer


async def test_a_waiting_run_is_approved_over_rest(http: httpx2.AsyncClient, dsn: str) -> None:
    async with playing.operator(dsn):
        waiting = (await invoke(http, headers=PRODUCTION)).json()["result"]
        path = f"/api/v1/invocations/{waiting['invocation_id']}"
        refused = await http.post(f"{path}/approval", json={"decision": "Perhaps"})
        approved = await http.post(f"{path}/approval", json={"decision": "approve", "reason": "fine"})
        ended = await followed(http, path, approved.json())
        late = await http.post(f"{path}/approval", json={"decision": "Reject"})

    assert waiting["state"] == "awaiting_approval"
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "decision")
    assert approved.status_code == 200
    assert ended["state"] == "completed"
    assert late.status_code == 400


async def test_callers_are_held_to_their_rights(parts: CatalogParts, dsn: str) -> None:
    seeing = {"see": ["formulary"], "use": ["shop"]}
    known = KnownCallers(
        agent=Rights(**seeing, invoke=[TARGET]), reader=Rights(**seeing), person=Rights(**seeing, approve=[TARGET])
    )
    async with serving(parts, authenticator=known) as at, playing.operator(dsn):
        async with httpx2.AsyncClient(base_url=at, timeout=50) as http:

            def as_(name: str) -> dict[str, str]:
                return {**PRODUCTION, "Authorization": f"Bearer {name}"}

            nobody = await invoke(http, headers=PRODUCTION)
            error_of(await invoke(http, headers=as_("reader")), status=403, code=-32000)
            waiting = (await invoke(http, headers=as_("agent"))).json()["result"]
            path = f"/api/v1/invocations/{waiting['invocation_id']}"
            seen = {name: (await http.get(path, headers=as_(name))).status_code for name in ("agent", "reader")}
            approval = {
                name: (await http.post(f"{path}/approval", json={"decision": "Approve"}, headers=as_(name))).status_code
                for name in ("reader", "agent", "person")
            }

    error_of(nobody, status=401, code=-32000)
    assert seen == {"agent": 200, "reader": 404}
    assert approval == {"reader": 404, "agent": 403, "person": 200}


async def test_unknown_runs_and_query_parameters_are_refused(http: httpx2.AsyncClient) -> None:
    for path in ("/api/v1/invocations/inv-x", "/api/workflow/status/inv-00000000000000000000"):
        response = await http.get(path)
        assert (response.status_code, response.json()["error"]["code"]) == (404, -32001)
    misspelt = await http.get("/api/v1/invocations/inv-00000000000000000000", params={"wait": 5})
    assert (misspelt.status_code, "wait_ms" in misspelt.json()["error"]["message"]) == (400, True)
    beside = await http.post(INVOKE, params={"dryRun": "true"}, json=request())
    assert "send everything in the body" in error_of(beside, status=400, code=-32002)["message"]


async def test_the_command_line_runs_follows_and_approves(url: str, http: httpx2.AsyncClient, dsn: str) -> None:
    async with playing.operator(dsn):
        asked = ["scale-out", "--input", "REPLICAS=3", "--url", url, "--remediation-id"]
        ran = await formulary("invoke", *asked, "rr-staging")
        waits = await formulary("invoke", *asked, "rr-production", "--json")
        invocation_id = json.loads(waits.out)["invocation_id"]
        approved = await formulary("approve", invocation_id, "--reason", "fine", "--url", url)
        ended = await formulary("invocation", invocation_id, "--wait", "--url", url)

    assert (ran.code, ran.err) == (0, answer_of(url))
    assert "completed (Completed)" in ran.out
    assert "healed: true" in ran.out
    assert json.loads(waits.out)["state"] == "awaiting_approval"
    assert (approved.code, "the approval is recorded" in approved.out) == (0, True)
    assert (ended.code, "completed" in ended.out) == (0, True)


@pytest.mark.parametrize("value", ["2026-01-01", ".nan", "!!binary aGk=", "!!set {a, b}", "&it [*it]"])
async def test_the_command_line_refuses_what_yaml_makes_of_a_plain_word(url: str, tmp_path: Any, value: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"SAY: {value}\n")
    ran = await formulary("invoke", "scale-out", "--input-file", str(values), "--url", url)

    assert (ran.code, "SAY in --input-file" in ran.err, "quote it" in ran.err) == (2, True, True), ran.err


async def test_the_command_line_refuses_bytes_that_are_no_text(url: str) -> None:
    ran = await formulary("invoke", "scale-out", "--input", "SAY=\udcff", "--url", url)

    assert (ran.code, "no text" in ran.err) == (2, True), ran.err


async def test_the_command_line_says_what_of_an_incident_excludes_a_workflow(url: str) -> None:
    ran = await formulary("invoke", "only-production", "--url", url, "--remediation-id", "rr-staging")
    unknown = await formulary("invoke", "only-productions", "--url", url, "--remediation-id", "rr-staging")

    assert (ran.code, "may not be used for rr-staging: environment: the incident says staging" in ran.err) == (1, True)
    assert "there is no workflow 'only-productions'" in unknown.err


async def test_the_manifest_of_a_dry_run_can_be_piped_to_kubectl(url: str, dsn: str) -> None:
    asked = ["scale-out", "--input", "REPLICAS=3", "--url", url, "--remediation-id", "rr-staging"]
    async with nobody_runs_anything(dsn):
        dry = await formulary("invoke", *asked, "--dry-run", "--manifest")

    assert (dry.code, dry.err) == (0, answer_of(url))
    assert yaml.safe_load(dry.out)["kind"] == "Job"
    assert dry.out.startswith("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ")


async def test_the_command_line_ends_as_for_wrong_input_where_a_workflow_cannot_be_run(url: str) -> None:
    ran = await formulary("invoke", "only-words", "--url", url, "--json")

    assert (ran.code, json.loads(ran.out)["error"]["code"]) == (2, -32002)


async def test_the_command_line_ends_with_what_it_means(
    url: str, http: httpx2.AsyncClient, dsn: str, tmp_path: Any
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("REPLICAS: 3\nTOKEN: hunter2\n")
    asked = ["fragile", "--input-file", str(values), "--url", url, "--remediation-id", "rr-staging"]
    dry = await formulary("invoke", *asked, "--dry-run")
    nobody = await formulary("invoke", *asked)
    async with playing.operator(dsn, ends=lambda _: playing.BAD):
        invalid = await formulary("invoke", *asked, "--input", "REPLICAS=none")
        failed = await formulary("invoke", "slow", *asked[1:])
    known = failed.err.split()[1]
    shown = await formulary("invocation", known, "--url", url)
    wrong = await formulary("invocation", "inv-1", "--url", url, "--json")
    unknown = await formulary("invocation", "inv-0123456789abcdef0123", "--url", url)

    assert "What a real run would create:\n" in dry.out
    assert (dry.code, "kind: Job" in dry.out, "no cluster has checked" in dry.out) == (0, True, True)
    assert (nobody.code, "no executor" in nobody.err) == (3, True)
    assert (invalid.code, "REPLICAS: must be of type integer" in invalid.err) == (2, True)
    assert (failed.code, "exit code 1" in failed.err) == (1, True)
    assert (shown.code, "failed (RunFailed)" in shown.out) == (1, True)
    assert (wrong.code, json.loads(wrong.out)["error"]["code"]) == (2, -32002)
    assert (unknown.code, "`formulary approvals` lists those that wait" in unknown.err) == (1, True)
    assert "hunter2" not in dry.out + nobody.err + invalid.err + failed.err
