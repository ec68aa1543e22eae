"""A server that asks who calls: what strangers get, and what the rights of a caller decide (DESIGN sections 7 to 9)."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import asyncpg
import httpx2
import pytest
from mcp import MCPError
from structlog.testing import capture_logs

from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.http.middleware import MAX_BODY_BYTES
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import EVERYWHERE, KnownCallers, Rights
from support.agent import ERAS, agent, answer_of, call, found, refused
from support.authenticators import Broken, Recovering, Strict, Undecided
from support.commands import formulary
from support.services import open_parts
from support.serving import catalog, listening, serving
from support.tenants import (
    BANK,
    BANK_INCIDENT,
    COPIED_INCIDENT,
    SECRET,
    SHARED,
    SHOP,
    SHOP_INCIDENT,
    TARGET,
    write_manifests,
)
from support.trail import recorded

QUERY = {"query": "OOMKilled critical restart"}
SEARCH = "/api/v1/workflows/search"
CALLERS = KnownCallers(
    responder=Rights(see={SHARED, SHOP, TARGET}, use={SHOP}),
    narrow=Rights(see={SHOP, BANK}, use={SHOP}),
    auditor=Rights(see={EVERYWHERE}, use={EVERYWHERE}),
    blind=Rights(use={SHOP}),
    newcomer=Rights(see={SHARED}),
)


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    manifests = write_manifests(tmp_path_factory.mktemp("tenants"))
    async with catalog([manifests], postgres=postgres, embedder=None, context_wait_seconds=0) as loaded:
        yield loaded


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, authenticator=CALLERS) as at:
        yield at


def by(name: str, incident: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of a caller."""
    return {"Authorization": f"Bearer {name}", **(incident or {})}


async def search(url: str, headers: Mapping[str, str], **body: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.post(SEARCH, json=QUERY | body, headers=headers)


@pytest.mark.parametrize("method", ["initialize", "tools/list", "ping", "nothing"])
async def test_a_stranger_on_mcp_gets_401_in_the_shape_of_the_protocol(url: str, method: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method}
    async with httpx2.AsyncClient(base_url=url) as http:
        answered = await http.post("/mcp", json=message)

    assert answered.status_code == 401
    assert answered.headers["WWW-Authenticate"] == 'Bearer realm="formulary"'
    body = answered.json()
    assert (body["jsonrpc"], body["error"]["code"], body["error"]["data"]) == ("2.0", -32000, {"retry": False})
    assert "search_workflow_catalog" not in answered.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", SEARCH),
        ("GET", "/api/v1/workflows"),
        ("GET", "/api/v1/workflows/shop-restart"),
        ("POST", "/api/v1/selections"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/nothing"),
    ],
)
async def test_a_stranger_gets_401_on_every_path_but_the_probes(url: str, method: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answered = await http.request(method, path, headers=by("nobody"))

    assert (answered.status_code, answered.json()["error"]["code"]) == (401, -32000)
    assert answered.headers["WWW-Authenticate"] == (
        'Bearer realm="formulary", error="invalid_token", '
        'error_description="the call has no token that is known here; send one"'
    )


async def test_a_malformed_header_is_told_apart_and_cannot_break_the_challenge(parts: CatalogParts) -> None:
    async with serving(parts, authenticator=Strict()) as url:
        answered = await search(url, by("anybody"))

    assert answered.status_code == 401
    assert answered.headers["WWW-Authenticate"] == (
        'Bearer realm="formulary", error="invalid_request", '
        "error_description=\"the header is 'odd' ' ' ' '; send another\""
    )


@pytest.mark.parametrize("path", ["oauth-protected-resource", "oauth-protected-resource/mcp", "openid-configuration"])
async def test_who_looks_for_an_oauth_server_is_told_that_there_is_none(url: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answered = await http.get(f"/.well-known/{path}")
        misdirected = await http.get(f"/.well-known/{path}", headers={"Host": "evil.example"})

    assert (answered.status_code, misdirected.status_code) == (404, 421)
    assert "WWW-Authenticate" not in answered.headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/workflows/ours/.well-known/x",
        "/api/v1/traces/a/.well-known/x",
        "/api/v1/workflows/ours%2F.well-known%2Fx",
    ],
)
async def test_a_name_that_holds_where_oauth_would_be_is_asked_for_like_any_other(url: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        assert (await http.get(path)).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_and_scrapes_need_no_token(url: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        assert (await http.get(path)).status_code == 200


async def test_the_body_of_a_stranger_is_not_waited_for(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    writer.write(head.encode())
    answered = await asyncio.wait_for(reader.readline(), timeout=30)
    writer.close()
    await writer.wait_closed()

    assert b" 401 " in answered


async def test_host_origin_and_size_are_refused_before_anybody_is_asked_who_calls(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        host = await http.get("/api/v1/workflows", headers={"Host": "evil.example"})
        origin = await http.get("/api/v1/workflows", headers={"Origin": "https://evil.example"})
        size = await http.post(SEARCH, content=b"x" * (MAX_BODY_BYTES + 1))

    assert [host.status_code, origin.status_code, size.status_code] == [421, 403, 413]


async def test_strangers_leave_one_log_line_without_their_tokens_however_often_they_call(
    parts: CatalogParts,
) -> None:
    with capture_logs() as lines:
        async with serving(parts, authenticator=CALLERS) as url:
            for n in range(5):
                await search(url, by(f"sesame-{n}"))

    (line,) = [line for line in lines if line["event"] == "caller_unknown"]
    assert (line["status"], line["count"]) == (401, 1)
    assert "sesame" not in json.dumps(lines)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_sees_the_shared_namespace_that_of_its_incident_and_that_of_its_target(
    url: str, mode: str
) -> None:
    result = await call(url, "search_workflow_catalog", QUERY, mode=mode, headers=by("responder", SHOP_INCIDENT))

    assert sorted(found(result)) == ["formulary-restart", "shop-apps-restart", "shop-restart"]
    assert SECRET not in json.dumps(answer_of(result))


async def test_a_namespace_that_may_not_be_listed_is_not_there(url: str) -> None:
    headers = by("narrow", SHOP_INCIDENT)
    searched = await call(url, "search_workflow_catalog", QUERY, headers=headers)
    details = await call(url, "get_workflow_details", {"workflow_id": "formulary/formulary-restart"}, headers=headers)
    chosen = await call(
        url, "record_workflow_selection", {"workflow_id": "shop-apps-restart", "reasoning": "fits"}, headers=headers
    )

    assert found(searched) == ["shop-restart"]
    assert "is not found" in refused(details)
    assert "is not found" in refused(chosen)


async def test_a_namespace_that_the_incident_does_not_concern_is_not_there_although_it_may_be_listed(url: str) -> None:
    headers = by("narrow", SHOP_INCIDENT)
    async with httpx2.AsyncClient(base_url=url, headers=headers) as http:
        listed = (await http.get("/api/v1/workflows")).json()
        theirs = await http.get("/api/v1/workflows/bank/bank-restart")

    assert [line["workflow_id"] for line in listed["workflows"]] == ["shop-restart"]
    assert theirs.status_code == 404


async def test_who_may_list_everywhere_sees_everything(url: str) -> None:
    result = await call(url, "search_workflow_catalog", QUERY, headers=by("auditor"))

    assert len(found(result)) == 4


async def test_without_an_incident_only_the_shared_namespace_is_seen(url: str) -> None:
    assert found(await call(url, "search_workflow_catalog", QUERY, headers=by("responder"))) == ["formulary-restart"]


async def test_an_incident_that_may_not_be_used_is_a_tool_error_that_says_what_to_check(url: str) -> None:
    result = await call(url, "search_workflow_catalog", QUERY, headers=by("responder", BANK_INCIDENT))
    named = await call(url, "search_workflow_catalog", QUERY, headers=by("responder", {"X-AIAnalysis": "bank/oom"}))

    assert refused(result) == (
        "remediation id 'rr-bank' is not known here, so its constraints cannot be applied and nothing is returned; "
        "check the id, and that you may get aianalyses.kubernaut.ai in the namespace of the incident; retry once if "
        "the incident is only seconds old"
    )
    assert refused(named) == (
        "responder may not get aianalyses.kubernaut.ai in namespace bank, which this call needs; ask an "
        "administrator of the namespace for a RoleBinding that allows it. Retry: no, change the call first."
    )


async def test_who_copies_the_id_of_an_incident_changes_nothing_of_what_is_offered_for_it(url: str) -> None:
    ambiguous = await search(url, by("auditor", COPIED_INCIDENT))
    half_allowed = await search(url, by("responder", COPIED_INCIDENT))
    named = await search(url, by("responder", COPIED_INCIDENT | {"X-AIAnalysis": f"{SHOP}/copied"}))
    the_copy = await search(url, by("responder", COPIED_INCIDENT | {"X-AIAnalysis": f"{BANK}/copied"}))

    assert ambiguous.status_code == 400
    assert "name one with the header X-AIAnalysis" in ambiguous.json()["error"]["message"]
    assert (half_allowed.status_code, the_copy.status_code) == (400, 403)
    assert "is not known here" in half_allowed.json()["error"]["message"]
    assert [hit["workflow_id"] for hit in named.json()["workflows"]] == ["formulary-restart", "shop-restart"]


@pytest.mark.parametrize(
    ("named", "answer"),
    [
        (BANK_INCIDENT, (400, -32002)),
        ({"X-AIAnalysis": "bank/oom"}, (403, -32000)),
        ({"X-AIAnalysis": "bank/nothing"}, (403, -32000)),
    ],
)
async def test_an_incident_that_may_not_be_used_is_refused_on_every_rest_call(
    url: str, named: Mapping[str, str], answer: tuple[int, int]
) -> None:
    headers = by("responder", named)
    async with httpx2.AsyncClient(base_url=url, headers=headers) as http:
        answers = [
            await http.post(SEARCH, json=QUERY),
            await http.get("/api/v1/workflows"),
            await http.get("/api/v1/workflows/bank-restart"),
            await http.post("/api/v1/selections", json={"workflow_id": "bank-restart", "reasoning": "fits"}),
        ]

    assert {(each.status_code, each.json()["error"]["code"]) for each in answers} == {answer}
    assert len({each.text for each in answers}) == 1


async def test_a_resource_under_an_incident_that_may_not_be_used_is_refused(url: str) -> None:
    async with agent(url, headers=by("responder", BANK_INCIDENT)) as client:
        with pytest.raises(MCPError) as raised:
            await client.read_resource("workflow://bank/bank-restart")

    assert raised.value.error.code == -32002
    assert "'rr-bank' is not known here" in raised.value.error.message


async def test_who_may_list_nowhere_is_told_which_namespaces_would_help(url: str) -> None:
    answered = await search(url, by("blind", SHOP_INCIDENT))

    assert answered.status_code == 403
    assert "may not list remediationworkflows.kubernaut.ai in any namespace" in answered.json()["error"]["message"]
    assert "(formulary, shop, shop-apps)" in answered.json()["error"]["message"]


async def test_nobody_who_is_authenticated_may_say_itself_which_custom_labels_apply(url: str) -> None:
    answered = await search(url, by("auditor"), filters={"custom_labels": {"team": "any"}})

    assert answered.status_code == 400
    assert "may not be set by this caller" in answered.json()["error"]["message"]


async def test_the_audit_trail_names_the_caller_and_no_stranger(
    database: str,
) -> None:
    async with open_parts(database) as parts, serving(parts, authenticator=CALLERS) as url:
        await search(url, by("nobody"))
        await search(url, {})
        await search(url, by("newcomer"))
        await search(url, by("blind"))
        await search(url, by("newcomer"), nonsense=True)
    connection = await asyncpg.connect(database)
    rows = await recorded(connection)
    await connection.close()

    assert [(row["caller"], row["outcome"]) for row in rows] == [
        ("newcomer", "ok"),
        ("blind", "NotAllowed"),
        ("newcomer", "InvalidInput"),
    ]


async def test_decisions_are_counted_by_check_and_outcome(parts: CatalogParts) -> None:
    metrics = Metrics()
    async with serving(replace(parts, metrics=metrics), authenticator=CALLERS) as url:
        await search(url, {})
        await search(url, by("newcomer"))
        await search(url, by("newcomer", BANK_INCIDENT))
    scraped = metrics.exposition().decode()

    for check, outcome, count in [
        ("token", "denied", 1),
        ("token", "allowed", 2),
        ("list remediationworkflows.kubernaut.ai", "allowed", 1),
        ("get aianalyses.kubernaut.ai", "denied", 1),
    ]:
        sample = f'formulary_auth_decisions_total{{check="{check}",outcome="{outcome}"}} {count}.0'
        assert sample in scraped
    assert 'check="list remediationworkflows.kubernaut.ai",outcome="denied"' not in scraped


async def test_while_callers_cannot_be_checked_calls_are_503_and_may_be_retried(parts: CatalogParts) -> None:
    metrics = Metrics()
    async with serving(replace(parts, metrics=metrics), authenticator=Undecided()) as url:
        answered = await search(url, by("auditor"))
        async with httpx2.AsyncClient(base_url=url) as http:
            on_mcp = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

    assert (answered.status_code, on_mcp.status_code) == (503, 503)
    assert on_mcp.json()["error"]["data"] == {"retry": True}
    assert "WWW-Authenticate" not in on_mcp.headers
    assert 'check="token",outcome="undecided"' in metrics.exposition().decode()


async def test_a_server_is_not_ready_until_it_was_once_able_to_check_its_callers(
    parts: CatalogParts,
) -> None:
    state, authenticator = Readiness(callers_checked=False, callers_again_seconds=0.01), Recovering()
    app = create_app(parts, settings=Settings(), readiness=state, authenticator=authenticator)
    async with listening(app) as url, httpx2.AsyncClient(base_url=url) as http:
        checking = asyncio.create_task(state.until_callers_are_checked(authenticator.check))
        before = await http.get("/readyz")
        authenticator.works = True
        await asyncio.wait_for(checking, timeout=10)
        after = await http.get("/readyz")
        authenticator.works = False
        later = await http.get("/readyz")

    told = [(answer.status_code, answer.json()["callers"]) for answer in (before, after, later)]
    assert told == [(503, "unchecked"), (200, "ok"), (200, "ok")]
    assert before.json()["status"] == "starting"


async def test_a_check_that_breaks_down_lets_nobody_in_and_tells_nothing(parts: CatalogParts) -> None:
    with capture_logs() as lines:
        async with serving(parts, authenticator=Broken()) as url:
            answered = await search(url, by("sesame"))

    assert answered.status_code == 500
    assert "RuntimeError" in [line.get("kind") for line in lines if line["event"] == "internal_error"]
    assert "sesame" not in repr(lines)
    assert "sesame" not in answered.text
    assert "internal error" in answered.json()["error"]["message"]


async def test_without_authentication_a_token_is_ignored(parts: CatalogParts) -> None:
    async with serving(parts) as url:
        answered = await search(url, by("anything at all"))

    assert answered.json()["total_results"] == 4


async def test_the_read_commands_send_the_token_of_their_environment(url: str) -> None:
    known = await formulary("list", "--url", url, "--json", FORMULARY_TOKEN="auditor")
    stranger = await formulary("list", "--url", url)
    forbidden = await formulary("list", "--url", url, "--remediation-id", "rr-bank", FORMULARY_TOKEN="newcomer")
    unsendable = await formulary("list", "--url", url, FORMULARY_TOKEN="ü")

    assert (known.code, len(json.loads(known.out)["workflows"])) == (0, 4)
    assert (stranger.code, "no token that is known here" in stranger.err) == (1, True)
    assert (forbidden.code, "'rr-bank' is not known here" in forbidden.err) == (2, True)
    assert (unsendable.code, "FORMULARY_TOKEN" in unsendable.err) == (2, True)
