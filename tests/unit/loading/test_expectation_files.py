"""Files of expectations: what is broken in them, or would pass in silence, is refused in one line."""

from pathlib import Path

import pytest

from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.expectations import expectations_in
from formulary_catalog.loading.files import find_manifests

WORKFLOWS = {"restart"}


def test_expectations_become_searches_under_the_labels_of_an_incident(tmp_path: Path) -> None:
    (tmp_path / "a.test.yaml").write_text(
        "tests:\n  - {name: a, query: OOMKilled, labels: {risk-tolerance: low, environment: [production, test]}, "
        'customLabels: {restarts: "no"}, detectedLabels: {gitOpsManaged: true}, first: restart}\n'
    )
    (expected,) = expectations_in([tmp_path], workflows=WORKFLOWS)
    request = expected.expectation.request
    assert request.labels == {"risk_tolerance": ("low",), "environment": ("production", "test")}
    assert request.custom_labels == {"restarts": ("no",)}
    assert request.detected_labels == {"gitOpsManaged": "true"}
    assert expected.file == "a.test.yaml"
    assert find_manifests([tmp_path]).files == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tests: []", "a.test.yaml: tests: "),
        ("tests: [{query: x, first: restart}]", "a.test.yaml: tests.0.name: is required; add it"),
        (
            "tests: [{name: a, query: x, firts: restart}]",
            "a.test.yaml: tests.0.firts: is unknown; did you mean first?",
        ),
        ("tests: [{name: a, query: x}]", "a.test.yaml: a: expects nothing; give first, among or never"),
        ("tests: [{name: a, query: x, never: [gone]}]", "a.test.yaml: a: there is no workflow 'gone'"),
        ("tests: [{name: a, query: x, first: restart, labels: {env: p}}]", "labels: label 'env' is unknown"),
        ("tests: [", "a.test.yaml: line "),
    ],
)
def test_what_would_test_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.test.yaml").write_text(text)
    with pytest.raises(InvalidInput) as refused:
        expectations_in([tmp_path], workflows=WORKFLOWS)
    assert said in str(refused.value)
