"""From an AIAnalysis to the context of an incident."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.entry import incident_context
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS
from formulary_catalog.errors import InvalidManifest
from support import manifest

SECRET = "s3cret-value"
NOTHING: frozenset[str] = frozenset()
label_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10)


def _analysis(
    enrichment: object, *, status: object = None, annotations: object = None, **signal: Any
) -> dict[str, Any]:
    document = copy.deepcopy(manifest.analysis("oom", remediation_id="rr-1"))
    document["spec"]["analysisRequest"]["signalContext"] = {"enrichmentResults": enrichment, **signal}
    document["metadata"]["annotations"] = annotations
    return document | {"status": status}


def _context(document: dict[str, Any]) -> RequestContext:
    return incident_context(document, source="incident.yaml", default_namespace="default")


def _refusal(document: dict[str, Any]) -> str:
    with pytest.raises(InvalidManifest) as refusal:
        _context(document)
    assert str(refusal.value).isprintable()
    return str(refusal.value)


current = pytest.mark.parametrize("nest", [lambda labels: {"kubernetesContext": labels}, lambda labels: labels])


@current
@given(labels=st.dictionaries(label_texts, st.lists(label_texts, min_size=1, max_size=3), max_size=4))
def test_custom_labels_are_taken_unchanged_from_either_place(nest: Any, labels: dict[str, list[str]]) -> None:
    context = _context(_analysis(nest({"customLabels": labels})))
    assert context.custom_labels == {key: tuple(values) for key, values in labels.items()}


@current
def test_a_bare_string_counts_as_a_list_of_one_and_empty_lists_ask_for_nothing(nest: Any) -> None:
    labels: dict[str, object] = {"team": "payments", "region": [], "tier": None}
    assert _context(_analysis(nest({"customLabels": labels}))).custom_labels == {"team": ("payments",)}


def test_the_older_place_counts_only_where_the_current_one_says_nothing() -> None:
    older = {"customLabels": {"team": ["old"]}}
    current_labels = {"customLabels": {"team": ["new"]}}
    assert _context(_analysis({"kubernetesContext": current_labels, **older})).custom_labels == {"team": ("new",)}
    silences: list[object] = [None, {}, {"customLabels": None}, {"customLabels": {}}]
    for silent in silences:
        assert _context(_analysis({"kubernetesContext": silent, **older})).custom_labels == {"team": ("old",)}


@pytest.mark.parametrize("enrichment", [{}, {"customLabels": None}, {"kubernetesContext": {"customLabels": {}}}])
def test_an_incident_without_custom_labels_adds_none(enrichment: object) -> None:
    context = _context(_analysis(enrichment))
    assert context.custom_labels == {}
    assert constraints_of(context, strict_keys=NOTHING).custom == {}


def test_strict_keys_come_from_the_annotation_and_from_the_settings() -> None:
    annotations = {"formulary.dev/strict-custom-labels": " team, region ,,"}
    context = _context(_analysis({}, annotations=annotations))
    assert context.strict_keys == {"team", "region"}
    constraints = constraints_of(context, strict_keys=frozenset({"tier"}))
    assert constraints.strict_keys == {"team", "region", "tier"} | STANDARD_KEYS


def test_environment_priority_and_cluster_constrain_and_severity_does_not() -> None:
    signal = {"environment": " Production ", "businessPriority": "P0", "cluster": "EU-1", "severity": "critical"}
    constraints = constraints_of(_context(_analysis({}, **signal)), strict_keys=NOTHING)
    assert constraints.values == {"environment": {"production"}, "priority": {"p0"}, "cluster": {"eu-1"}}
    assert constraints_of(_context(_analysis({}, environment=" ")), strict_keys=NOTHING).values == {}


def test_later_detections_win_and_failed_ones_say_nothing() -> None:
    enrichment = {
        "detectedLabels": {"stateful": True, "hpaEnabled": False, "note": "", "count": 5},
        "kubernetesContext": {
            "detectedLabels": {
                "hpaEnabled": "True",
                "gitOpsTool": " ArgoCD ",
                "failedDetections": ["stateful", "gitOpsTool"],
            }
        },
    }
    status = {"postRCAContext": {"detectedLabels": {"serviceMesh": "istio", "hpaEnabled": False}}}
    assert _context(_analysis(enrichment)).detected_labels == {"stateful": "true", "hpaEnabled": "true"}
    assert _context(_analysis(enrichment, status=status)).detected_labels["hpaEnabled"] == "false"
    assert _context(_analysis(enrichment, status=status)).detected_labels["serviceMesh"] == "istio"


def test_identity_and_target_are_read_and_the_default_namespace_fills_in() -> None:
    document = _analysis({}, targetResource={"kind": "Pod", "name": "p", "namespace": "web"}, signalName="OOMKilled")
    context = _context(document)
    assert (context.namespace, context.name, context.remediation_id) == ("shop", "oom", "rr-1")
    assert (context.target_namespace, context.signal_name) == ("web", "OOMKilled")
    del document["metadata"]["namespace"]
    assert _context(document).namespace == "default"


def test_unknown_fields_are_tolerated() -> None:
    document = _analysis({"businessClassification": {"x": 1}}, fingerprint="abc", signalMode="reactive")
    document["spec"]["analysisRequest"]["analysisTypes"] = ["RootCause"]
    document["status"] = {"phase": "Completed", "rcaResult": {"rootCause": "x"}}
    assert _context(document).remediation_id == "rr-1"


@pytest.mark.parametrize("remediation_id", ["", None, 5, "x" * 254])
def test_a_remediation_id_is_required(remediation_id: object) -> None:
    document = manifest.analysis("oom", remediation_id="rr-1")
    document["spec"]["remediationId"] = remediation_id
    assert "spec.remediationId" in _refusal(document)


@pytest.mark.parametrize(
    "enrichment",
    [
        {"kubernetesContext": {"customLabels": SECRET}},
        {"kubernetesContext": {"customLabels": [SECRET]}},
        {"kubernetesContext": {"customLabels": {"team": {"a": SECRET}}}},
        {"kubernetesContext": {"customLabels": {"team": [SECRET, 5]}}},
        {"kubernetesContext": {"customLabels": {"": [SECRET]}}},
        {"kubernetesContext": f'{{"customLabels": {{"team": ["{SECRET}"]}}}}'},
        {"kubernetesContext": [{"customLabels": {"team": [SECRET]}}]},
        {"customLabels": {"team": [f"{SECRET}\0"]}},
        [{"customLabels": {"team": [SECRET]}}],
        SECRET,
    ],
)
def test_a_malformed_incident_is_refused_without_showing_values_of_custom_labels(enrichment: object) -> None:
    assert SECRET[-6:] not in _refusal(_analysis(enrichment))


@pytest.mark.parametrize("text", ["\0", "\ud800"])
def test_what_the_database_cannot_hold_is_refused(text: str) -> None:
    _refusal(_analysis({"detectedLabels": {"gitOpsTool": text}}))
    _refusal(_analysis({"detectedLabels": {text: True}}))
    _refusal(_analysis({}, annotations={"formulary.dev/strict-custom-labels": text}))
    _refusal(_analysis({"customLabels": {text: ["a"]}}))
    _refusal(_analysis({}, environment=text))


def test_labels_show_in_no_representation() -> None:
    context = _context(
        _analysis(
            {"customLabels": {"secretkey": [SECRET]}}, annotations={"formulary.dev/strict-custom-labels": "secretkey"}
        )
    )
    assert SECRET not in repr(context)
    assert "secretkey" not in repr(context)
