"""Documents of one load are validated and settled against each other."""

import pytest

from formulary_catalog.domain.workflows.identity import precedence
from formulary_catalog.loading.documents import ManifestDocument, Rejection
from formulary_catalog.loading.manifests import Manifests, sort_out
from support.manifest import analysis, workflow


def settle(**documents: dict[str, object]) -> Manifests:
    """Each keyword is a file."""
    found = [ManifestDocument(source=f"{name}.yaml", content=content) for name, content in documents.items()]
    return sort_out(found, default_namespace="formulary")


def test_workflows_and_contexts_are_taken_and_other_kinds_counted() -> None:
    manifests = settle(
        a=workflow("restart"),
        b=analysis("ai", remediation_id="rr-1", labels={"team": ["x"]}),
        c={"apiVersion": "v1", "kind": "ConfigMap"},
        d={"replicas": 3},
        e={"apiVersion": "other.example/v1", "kind": "RemediationWorkflow"},
        f={"apiVersion": "kubernaut.ai/v1alpha1", "kind": "ActionType"},
    )
    assert [(entry.namespace, entry.name, entry.source) for entry in manifests.served] == [
        ("formulary", "restart", "a.yaml")
    ]
    assert [(found.source, found.context.remediation_id) for found in manifests.contexts] == [("b.yaml", "rr-1")]
    assert [document.source for document in manifests.ignored] == ["c.yaml", "d.yaml", "e.yaml", "f.yaml"]
    assert (manifests.rejections, manifests.notes) == ([], [])


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (workflow("Bad_Name"), "metadata.name", "a.yaml: metadata.name: "),
        (workflow("a", version="one"), "spec.version", "a.yaml: spec.version: must be a semantic version"),
        (workflow("a", description=3), "spec.description", "a.yaml: spec.description: must be a map (got a number)"),
        (workflow("a", title=[1]), "spec.title", "a.yaml: spec.title: must be text (got a list)"),
        (workflow("a") | {"apiVersion": "kubernaut.ai/v2"}, "apiVersion", "a.yaml: apiVersion: "),
        ({"apiVersion": "v1"}, "kind", "a.yaml: kind: is required; add it"),
        (workflow("a") | {"kind": "RemediationWorkflws"}, "kind", "a.yaml: kind: 'RemediationWorkflws' is unknown; "),
        ({"kind": "AIAnalysys"}, "kind", "a.yaml: kind: 'AIAnalysys' is unknown; did you mean AIAnalysis?"),
        ({"kind": "RemediationWorkflow"}, "apiVersion", "a.yaml: apiVersion: is required; add it"),
        ({"kind": "AIAnalysis", "spec": 1}, "metadata", "a.yaml: metadata: is required; add it"),
    ],
)
def test_an_invalid_document_is_rejected_with_field_and_reason(
    document: dict[str, object], field: str, message: str
) -> None:
    good = workflow("good")
    manifests = settle(a=document, b=good)
    assert [entry.name for entry in manifests.served] == ["good"]
    (rejection,) = manifests.rejections
    assert (rejection.source, rejection.field, rejection.message.startswith(message)) == ("a.yaml", field, True)


def test_custom_label_values_never_reach_a_message() -> None:
    manifests = settle(a=analysis("ai", remediation_id="rr-1", labels={"team": ["s3cret", 7]}))  # type: ignore[list-item]  # wrong on purpose
    (rejection,) = manifests.rejections
    assert "s3cret" not in rejection.message
    assert "7" not in rejection.message


def test_rejections_of_reading_are_passed_on() -> None:
    broken = Rejection(source="x.yaml", field="", message="x.yaml: broken")
    assert sort_out([broken], default_namespace="formulary").rejections == [broken]


def test_the_same_document_twice_is_kept_once_and_said() -> None:
    manifests = settle(a=workflow("restart"), b=workflow("restart"))
    assert [entry.source for entry in manifests.served] == ["a.yaml"]
    assert manifests.rejections == []
    assert [note.message for note in manifests.notes] == [
        "b.yaml: formulary/restart 1.0.0 is also in a.yaml with the same content; remove one"
    ]


def test_the_same_version_with_other_content_is_refused_naming_both_files() -> None:
    manifests = settle(a=workflow("restart"), b=workflow("restart", what="Deletes it."))
    assert [entry.source for entry in manifests.served] == ["a.yaml"]
    (rejection,) = manifests.rejections
    assert rejection == Rejection(
        source="b.yaml",
        field="spec.version",
        message="b.yaml: spec.version: formulary/restart 1.0.0 is also in a.yaml with other content, which is served; "
        "raise spec.version or remove one",
    )


def test_the_highest_version_is_served_and_the_others_are_history() -> None:
    manifests = settle(
        a=workflow("restart", version="1.10.0"),
        b=workflow("restart", version="1.9.0"),
        c=workflow("restart", version="v1.10.0-rc.1"),
    )
    assert [entry.version for entry in manifests.served] == ["1.10.0"]
    assert [entry.version for entry in manifests.history] == ["1.9.0", "1.10.0-rc.1"]
    assert [note.message for note in manifests.notes] == [
        "b.yaml: formulary/restart 1.9.0 is kept as history; 1.10.0 (a.yaml) is served",
        "c.yaml: formulary/restart 1.10.0-rc.1 is kept as history; 1.10.0 (a.yaml) is served",
    ]


def test_one_name_in_two_namespaces_is_two_workflows() -> None:
    elsewhere = workflow("restart")
    elsewhere["metadata"]["namespace"] = "shop"
    manifests = settle(a=workflow("restart"), b=elsewhere)
    assert [entry.namespace for entry in manifests.served] == ["formulary", "shop"]


def test_contexts_that_contradict_each_other_are_refused() -> None:
    manifests = settle(
        a=analysis("ai", remediation_id="rr-1"),
        b=analysis("ai", remediation_id="rr-1"),
        c=analysis("ai", remediation_id="rr-2"),
    )
    assert [found.source for found in manifests.contexts] == ["a.yaml"]
    assert [note.message for note in manifests.notes] == [
        "b.yaml: AIAnalysis shop/ai is also in a.yaml with the same content; remove one"
    ]
    assert [rejection.message for rejection in manifests.rejections] == [
        "c.yaml: metadata.name: AIAnalysis shop/ai is also in a.yaml with other content, which counts; remove one"
    ]


def test_versions_sort_as_semantic_versioning_says() -> None:
    ascending = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.0+build",
        "1.2.0",
        "1.10.0",
        "2.0.0",
    ]
    shuffled = ascending[::2] + ascending[1::2]
    assert sorted(shuffled, key=precedence) == ascending
