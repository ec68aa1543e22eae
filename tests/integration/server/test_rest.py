"""The REST side over real HTTP (DESIGN section 8)."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog.contextvars
import structlog.testing

from formulary_catalog.edges.calls import failures
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.manifest import analysis, text, workflow
from support.serving import catalog, serving

SEARCH = "/api/v1/workflows/search"
PAYMENTS = {"X-Remediation-Id": "rr-payments"}


@pytest.fixture(scope="module")
async def parts(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CatalogParts]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    twin = workflow("twin")
    twin["metadata"]["namespace"] = "shop"
    own.write_text(
        text(
            workflow("refund-queue", customLabels={"team": "payments-squad"}),
            workflow("cart-cache", customLabels={"team": "checkout-squad"}),
            workflow("twin"),
            twin,
            analysis("paying", remediation_id="rr-payments", labels={"team": ["payments-squad"]}),
        )
    )
    async with catalog([starter_catalog, own], postgres=postgres, embedder=embedder) as loaded:
        yield loaded


@pytest.fixture
async def http(parts: CatalogParts) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(parts) as url, httpx2.AsyncClient(base_url=url) as client:
        yield client


async def found(
    http: httpx2.AsyncClient, body: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None
) -> list[str]:
    response = await http.post(SEARCH, json={"query": "restarts it", "top_k": 50, **(body or {})}, headers=headers)
    assert response.status_code == 200, response.text
    return [hit["workflow_id"] for hit in response.json()["workflows"]]


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """The body of an error: one clear line."""
    (error,) = response.json().values()
    assert list(error) == ["code", "message", "field", *(["data"] if "data" in error else [])]
    assert "\n" not in error["message"]
    assert not any(word in error["message"].lower() for word in ("pydantic", "traceback", "asyncpg"))
    found: dict[str, Any] = error
    return found


async def test_a_search_answers_whole(http: httpx2.AsyncClient) -> None:
    response = await http.post(SEARCH, json={"query": "OOMKilled critical"})

    answer = response.json()
    assert answer["workflows"][0]["workflow_id"].startswith("oom-")
    assert answer["total_results"] > len(answer["workflows"]) > 1
    assert answer["search_mode"] == "hybrid"
    assert answer["inferred"] == {"signal_type": "OOMKilled", "severity": "critical"}


async def test_labels_are_taken_flat_nested_and_as_lists(http: httpx2.AsyncClient) -> None:
    flat = await found(http, {"label.signal-type": ["OOMKilled", "Evicted"]})
    nested = await found(http, {"filters": {"signal_type": ["OOMKilled", "Evicted"]}})

    assert flat == nested
    assert {"oom-scale-out", "evicted-protect-with-priority"} <= set(flat)
    assert "certificate-expired-renew" not in flat


async def test_a_vector_of_the_caller_ranks_in_place_of_ours(http: httpx2.AsyncClient, embedder: Embedder) -> None:
    vector = [float(number) for number in embedder.embed_query("cert-manager renews no certificate")]

    response = await http.post(SEARCH, json={"query": "restarts it", "embedding": vector, "top_k": 50})

    nearest = max(response.json()["workflows"], key=lambda hit: hit["similarity_score"])
    assert nearest["workflow_id"] == "certificate-expired-renew"


async def test_the_constraints_of_the_incident_are_appended(http: httpx2.AsyncClient) -> None:
    by_header = await found(http, headers=PAYMENTS)
    by_analysis = await found(http, headers={"X-AIAnalysis": "shop/paying"})
    by_body = await found(http, {"remediation_id": "rr-payments"})

    assert by_header == by_analysis == by_body
    assert "refund-queue" in by_header
    assert "cart-cache" not in by_header


async def test_custom_labels_may_be_set_where_nobody_is_authenticated(http: httpx2.AsyncClient) -> None:
    kept = await found(http, {"filters": {"custom_labels": {"team": ["checkout-squad"]}}})

    assert "cart-cache" in kept
    assert "refund-queue" not in kept


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"remediation_id": "rr-other"}, PAYMENTS),
        ({"remediation_id": "rr-nobody"}, {}),
        ({"remediation_id": 7}, {}),
        ({}, {"X-Remediation-Id": "rr-nobody"}),
        ({}, {"X-AIAnalysis": "shop/nobody"}),
        ({}, {"X-Remediation-Id": "x" * 254}),
    ],
)
async def test_an_unknown_or_contradictory_incident_fails_closed(
    http: httpx2.AsyncClient, body: dict[str, object], headers: dict[str, str]
) -> None:
    response = await http.post(SEARCH, json={"query": "restarts it", **body}, headers=headers)

    assert response.status_code == 400
    assert error_of(response)["code"] == -32002


async def test_where_an_incident_is_required_what_an_agent_does_needs_one(postgres: EmbeddedPostgres) -> None:
    strict = catalog([], postgres=postgres, embedder=None, policy=ContextPolicy.REQUIRED)
    async with strict as parts, serving(parts) as url, httpx2.AsyncClient(base_url=url) as http:
        responses = [
            await http.post(SEARCH, json={"query": "OOMKilled"}),
            await http.post("/api/v1/selections", json={"workflow_id": "any", "reasoning": "It fits."}),
        ]
        ready = await http.get("/readyz")

    assert [response.status_code for response in responses] == [400, 400]
    assert all("X-Remediation-Id" in error_of(response)["message"] for response in responses)
    assert ready.status_code == 200


async def test_workflows_are_listed_in_pages_under_the_constraints_of_the_incident(http: httpx2.AsyncClient) -> None:
    whole = (await http.get("/api/v1/workflows?limit=1000")).json()
    page = (await http.get("/api/v1/workflows?limit=2&offset=1")).json()
    constrained = (await http.get("/api/v1/workflows?limit=1000", headers=PAYMENTS)).json()

    assert page["workflows"] == whole["workflows"][1:3]
    assert page["total_results"] == whole["total_results"] == len(whole["workflows"]) == 122
    assert "cart-cache" not in {line["workflow_id"] for line in constrained["workflows"]}


@pytest.mark.parametrize(
    "name",
    ["oom-scale-out", "formulary/oom-scale-out", "oom-scale-out@1.1.0", "formulary/oom-scale-out@1.1.0"],
)
async def test_a_workflow_is_read_under_every_form_of_its_name(http: httpx2.AsyncClient, name: str) -> None:
    answer = (await http.get(f"/api/v1/workflows/{name}")).json()

    assert (answer["workflow_id"], answer["namespace"]) == ("oom-scale-out", "formulary")
    assert (await http.get(f"/api/v1/workflows/{answer['version_id']}")).json() == answer
    assert (await http.get("/api/v1/workflows/oom-scale-out?version=1.1.0")).json() == answer


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/workflows/no-such", 404, -32001),
        ("/api/v1/workflows/oom-scale-out@9.9.9", 404, -32001),
        ("/api/v1/workflows/wf_ver_00000000000000000000", 404, -32001),
        ("/api/v1/workflows/twin", 400, -32002),
        ("/api/v1/workflows/a/b/c", 404, -32001),
        ("/api/v1/workflows/%00", 400, -32002),
        ("/api/v1/workflows/", 400, -32002),
        ("/api/v1/workflows?limit=0", 400, -32002),
        ("/api/v1/workflows?limit=ten", 400, -32002),
        ("/api/v1/workflows?offset=-1", 400, -32002),
        ("/api/v1/workflows?offset=99999999999999999999", 400, -32002),
        ("/api/v1/nothing", 404, -32001),
        ("/docs", 404, -32001),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_its_code(
    http: httpx2.AsyncClient, path: str, status: int, code: int
) -> None:
    response = await http.get(path)

    assert response.status_code == status
    assert error_of(response)["code"] == code


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"\xff", "body"),
        (b'{"query":' * 6000, "body"),
        (b'{"query":' + b"[" * 600 + b"]" * 600 + b"}", "body"),
        ('{"query": "x"}'.encode("utf-16"), "body"),
        (b"{}", "query"),
        (b'{"query": null}', "query"),
        (b'{"query": ["OOMKilled"]}', "query"),
        (b'{"query": "x\\u0000"}', "query"),
        (b'{"query": "x\\ud800"}', "query"),
        (b'{"query": "x", "top_k": 51}', "top_k"),
        (b'{"query": "x", "top_k": "ten"}', "top_k"),
        (b'{"query": "x", "min_confidence": NaN}', "min_confidence"),
        (b'{"query": "x", "filters": {"severety": "high"}}', "filters.severety"),
        (b'{"query": "x", "embedding": [1, 2]}', "embedding"),
        (b'{"query": "x", "nearest": true}', "nearest"),
        (b'{"query": "x", "exclude_keywords": "restart", "exclude_keywords": null}', "body"),
        (b'{"query": "x", "filters": {"custom_labels": {"team": "red", "team": "blue"}}}', "body"),
        (b'{"\\ud800": 1, "\\ud800": 2}', "body"),
        (b'{"query": "x", "\\ud800": 1}', "?"),
        (b'{"query": "x", "filters": ["team"]}', "filters"),
    ],
)
async def test_a_bad_body_is_refused_with_the_field_at_fault(
    http: httpx2.AsyncClient, content: bytes, field: str
) -> None:
    response = await http.post(SEARCH, content=content, headers={"Content-Type": "application/json"})

    assert response.status_code == 400
    assert error_of(response)["code"] == -32002
    assert error_of(response)["field"] == field
    assert "team" not in response.text


@pytest.mark.parametrize(
    ("path", "saying"),
    [
        ("/api/v1/workflows/oom-scale-out?verison=1.0.0", "'verison'; did you mean 'version'? allowed are: version"),
        ("/api/v1/workflows?page=2", "unknown argument 'page'; allowed are: signal_type, action_type"),
        ("/api/v1/workflows?limit=1&limit=50", "query parameter 'limit' is given twice"),
    ],
)
async def test_an_unknown_query_parameter_is_refused(http: httpx2.AsyncClient, path: str, saying: str) -> None:
    response = await http.get(path)

    assert response.status_code == 400
    assert saying in error_of(response)["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [(SEARCH, {"query": "OOMKilled"}), ("/api/v1/selections", {"workflow_id": "oom-scale-out", "reasoning": "x"})],
)
async def test_a_query_parameter_beside_a_body_is_refused(
    http: httpx2.AsyncClient, path: str, body: dict[str, str]
) -> None:
    response = await http.post(path, params={"environment": "production"}, json=body)

    assert response.status_code == 400
    assert error_of(response)["message"] == "unknown query parameter 'environment'; send everything in the body"


async def test_contradicting_incidents_are_told_in_words_of_this_api(http: httpx2.AsyncClient) -> None:
    response = await http.post(SEARCH, json={"query": "restarts it", "remediation_id": "rr-other"}, headers=PAYMENTS)

    said = error_of(response)["message"]
    assert "(headers, _meta, the address or remediation_id) name different remediation ids" in said


async def test_the_line_of_a_call_names_the_trace_that_tells_of_it(http: httpx2.AsyncClient) -> None:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        await http.post(SEARCH, json={"query": "restarts it"}, headers=PAYMENTS)
        await http.post(SEARCH, json={"query": "", "top_k": 99})
        found = (await http.post(SEARCH, json={"query": "restarts it"})).json()

    of_incident, refused, of_nobody = [line for line in logged if line["event"] == "rest_call"]
    assert of_incident["trace_id"] == of_incident["remediation_id"]
    assert refused["trace_id"].startswith("tr_")
    assert of_nobody["trace_id"] == f"tr_{uuid.UUID(found['search_id']).hex}"


async def test_each_call_leaves_one_line_in_the_log_without_its_arguments(http: httpx2.AsyncClient) -> None:
    with structlog.testing.capture_logs() as logged:
        await http.post(SEARCH, json={"query": "restarts it"}, headers=PAYMENTS)
        await http.post(SEARCH, json={"query": "", "top_k": 99})

    assert [line for line in logged if line["event"] == "rest_call"] == [
        {"event": "rest_call", "log_level": "info", "operation": "search_workflows", "outcome": outcome}
        for outcome in ("ok", "refused")
    ]


async def test_a_selection_is_recorded(http: httpx2.AsyncClient) -> None:
    search_id = (await http.post(SEARCH, json={"query": "OOMKilled"})).json()["search_id"]
    chosen = {"workflow_id": "oom-scale-out", "reasoning": "Stateless.", "search_id": search_id}

    receipt = await http.post("/api/v1/selections", json=chosen)
    unknown = await http.post("/api/v1/selections", json={**chosen, "workflow_id": "no-such"})
    empty = await http.post("/api/v1/selections", json={"workflow_id": "oom-scale-out"})

    assert receipt.json()["recorded"]
    assert (unknown.status_code, empty.status_code) == (404, 400)
    assert error_of(empty)["field"] == "reasoning"


async def test_a_failure_of_ours_tells_an_id_and_nothing_else(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret-dsn-and-password")

    monkeypatch.setattr(CatalogService, "search", broken)
    response = await http.post(SEARCH, json={"query": "OOMKilled"})

    assert response.status_code == 500
    assert error_of(response)["message"].startswith("internal error ")
    assert "secret" not in response.text


async def test_a_call_that_takes_too_long_is_given_up(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(failures, "CALL_SECONDS", 0.05)
    monkeypatch.setattr(CatalogService, "search", stuck)
    response = await http.post(SEARCH, json={"query": "OOMKilled"})

    assert response.status_code == 408
    assert error_of(response)["code"] == -32004
