"""The tools through a real MCP client over real HTTP (DESIGN sections 6 and 7)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from formulary_catalog.domain.answers.answer_size import ASKED_BYTES, DEFAULT_SEARCH_BYTES, SHORTENED
from formulary_catalog.domain.answers.catalog import WorkflowHit, WorkflowSummary
from formulary_catalog.domain.workflows.skill import GUIDE
from formulary_catalog.edges.mcp.tools import tools_of
from formulary_catalog.embedding import Embedder
from formulary_catalog.operations.json_text import META_KEY
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import LISTED_TOOLSETS, ContextPolicy
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import ERAS, agent, answer_of, call, found, protocol_error, refused, text_of
from support.manifest import analysis, text, workflow
from support.serving import catalog, serving

SEARCH = "search_workflow_catalog"
DETAILS = "get_workflow_details"
SELECT = "record_workflow_selection"
ALWAYS = frozenset(
    {
        "workflow_id",
        "version",
        "version_id",
        "title",
        "similarity_score",
        "confidence",
        "risk_level",
        "match_reasons",
        "uri",
    }
)
"""Of each hit, however short an answer must be."""
PAYMENTS = {"X-Remediation-Id": "rr-payments"}
PRODUCTION = {"X-Remediation-Id": "rr-production"}


@pytest.fixture(scope="module")
async def url(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A server of the starter catalog, two teams' workflows and two incidents."""
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    payments, checkout = workflow("refund-queue"), workflow("cart-cache")
    payments["spec"]["customLabels"] = {"team": "payments-squad"}
    checkout["spec"]["customLabels"] = {"team": "checkout-squad"}
    here, there = workflow("twin"), workflow("twin")
    there["metadata"]["namespace"] = "shop"
    own.write_text(
        text(
            payments,
            checkout,
            here,
            there,
            analysis("paying", remediation_id="rr-payments", labels={"team": ["payments-squad"]}),
            analysis("buying", remediation_id="rr-checkout", labels={"team": ["checkout-squad"]}),
            analysis("producing", remediation_id="rr-production", environment="production"),
        )
    )
    async with catalog([starter_catalog, own], postgres=postgres, embedder=embedder) as parts, serving(parts) as at:
        yield at


@pytest.mark.parametrize("mode", ERAS)
async def test_a_search_answers_in_both_eras_with_the_same_text_and_structure(url: str, mode: str) -> None:
    result = await call(url, SEARCH, {"query": "OOMKilled critical"}, mode=mode)

    answer = answer_of(result)
    assert answer["workflows"][0]["workflow_id"].startswith("oom-")
    assert answer["workflows"][0]["match_reasons"]
    assert answer["search_mode"] == "hybrid"
    assert text_of(result) == json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "query",
    [
        "restart the pods",
        "disk pressure on a node",
        "certificate expired",
        "DNS lookups fail, SERVFAIL from CoreDNS",
        "java.lang.OutOfMemoryError: Java heap space",
        "etcd disk is slow",
        "OOMKilled critical",
        "ImagePullBackOff warning",
        "pod",
    ],
)
async def test_a_search_without_top_k_shows_ten_hits_that_fit_within_four_kilobytes(
    url: str, query: str, mode: str
) -> None:
    result = await call(url, SEARCH, {"query": query}, mode=mode)

    answer = answer_of(result)
    assert len(text_of(result).encode()) <= DEFAULT_SEARCH_BYTES
    shown = len(answer["workflows"])
    (left_out,) = [int(note.split()[0]) for note in answer["notes"] if "are left out; top_k shows" in note] or [0]
    (dropped,) = [int(note.split()[0]) for note in answer["notes"] if "did not fit" in note] or [0]
    assert shown + dropped == min(10, answer["total_results"] - left_out)
    assert shown >= min(4, answer["total_results"] - left_out), "the first ones are whole, and there"
    # What fits nothing may stand between two that fit: a page of a given length holds it.
    first = found(await call(url, SEARCH, {"query": query, "top_k": 50}))
    assert [name for name in first if name in found(result)] == found(result)
    assert len(text_of(result).encode()) < 4096
    assert all(ALWAYS <= hit.keys() for hit in answer["workflows"])
    assert all(hit["match_reasons"] and hit["title"] and hit["risk_level"] for hit in answer["workflows"])


@pytest.mark.parametrize("top_k", [1, 20, 50])
async def test_a_search_with_top_k_shows_as_many_as_asked_for_with_nothing_left_out(url: str, top_k: int) -> None:
    result = await call(url, SEARCH, {"query": "OOMKilled critical", "top_k": top_k})

    answer = answer_of(result)
    assert len(answer["workflows"]) == top_k
    assert len(text_of(result).encode()) <= ASKED_BYTES
    of_runs = {"success_interval", "runs_counted"}  # there is none
    assert all(hit.keys() == WorkflowHit.model_fields.keys() - of_runs for hit in answer["workflows"])


async def test_a_listing_without_limit_has_short_lines_before_it_has_fewer_and_says_so(url: str) -> None:
    result = await call(url, "list_workflows", {})

    answer = answer_of(result)
    count = len(answer["workflows"])
    assert count >= 13
    assert len(text_of(result).encode()) < 4096
    always = WorkflowSummary.model_fields.keys() - {"namespace", "version_id", "indexed_at"}
    assert all(always <= line.keys() for line in answer["workflows"])
    assert answer["notes"][-2:] == [f"{count} of 20 fit; cursor leads on, limit allows a longer answer", SHORTENED]
    following = answer_of(await call(url, "list_workflows", {"cursor": answer["next_cursor"]}))
    assert following["workflows"][0]["workflow_id"] > answer["workflows"][-1]["workflow_id"]


async def test_a_listing_with_a_limit_is_whole(url: str) -> None:
    answer = answer_of(await call(url, "list_workflows", {"limit": 50}))

    assert len(answer["workflows"]) == 50
    assert all(line.keys() == WorkflowSummary.model_fields.keys() for line in answer["workflows"])


async def test_labels_constrain_in_both_spellings(url: str) -> None:
    query = {"query": "memory", "top_k": 10}
    dotted = await call(url, SEARCH, {**query, "label.signal-type": "oomkilled", "label.severity": "WARNING"})
    snake = await call(url, SEARCH, {**query, "label_signal_type": "OOMKilled", "label_severity": "warning"})

    assert found(dotted) == found(snake)
    assert "oom-scale-out" in found(dotted)
    assert "oom-raise-memory-limit" not in found(dotted)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_call_of_dd_hapi_001_is_taken_though_no_schema_lists_filters(url: str, mode: str) -> None:
    seeds = {"query": "memory", "filters": {"environment": "staging", "priority": "P0"}, "top_k": 5}
    flat = {"query": "memory", "label.environment": "staging", "label.priority": "P0", "top_k": 5}

    async with agent(url, mode=mode) as client:
        (search, *_) = (await client.list_tools()).tools
        nested = await client.call_tool(SEARCH, seeds)
        assert found(nested) == found(await client.call_tool(SEARCH, flat))
        assert found(nested) != found(await client.call_tool(SEARCH, {"query": "memory", "top_k": 5}))
    assert "filters" not in search.input_schema["properties"]


async def test_custom_labels_in_filters_are_refused_like_any_unknown_argument(url: str) -> None:
    smuggled = {"environment": "production", "custom_labels": {"team": ["payments-squad"]}}

    message = refused(await call(url, SEARCH, {"query": "restarts it", "filters": smuggled}, headers=PAYMENTS))

    assert message.startswith("unknown argument 'filters.custom_labels'; allowed are: filters.signal-type, ")
    assert "squad" not in message


async def test_the_incident_wins_over_filters_and_a_note_says_so(url: str) -> None:
    asked = {"query": "restarts it", "filters": {"environment": "staging"}}

    answer = answer_of(await call(url, SEARCH, asked, headers=PRODUCTION))

    assert any("environment was set by the incident" in note for note in answer["notes"])


async def test_what_a_strict_client_sends_for_nothing_changes_nothing(url: str) -> None:
    nothing = {"label.severity": None, "exclude_keywords": [None], "top_k": None, "min_confidence": None}

    assert found(await call(url, SEARCH, {"query": "OOMKilled", **nothing})) == found(
        await call(url, SEARCH, {"query": "OOMKilled"})
    )


@pytest.mark.parametrize("keywords", ["replicas, heap", ["replicas", "heap"]])
async def test_excluded_keywords_exclude(url: str, keywords: object) -> None:
    kept = found(await call(url, SEARCH, {"query": "OOMKilled", "exclude_keywords": keywords}))

    assert "oom-raise-memory-limit" in kept
    assert not {"oom-scale-out", "oom-right-size-jvm-heap"} & set(kept)


@pytest.mark.parametrize("tool", [DETAILS, "get_playbook_details"])
@pytest.mark.parametrize("name", ["oom-scale-out", "formulary/oom-scale-out", "oom-scale-out@1.1.0"])
async def test_details_answer_to_every_form_of_a_name_and_to_the_older_tool_name(
    url: str, tool: str, name: str
) -> None:
    answer = answer_of(await call(url, tool, {"workflow_id": name}))

    assert answer["workflow_id"] == "oom-scale-out"
    assert all(step["command"] for step in answer["steps"])
    assert answer_of(await call(url, tool, {"workflow_id": answer["version_id"]})) == answer


async def test_details_of_the_starter_catalog_are_never_cut(url: str) -> None:
    async with agent(url) as client:
        listed = answer_of(await client.call_tool(SEARCH, {"query": "remedy", "top_k": 50}))["workflows"]
        for hit in listed[:10]:
            result = await client.call_tool(DETAILS, {"workflow_id": hit["workflow_id"]})
            assert not any("cut to fit" in note for note in answer_of(result)["notes"])


async def test_a_name_that_needs_a_namespace_says_which_there_are(url: str) -> None:
    message = refused(await call(url, DETAILS, {"workflow_id": "twin"}))

    assert "formulary/twin" in message
    assert "shop/twin" in message
    assert answer_of(await call(url, DETAILS, {"workflow_id": "shop/twin"}))["namespace"] == "shop"


@pytest.mark.parametrize("arguments", [{"workflow_id": "no-such"}, {"workflow_id": "twin", "version": "9.9.9"}])
async def test_an_unknown_workflow_is_a_tool_error_with_the_next_step(url: str, arguments: dict[str, str]) -> None:
    message = refused(await call(url, DETAILS, arguments))

    assert "search" in message
    assert message.endswith("Retry: no, change the call first.")


async def test_a_selection_is_recorded_with_the_search_it_came_from(url: str) -> None:
    search_id = answer_of(await call(url, SEARCH, {"query": "OOMKilled"}))["search_id"]

    receipt = answer_of(
        await call(
            url,
            SELECT,
            {"workflow_id": "oom-scale-out", "reasoning": "Stateless.", "search_id": search_id, "confidence": 0.9},
        )
    )

    assert receipt["recorded"]
    assert receipt["search_id"] == search_id


async def test_a_selection_of_a_search_that_never_was_is_refused(url: str) -> None:
    message = refused(
        await call(url, SELECT, {"workflow_id": "oom-scale-out", "reasoning": "x", "search_id": "made-up"})
    )

    assert "search_id" in message


async def test_the_constraints_of_the_incident_are_appended_and_never_told(url: str) -> None:
    paying = await call(url, SEARCH, {"query": "restarts it", "top_k": 50}, headers=PAYMENTS)
    buying = await call(url, SEARCH, {"query": "restarts it", "top_k": 50}, headers={"X-Remediation-Id": "rr-checkout"})

    assert "refund-queue" in found(paying)
    assert "cart-cache" not in found(paying)
    assert "cart-cache" in found(buying)
    assert "refund-queue" not in found(buying)
    assert "squad" not in text_of(paying) + text_of(buying)


@pytest.mark.parametrize(
    ("headers", "meta"),
    [
        (PAYMENTS, None),
        ({"X-AIAnalysis": "shop/paying"}, None),
        ({}, {META_KEY: "rr-payments"}),
        ({**PAYMENTS, "X-AIAnalysis": "shop/paying"}, {META_KEY: "rr-payments"}),
    ],
)
@pytest.mark.parametrize("mode", ERAS)
async def test_an_incident_may_be_named_in_any_of_three_ways(
    url: str, mode: str, headers: dict[str, str], meta: dict[str, str] | None
) -> None:
    assert not (
        await call(url, DETAILS, {"workflow_id": "refund-queue"}, mode=mode, headers=headers, meta=meta)
    ).is_error
    hidden = await call(url, DETAILS, {"workflow_id": "cart-cache"}, mode=mode, headers=headers, meta=meta)
    assert "not found" in refused(hidden)


@pytest.mark.parametrize(
    ("headers", "meta"),
    [
        ({"X-Remediation-Id": "rr-nobody"}, None),
        (PAYMENTS, {META_KEY: "rr-checkout"}),
        ({**PAYMENTS, "X-AIAnalysis": "shop/buying"}, None),
        ({"X-Remediation-Id": "x" * 254}, None),
        ({}, {META_KEY: 7}),
    ],
)
async def test_an_unknown_contradictory_or_odd_incident_fails_closed(
    url: str, headers: dict[str, str], meta: dict[str, object] | None
) -> None:
    message = refused(await call(url, SEARCH, {"query": "OOMKilled"}, headers=headers, meta=meta))

    assert "workflow_id" not in message


@pytest.mark.parametrize("mode", ERAS)
async def test_where_an_incident_is_required_only_calls_need_one(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, mode: str
) -> None:
    strict = catalog([starter_catalog], postgres=postgres, embedder=embedder, policy=ContextPolicy.REQUIRED)
    async with strict as parts, serving(parts) as at:
        async with agent(at, mode=mode, headers={"X-Remediation-Id": ""}) as client:
            assert (await client.list_tools()).tools
            assert [resource.name for resource in (await client.list_resources()).resources] == [GUIDE.name]
            assert "X-Remediation-Id" in refused(await client.call_tool(SEARCH, {"query": "OOMKilled"}))


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("misspelt", ["search_workflow_catalogue", "serch"])
async def test_an_unknown_tool_is_a_protocol_error_with_the_nearest_listed_name(
    url: str, mode: str, misspelt: str
) -> None:
    error = await protocol_error(url, lambda client: client.call_tool(misspelt, {}), mode=mode)

    assert error.code == -32602
    assert "did you mean 'search_workflow_catalog'" in error.message
    assert SEARCH in error.data["tools"]


async def test_a_failure_of_ours_tells_an_id_and_nothing_else(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret-dsn-and-password")

    async with catalog([], postgres=postgres, embedder=None) as parts, serving(parts) as at:
        monkeypatch.setattr(CatalogService, "search", broken)
        message = refused(await call(at, SEARCH, {"query": "OOMKilled"}))

    assert message.startswith("internal error ")
    assert "retry once" in message
    assert "secret" not in message


async def test_a_database_that_is_gone_is_an_error_to_retry_and_the_tools_stay_listed(
    postgres: EmbeddedPostgres,
) -> None:
    async with catalog([], postgres=postgres, embedder=None) as parts, serving(parts) as at:
        await parts.database.close()
        async with agent(at) as client:
            assert len((await client.list_tools()).tools) == len(tools_of(LISTED_TOOLSETS))
            assert "retry in a few seconds" in refused(await client.call_tool(SEARCH, {"query": "OOMKilled"}))


@pytest.mark.parametrize("mode", ERAS)
async def test_each_log_line_of_a_call_names_its_incident_and_trace_but_no_argument(url: str, mode: str) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {**PAYMENTS, "traceparent": f"00-{trace}-b7ad6b7169203331-01"}

    with capture_logs(processors=[merge_contextvars]) as lines:
        await call(
            url, SEARCH, {"query": "OOMKilled", "label.business-category": "trading"}, mode=mode, headers=headers
        )
        await call(url, SEARCH, {"query": "OOMKilled"}, mode=mode)

    about, without = [line for line in lines if line["event"] == "tool_call"]
    assert (about["remediation_id"], about["trace_id"], about["tool"]) == ("rr-payments", "rr-payments", SEARCH)
    assert about["client_trace_id"] == trace
    assert without["trace_id"].startswith("tr_")
    assert "client_trace_id" not in without
    assert "secret" not in str(lines)
    assert "remediation_id" not in without
