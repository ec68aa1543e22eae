"""The calls that the design documents write down, as they write them, and what must come back (DESIGN section 7)."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent, answer_of, call, refused
from support.databases import as_user, migrated_database
from support.manifest import analysis, text
from support.runnable import EVERYWHERE, runnable
from support.services import open_parts
from support.serving import load, serving

INCIDENT = "req-2025-11-30-abc123"
LABELS = {
    "label.signal-type": "OOMKilled",
    "label.severity": "critical",
    "label.environment": "production",
    "label.business-category": "payments",
    "label.risk-tolerance": "low",
}
SEED_HIT = {
    "workflow_id", "version", "title", "description", "signal_types", "labels", "similarity_score", "confidence",
    "estimated_duration", "success_rate",
}  # fmt: skip
"""Members of a hit in DD-WORKFLOW-002."""
STARTER = Path(__file__).parents[3] / "catalog" / "workflows"
CONSERVATIVE = "increase-memory-conservative-oom"


@pytest.fixture(scope="module")
async def url(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    labels = {"signalType": ["OOMKilled"], **EVERYWHERE, "severity": ["critical"]}
    conservative = runnable(
        CONSERVATIVE,
        version="1.2.0",
        title="OOMKilled Remediation - Conservative Memory Increase",
        what="Increases memory limits conservatively without restart.",
        labels=labels,
        estimatedDuration="10m",
        customLabels={"team": ["name=payments"], "constraint": ["cost-constrained"]},
    )
    of_others = runnable("of-others", labels=labels, customLabels={"team": ["name=search"]})
    demanded = {"constraint": ["cost-constrained"], "team": ["name=payments"]}
    incident = analysis("oom", remediation_id=INCIDENT, labels=demanded)
    own.write_text(text(conservative, runnable("scale-horizontal-oom-recovery", labels=labels), of_others, incident))
    async with migrated_database(postgres) as dsn:
        await load([own, STARTER], dsn=dsn, embedder=embedder)
        insight = as_user(dsn, ROLE)
        async with open_parts(dsn, embedder=embedder) as parts:
            async with serving(parts, analytics_database_url=insight, analytics_per_minute=10_000) as at:
                yield at


async def posted(url: str, path: str, body: Mapping[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.post(path, json=dict(body))


# DD-WORKFLOW-002: search_workflow_catalog, get_playbook_details, POST /api/v1/workflows/search


@pytest.mark.parametrize("arguments", [{}, {**LABELS, "top_k": 5}, {"top_k": 5}])
async def test_a_search_of_the_workflow_design_has_the_members_of_its_hits(url: str, arguments: dict[str, Any]) -> None:
    answer = answer_of(await call(url, "search_workflow_catalog", {"query": "OOMKilled critical", **arguments}))

    assert answer["workflows"]
    assert isinstance(answer["total_results"], int)
    needed = SEED_HIT if arguments else SEED_HIT - {"description", "labels"}
    for hit in answer["workflows"]:
        assert needed <= hit.keys()
        assert 0 <= hit["confidence"] <= 1


async def test_labels_of_a_hit_show_what_matches_everything(url: str) -> None:
    answer = answer_of(await call(url, "search_workflow_catalog", {"query": "OOMKilled", **LABELS, "top_k": 50}))

    (hit,) = [each for each in answer["workflows"] if each["workflow_id"] == CONSERVATIVE]
    assert hit["labels"]["environment"] == ["*"]
    assert hit["labels"]["severity"] == ["critical"]


async def test_the_address_of_a_hit_names_the_section_that_matched(url: str) -> None:
    query = "working set climbs with traffic and levels off at the limit, no sign of a leak"
    answer = answer_of(await call(url, "search_workflow_catalog", {"query": query, "top_k": 50}))

    uris = {hit["workflow_id"]: hit["uri"] for hit in answer["workflows"]}
    assert uris["oom-raise-memory-limit"].endswith("#when_to_use")
    async with agent(url) as client:
        for uri in list(uris.values())[:5]:
            (read,) = (await client.read_resource(uri)).contents
            assert json.loads(read.text)["uri"]  # type: ignore[union-attr]
            assert answer_of(await client.call_tool("get_workflow_details", {"workflow_id": uri}))


@pytest.mark.parametrize("version", ["v1.2.0", "1.2.0"])
async def test_details_of_a_playbook_have_the_members_of_the_design(url: str, version: str) -> None:
    asked = {"workflow_id": CONSERVATIVE, "version": version}
    answer = answer_of(await call(url, "get_playbook_details", asked))

    members = {"workflow_id", "version", "title", "description", "signal_types", "steps", "prerequisites"}
    assert members | {"rollback_steps", "estimated_duration", "risk_level", "success_rate"} <= answer.keys()


async def test_the_body_of_the_design_is_taken_over_http(url: str) -> None:
    body = {"query": "OOMKilled critical", "embedding": [0.125] * 384, **LABELS, "top_k": 5}
    response = await posted(url, "/api/v1/workflows/search", body)

    assert response.status_code == 200
    assert len(response.json()["workflows"]) == 5


# DD-HAPI-001: the constraints are those of the incident, whatever the model sends


async def test_the_filters_of_the_model_and_the_labels_of_the_incident_both_hold(url: str) -> None:
    asked = {"query": "OOMKilled critical", "filters": {"environment": "production", "priority": "P0"}, "top_k": 50}
    without = answer_of(await call(url, "search_workflow_catalog", asked))
    under = answer_of(await call(url, "search_workflow_catalog", asked, headers={"X-Remediation-Id": INCIDENT}))

    assert "of-others" in [hit["workflow_id"] for hit in without["workflows"]]
    assert "of-others" not in [hit["workflow_id"] for hit in under["workflows"]]
    assert CONSERVATIVE in [hit["workflow_id"] for hit in under["workflows"]]


async def test_a_program_gives_custom_labels_in_filters(url: str) -> None:
    filters = {
        "signal-type": "OOMKilled",
        "severity": "critical",
        "environment": "production",
        "priority": "P0",
        "custom_labels": {"constraint": ["cost-constrained"], "team": ["name=payments"]},
    }
    body = {"query": "OOMKilled critical", "filters": filters, "remediation_id": INCIDENT, "top_k": 5}
    response = await posted(url, "/api/v1/workflows/search", body)

    assert response.status_code == 200, response.text
    assert "of-others" not in [hit["workflow_id"] for hit in response.json()["workflows"]]


# ADR-0004: kdd_search, kdd_related, kdd_list


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("kdd_search", {"query": "how does authentication work", "limit": 3}),
        ("kdd_search", {"query": "OOMKilled", "score_threshold": 0.5, "domains": ["formulary"], "tags": ["memory"]}),
        ("kdd_related", {"entity": "oom-raise-memory-limit", "depth": 2}),
        ("kdd_related", {"entity": "oom-raise-memory-limit", "edge_types": ["IMPLEMENTS", "DEPENDS_ON"]}),
        ("kdd_list", {"domain": "security"}),
        ("kdd_list", {"domain": "formulary", "status": "INDEXED", "limit": 10}),
    ],
)
async def test_calls_of_the_older_tools_are_answered(url: str, tool: str, arguments: dict[str, Any]) -> None:
    answer = answer_of(await call(url, tool, arguments))

    listed = answer["workflows"] if "workflows" in answer else answer["related"]
    assert len(listed) <= arguments.get("limit", 20)
    assert listed or answer["notes"]


@pytest.mark.parametrize(
    ("tool", "arguments", "counterpart"),
    [
        ("kdd_list", {"kind": "requirement", "limit": 10}, "'action_type'"),
        ("kdd_search", {"query": "x", "chunk_types": ["RULE", "PROCESS"], "domains": ["security"]}, "action_type"),
        ("kdd_list", {"status": "PENDING"}, "--status Pending"),
        ("kdd_related", {"entity": "oom-raise-memory-limit", "edge_types": ["LIKES"]}, "escalatesTo"),
    ],
)
async def test_what_has_no_counterpart_is_refused_with_what_there_is(
    url: str, tool: str, arguments: dict[str, Any], counterpart: str
) -> None:
    assert counterpart in refused(await call(url, tool, arguments))


@pytest.mark.parametrize("entity", ["AuthenticationService", "RF-AUTH-001", "Auth Service", "oom-raise-memory-limits"])
async def test_an_unknown_entity_is_not_found_with_the_nearest_names(url: str, entity: str) -> None:
    said = refused(await call(url, "kdd_related", {"entity": entity, "edge_types": ["IMPLEMENTS", "DEPENDS_ON"]}))

    assert f"workflow {entity!r} is not found" in said
    if entity.startswith("oom"):
        assert "nearest names: oom-raise-memory-limit" in said
    async with httpx2.AsyncClient(base_url=url) as http:
        error = (await http.get(f"/api/v1/workflows/{entity}/related")).json()["error"]
    assert (error["code"], error["data"]["workflow_id"]) == (-32001, entity)
    assert isinstance(error["data"]["nearest"], list)


# Design decisions on invocation: ids, errors, polling


@pytest.mark.parametrize("workflow_id", ["wf_research_paper", "wf_ver_abc123"])
async def test_an_id_that_no_workflow_has_is_not_found(url: str, workflow_id: str) -> None:
    params = {"workflow_id": workflow_id, "input": {}, "options": {"timeoutMs": 30000}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": params}
    invoked = await posted(url, "/api/v1/invoke", message)
    async with httpx2.AsyncClient(base_url=url) as http:
        read = await http.get(f"/api/v1/workflows/{workflow_id}")

    for response in (invoked, read):
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, -32001)
        assert error["data"]["workflow_id"] == workflow_id
    assert workflow_id in refused(await call(url, "invoke_workflow", {"workflow_id": workflow_id}))


async def test_a_timeout_is_named_as_the_caller_wrote_it(url: str) -> None:
    params = {"workflow_id": CONSERVATIVE, "input": {}, "options": {"timeoutMs": 5}}
    response = await posted(
        url, "/api/v1/invoke", {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": params}
    )

    assert (response.status_code, response.json()["error"]["code"]) == (400, -32002)
    assert response.json()["error"]["message"].startswith("options.timeoutMs is 5")


# MCP Service Catalog: the governance, knowledge and data tools


async def test_a_query_returns_data_as_objects_and_as_many_as_fit(url: str) -> None:
    answer = answer_of(await call(url, "execute_query", {"sql": "select i as n from generate_series(1, 5000) i"}))

    assert {"query", "columns", "row_count", "data"} <= answer.keys()
    assert (answer["columns"], answer["data"][:2]) == (["n"], [{"n": 1}, {"n": 2}])
    assert answer["row_count"] == len(answer["data"]) > 200
    assert answer["truncated"]
    assert len(json.dumps(answer, separators=(",", ":"))) <= 8 * 1024
    few = answer_of(await call(url, "execute_query", {"sql": "select 1 as one, 2 as one", "max_rows": 1000}))
    assert (few["columns"], few["data"]) == (["one", "one_2"], [{"one": 1, "one_2": 2}])


async def test_the_results_of_a_document_search_are_counted(url: str) -> None:
    answer = answer_of(await call(url, "semantic_search", {"query": "node does not come back after a reboot"}))

    assert {"query", "collection", "total_results", "results"} <= answer.keys()
    assert answer["total_results"] == len(answer["results"]) == 5
    assert {"id", "score", "source_file", "section_title", "text_preview"} <= answer["results"][0].keys()
    similar = answer_of(await call(url, "similar_docs", {"doc_id": answer["results"][0]["id"], "top_k": 5}))
    assert {"source_doc_id", "collection", "similar_docs"} <= similar.keys()
    document = answer_of(await call(url, "get_document", {"doc_id": answer["results"][0]["id"]}))["document"]
    assert document.keys() == {"source_file", "section_title", "text"}


async def test_the_description_of_document_search_names_its_language(url: str) -> None:
    async with agent(url, path="/mcp?toolsets=knowledge") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert "English" in str(tools["semantic_search"].description)


async def test_gate_enforce_verdict_and_replay_follow_one_another(url: str) -> None:
    actions = [{"action_type": "restart", "tool": "kubectl", "resource": "deployment/checkout"}]
    contract = {
        "version": "1.0.0",
        "scope": {"name": "shop"},
        "rules": [{"id": "a", "effect": "DENY", "match": {"path_prefix": "/prod"}, "rationale": "Frozen."}],
    }
    gate = answer_of(await call(url, "governance_gate", {"task": "Restart it", "proposed_actions": actions}))
    asked = {"contract": contract, "actions": [{"action_type": "restart", "path_prefix": "/prod/orders"}]}
    enforced = answer_of(await call(url, "governance_enforce", {**asked, "trace_id": gate["trace_id"]}))
    parts = {"gate_report": gate["gate_report"], "enforce_result": enforced["enforce_result"]}
    verdict = answer_of(await call(url, "governance_verdict", {**parts, "trace_id": gate["trace_id"]}))
    replay = answer_of(await call(url, "governance_replay", {"trace_id": gate["trace_id"]}))

    assert enforced["enforce_result"]["blocked_rule_ids"] == ["a"]
    assert verdict["verdict"]["final_decision"] == "BLOCK"
    assert (replay["replay"]["status"], replay["replay"]["pass"]) == ("PASS", True)
