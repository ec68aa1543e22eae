"""Fields of the spec in an annotation, where a cluster's schema drops them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.workflows.annotated import ANNOTATED, ANNOTATED_LABELS
from formulary_catalog.domain.workflows.annotated import annotated as moved
from formulary_catalog.errors import InvalidManifest
from support import manifest

ROOT = Path(__file__).parents[4]
OURS = ROOT / "crds" / "kubernaut.ai_remediationworkflows.yaml"
ANNOTATION = "metadata.annotations.formulary.dev/spec"
UPSTREAM = ROOT / "tests" / "support" / "upstream_crds" / "remediationworkflows.yaml"
STEPS = [{"name": "look", "command": "kubectl get pods"}, {"name": "restart", "description": "Restart it."}]


def spec_schema(file: Path) -> Any:
    """The schema of `spec` in a CRD."""
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def annotated(text: object, **spec: Any) -> dict[str, Any]:
    """A workflow whose annotation holds this."""
    document = manifest.workflow("restart", **spec)
    document["metadata"]["annotations"] = {"formulary.dev/spec": text, "team": "web"}
    return document


def entry(document: dict[str, Any]) -> Any:
    return catalog_entry(document, source="test", default_namespace="shop")


def test_every_field_that_the_schema_of_upstream_drops_may_be_annotated_but_for_suspend() -> None:
    fields = [set(spec_schema(file)["properties"]) for file in (OURS, UPSTREAM)]
    assert set(ANNOTATED) == fields[0] - fields[1] - {"suspend"}
    labels = [set(spec_schema(file)["properties"]["labels"]["properties"]) for file in (OURS, UPSTREAM)]
    assert set(ANNOTATED_LABELS) == labels[0] - labels[1]


def test_annotated_labels_limit_a_workflow_as_those_of_the_spec_do() -> None:
    declared = {"severity": ["critical"], "environment": ["production"], "component": ["v1/Pod"], "priority": "*"}
    annotation = json.dumps({"labels": {"signalType": ["OOMKilled"], "riskTolerance": ["low"]}, "riskLevel": "high"})
    there = entry(annotated(annotation, labels=declared))
    every = declared | {"signalType": ["OOMKilled"], "riskTolerance": ["low"]}
    here = entry(manifest.workflow("restart", labels=every, riskLevel="high"))
    assert there.labels == here.labels
    assert there.version_id == here.version_id


def test_annotated_fields_are_the_same_content_as_those_of_the_spec() -> None:
    there = entry(annotated(json.dumps({"riskLevel": "high", "steps": STEPS})))
    here = entry(manifest.workflow("restart", riskLevel="high", steps=STEPS))
    assert there.workflow.spec == here.workflow.spec
    assert there.version_id == here.version_id
    assert there.document["spec"] == here.document["spec"]
    assert there.document["metadata"]["annotations"] == {"team": "web"}
    assert entry(annotated('{"riskLevel": "high"}', riskLevel="high", steps=STEPS)).version_id == here.version_id


def test_annotated_labels_do_not_make_up_for_labels_that_are_none() -> None:
    with pytest.raises(InvalidManifest) as refusal:
        entry(annotated('{"labels": {"signalType": ["OOMKilled"]}}', labels="critical"))
    assert refusal.value.field == "spec.labels"


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ('{"riskLevel": "enormous"}', "spec.riskLevel", "'enormous'"),
        ('{"steps": [{"nmae": "x", "command": 1}]}', "spec.steps", "steps"),
        ("riskLevel: high", ANNOTATION, "is not a JSON object"),
        ("[]", ANNOTATION, "is not a JSON object"),
        ("[" * 100_000, ANNOTATION, "is not a JSON object"),
        (7, ANNOTATION, "is not a JSON object"),
        ('{"suspend": false}', ANNOTATION, "suspend may not be set here"),
        (
            '{"labels": {"severity": ["low"]}}',
            ANNOTATION,
            "labels.severity may not be set",
        ),
        (
            '{"labels": {"signalType": ["X"]}}',
            ANNOTATION,
            "differs from spec.labels.sig",
        ),
        ('{"labels": ["OOMKilled"]}', ANNOTATION, "labels is no object"),
        ('{"execution": {}}', ANNOTATION, "execution may not be set here"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_field(text: object, field: str, says: str) -> None:
    with pytest.raises(InvalidManifest) as refusal:
        entry(annotated(text))
    assert refusal.value.field.startswith(field)
    assert says in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_an_annotation_that_contradicts_the_spec_is_refused() -> None:
    with pytest.raises(InvalidManifest, match=r"riskLevel differs from spec\.riskLevel"):
        entry(annotated('{"riskLevel": "low"}', riskLevel="high"))


@pytest.mark.parametrize(("said", "suspended"), [("true", True), ("yes", True), ("", True), ("false", False)])
def test_an_annotation_suspends_a_workflow_whatever_it_says_but_false(said: str, suspended: bool) -> None:
    document = manifest.workflow("restart")
    document["metadata"]["annotations"] = {"formulary.dev/suspend": said}

    assert entry(document).workflow.spec.suspend is suspended
    assert entry(document).version_id == entry(manifest.workflow("restart")).version_id


def test_no_annotation_serves_what_the_spec_suspends() -> None:
    document = manifest.workflow("restart", suspend=True)
    document["metadata"]["annotations"] = {"formulary.dev/suspend": "false"}

    assert entry(document).workflow.spec.suspend


def test_what_is_moved_into_annotations_fits_the_schema_of_upstream_and_is_the_same_content() -> None:
    labels = {
        "severity": ["critical"],
        "environment": "*",
        "component": "*",
        "priority": "*",
        "signalType": ["OOMKilled"],
    }
    document = manifest.workflow("restart", labels=labels, riskLevel="high", steps=STEPS, suspend=True)
    there = moved(document)

    assert there["spec"].keys() <= spec_schema(UPSTREAM)["properties"].keys()
    assert there["spec"]["labels"].keys() <= spec_schema(UPSTREAM)["properties"]["labels"]["properties"].keys()
    assert entry(there).version_id == entry(document).version_id
    assert entry(there).workflow.spec == entry(document).workflow.spec
