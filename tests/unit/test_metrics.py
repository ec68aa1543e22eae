"""Metrics that dashboards and alerts rely on (DESIGN section 12)."""

import re

from prometheus_client.parser import text_string_to_metric_families

from formulary_catalog import __version__
from formulary_catalog.metrics import Metrics
from support.metrics import served


def observed() -> Metrics:
    metrics = Metrics()
    metrics.count_search("hybrid", "ok")
    metrics.observe_phase("sql", 0.004)
    metrics.count_tool_call("search_workflow_catalog", "ok", seconds=0.02)
    metrics.count_cache_lookup("query_vectors", hit=False, entries=0)
    metrics.count_cache_lookup("query_vectors", hit=True, entries=1)
    metrics.set_workflows({"Active": 51, "Superseded": 2})
    metrics.set_alerts({"covered": 7, "weak": 0, "none": 2, "ignored": 1})
    metrics.set_contexts(3)
    metrics.count_context_lookup("found")
    metrics.count_auth_decision("token", "allowed")
    metrics.set_calls("catalog", in_work=16, waiting=3)
    metrics.count_refusal("catalog", "full")
    metrics.set_embedder_up(True)
    metrics.connections.set_open("catalog", 1)
    metrics.connections.count_refusal("catalog", "slow")
    return metrics


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_names_and_labels_are_a_promise() -> None:
    metrics = observed()
    kinds = served(metrics.exposition().decode())
    labels = {
        re.sub("_(bucket|sum|count)$", "", name): tuple(sorted(label for label, _ in labels if label != "le"))
        for name, labels in samples(metrics)
    }

    assert {(name, kind, labels[name]) for name, kind in kinds.items()} == {
        ("formulary_searches_total", "counter", ("mode", "outcome")),
        ("formulary_search_seconds", "histogram", ("phase",)),
        ("formulary_tool_calls_total", "counter", ("outcome", "tool")),
        ("formulary_tool_seconds", "histogram", ("tool",)),
        ("formulary_cache_lookups_total", "counter", ("cache", "outcome")),
        ("formulary_cache_entries", "gauge", ("cache",)),
        ("formulary_catalog_workflows", "gauge", ("status",)),
        ("formulary_alerts", "gauge", ("state",)),
        ("formulary_contexts", "gauge", ()),
        ("formulary_context_lookups_total", "counter", ("outcome",)),
        ("formulary_auth_decisions_total", "counter", ("check", "outcome")),
        ("formulary_calls_in_work", "gauge", ("lane",)),
        ("formulary_calls_waiting", "gauge", ("lane",)),
        ("formulary_calls_refused_total", "counter", ("lane", "reason")),
        ("formulary_embedder_up", "gauge", ()),
        ("formulary_connections", "gauge", ("server",)),
        ("formulary_connections_refused_total", "counter", ("reason", "server")),
        ("formulary_build_info", "gauge", ("version",)),
    }


def test_what_is_observed_is_scraped() -> None:
    scraped = samples(observed())

    assert scraped["formulary_searches_total", frozenset({("mode", "hybrid"), ("outcome", "ok")})] == 1
    assert scraped["formulary_search_seconds_count", frozenset({("phase", "sql")})] == 1
    assert scraped["formulary_tool_seconds_count", frozenset({("tool", "search_workflow_catalog")})] == 1
    hits = frozenset({("cache", "query_vectors"), ("outcome", "hit")})
    assert scraped["formulary_cache_lookups_total", hits] == 1
    assert scraped["formulary_cache_entries", frozenset({("cache", "query_vectors")})] == 1
    assert scraped["formulary_catalog_workflows", frozenset({("status", "Active")})] == 51
    assert scraped["formulary_alerts", frozenset({("state", "none")})] == 2
    assert scraped["formulary_contexts", frozenset()] == 3
    assert scraped["formulary_embedder_up", frozenset()] == 1
    assert scraped["formulary_build_info", frozenset({("version", __version__)})] == 1


def test_calls_of_a_lane_are_read_back() -> None:
    metrics = observed()
    metrics.set_calls("runs", in_work=1, waiting=0)
    assert [metrics.calls(lane) for lane in ("catalog", "runs", "protocol")] == [(16, 3), (1, 0), (0, 0)]


def test_a_status_that_is_gone_from_the_catalog_is_gone_from_the_metric() -> None:
    metrics = observed()
    metrics.set_workflows({"Active": 50})

    assert [key for key in samples(metrics) if key[0] == "formulary_catalog_workflows"] == [
        ("formulary_catalog_workflows", frozenset({("status", "Active")}))
    ]


def test_without_alerts_of_the_cluster_none_are_counted() -> None:
    metrics = observed()
    metrics.set_alerts({})

    assert [key for key in samples(metrics) if key[0] == "formulary_alerts"] == []


def test_two_processes_in_one_interpreter_do_not_share_counts() -> None:
    observed()

    assert ("formulary_contexts", frozenset()) in samples(Metrics())
    assert samples(Metrics())["formulary_contexts", frozenset()] == 0
