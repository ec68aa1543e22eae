"""The schema that editors check manifests by takes what the product takes, and marks what is misspelt."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from support.filling import starter_documents
from support.manifest import workflow

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "schemas" / "remediationworkflow.schema.json").read_text())
UPSTREAM = list(yaml.safe_load_all((ROOT / "tests" / "support" / "upstream_manifests.yaml").read_text()))


def problems(document: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft4Validator(SCHEMA).iter_errors(document)]


def test_the_schema_is_one_and_takes_the_starter_catalog_and_the_manifests_of_upstream() -> None:
    jsonschema.Draft4Validator.check_schema(SCHEMA)
    documents = [*starter_documents(ROOT / "catalog" / "workflows"), *filter(None, UPSTREAM)]
    kept = [each for each in documents if each["kind"] == "RemediationWorkflow"]

    assert len(kept) > 100
    assert {each["metadata"]["name"]: found for each in kept if (found := problems(each))} == {}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"customLabel": {"team": "shop"}}, "'customLabel' was unexpected"),
        ({"riskLevel": "none"}, "'none' is not one of"),
        ({"version": "1.x"}, "'1.x' does not match"),
        ({"steps": [{"command": "true"}]}, "'name' is a required property"),
    ],
)
def test_what_is_misspelt_or_wrong_is_marked(spec: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in problems(workflow("a", **spec)))
