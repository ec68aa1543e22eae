"""RemediationWorkflow manifests: what is tolerated, what is refused, and what becomes of the accepted ones."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.workflows.labels import DIMENSIONS
from formulary_catalog.domain.workflows.manifest import MAX_LEXICAL_TEXT
from formulary_catalog.errors import InvalidManifest
from support import manifest
from support.filling import entry

REQUIRED = ("version", "description", "actionType", "labels", "execution")


def _with(path: str, value: Any) -> dict[str, Any]:
    """A valid document with one value replaced; `path` is dotted."""
    document = copy.deepcopy(manifest.workflow("oom-restart"))
    *parents, last = path.split(".")
    part = document
    for parent in parents:
        part = part.setdefault(parent, {})
    part[last] = value
    return document


def _refusal(document: Any) -> InvalidManifest:
    with pytest.raises(InvalidManifest) as refusal:
        catalog_entry(document, source="shop.yaml#2", default_namespace="formulary")
    message = str(refusal.value)
    assert message.startswith("shop.yaml#2: ")
    assert message.isprintable()
    assert len(message) < 1000
    assert refusal.value.source == "shop.yaml#2"
    return refusal.value


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_scalar_stands_for_a_list_of_one(dimension: str) -> None:
    field = f"spec.labels.{to_camel(dimension)}"
    assert entry(_with(field, " Value ")).labels.values[dimension] == {"value"}
    assert entry(_with(field, ["Value"])).labels.values[dimension] == {"value"}


@pytest.mark.parametrize("field", ["keywords", "prerequisites"])
def test_scalar_texts_stand_for_lists_of_one(field: str) -> None:
    assert getattr(entry(_with(f"spec.{field}", "one thing")).workflow.spec, field) == ["one thing"]


@pytest.mark.parametrize(
    ("written", "version"),
    [("1.2.0", "1.2.0"), ("v1.2.0", "1.2.0"), ("1.2.0-rc.1+build.5", "1.2.0-rc.1+build.5"), ("10.20.30", "10.20.30")],
)
def test_a_leading_v_is_dropped_from_the_version(written: str, version: str) -> None:
    assert entry(_with("spec.version", written)).version == version


@pytest.mark.parametrize(
    "version", ["1.2", "1", "latest", "V1.2.0", "1.2.0.4", "1.2.0-", " 1.2.0", "1.2.0\n", "\uff11.2.0", 1.2]
)
def test_what_is_no_semantic_version_is_refused(version: object) -> None:
    refusal = _refusal(_with("spec.version", version))
    assert refusal.field == "spec.version"


@pytest.mark.parametrize(
    ("written", "kept"), [(True, "true"), ("True", "true"), ("false", "false"), (" ArgoCD ", "argocd")]
)
def test_detected_labels_are_booleans_or_text_quoted_or_not(written: object, kept: str) -> None:
    assert entry(_with("spec.detectedLabels", {"gitOpsTool": written})).labels.detected == {"gitOpsTool": kept}


def test_suspend_may_be_quoted() -> None:
    assert entry(_with("spec.suspend", "true")).workflow.spec.suspend is True


def test_custom_label_values_are_one_or_many_and_kept_as_given() -> None:
    custom = entry(_with("spec.customLabels", {"team": " Payments ", "region": ["eu", "US"], "none": []})).labels.custom
    assert custom == {"team": {" Payments "}, "region": {"eu", "US"}}


def test_unknown_fields_are_kept_and_count_as_content() -> None:
    plain, extended = entry(_with("spec.title", "T")), entry(_with("spec.future", {"nested": [1, True, None]}))
    assert extended.document["spec"]["future"] == {"nested": [1, True, None]}
    assert extended.content_hash != plain.content_hash


def test_metadata_that_the_cluster_adds_is_not_content() -> None:
    document = manifest.workflow("oom-restart")
    decorated = copy.deepcopy(document)
    decorated["metadata"] |= {"uid": "1", "resourceVersion": "5", "annotations": {"a": "b"}}
    decorated["status"] = {"catalogStatus": "Active"}
    assert entry(decorated).version_id == entry(document).version_id


def test_the_namespace_of_the_manifest_wins_over_the_default_and_is_part_of_the_identity() -> None:
    named = _with("metadata.namespace", "shop")
    assert entry(named, namespace="other").namespace == "shop"
    assert entry(_with("metadata.namespace", None), namespace="other").namespace == "other"
    assert entry(named).content_hash != entry(manifest.workflow("oom-restart")).content_hash
    assert entry(named).content_hash == entry(manifest.workflow("oom-restart"), namespace="shop").content_hash


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_field_is_named(field: str) -> None:
    document = manifest.workflow("oom-restart")
    del document["spec"][field]
    refusal = _refusal(document)
    assert refusal.field == f"spec.{field}"
    assert "required" in str(refusal)


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("apiVersion", "v1", "'v1'"),
        ("kind", "Workflow", "'Workflow'"),
        ("metadata.name", "OOM_Restart", "'OOM_Restart'"),
        ("metadata.name", "a" * 254, "253"),
        ("metadata.namespace", "a.b", "'a.b'"),
        ("spec.actionType", "restart pod", "'restart pod'"),
        ("spec.description.what", "", "''"),
        ("spec.description.whenToUse", " \n ", "blank"),
        ("spec.description.what", "x" * 10_001, "10000"),
        ("spec.labels.severity", [], "at least 1"),
        ("spec.labels.severity", None, "is required"),
        ("spec.labels.severity", " ", "blank"),
        ("spec.labels.cluster", ["\x1f"], "blank"),
        ("spec.labels.priority", "P" * 254, "253"),
        ("spec.labels.component", 5, "(got 5)"),
        ("spec.labels.component", [True], "(got True)"),
        ("spec.execution.engine", "lambda", "'lambda'"),
        ("spec.riskLevel", "extreme", "'extreme'"),
        ("spec.suspend", "perhaps", "'perhaps'"),
        ("spec.title", [], "a list"),
        ("spec.detectedLabels", {"hpaEnabled": 5}, "(got 5)"),
        ("spec.related", [{"name": "b", "relation": "likes"}], "'likes'"),
        ("spec.maintainers", [{"name": "a", "email": "nobody"}], "'nobody'"),
        ("spec.parameters", [{"name": "A", "type": "text", "required": True, "description": "d"}], "'text'"),
        ("spec.title", "nul\0", "NUL"),
    ],
)
def test_a_refusal_names_the_field_the_value_and_the_rule(path: str, value: object, shown: str) -> None:
    refusal = _refusal(_with(path, value))
    assert refusal.field.startswith(path)
    assert f"{refusal.field}: " in str(refusal)
    assert shown in str(refusal)


@pytest.mark.parametrize("document", [[], "text", None, 5, {}])
def test_what_is_no_map_of_fields_is_refused(document: object) -> None:
    assert "got" in str(_refusal(document)) or "required" in str(_refusal(document))


def test_many_problems_are_counted_rather_than_listed() -> None:
    refusal = _refusal(_with("spec.steps", [{"name": ""}] * 9))
    assert "and 4 more" in str(refusal)


SECRET = "s3cret-value"


@pytest.mark.parametrize(
    "document",
    [
        _with("spec.customLabels", SECRET),
        _with("spec.customLabels", [SECRET]),
        _with("spec.customLabels", {"team": {"a": SECRET}}),
        _with("spec.customLabels", {"team": [SECRET, 5]}),
        _with("spec.customLabels", {"team": [f"{SECRET}\0"]}),
        _with("spec.customLabels", {"te.am": [SECRET * 100]}),
        _with("spec.customLabels", {"": SECRET}),
        _with("spec", [{"customLabels": {"team": SECRET}}]),
        _with("spec", f'{{"customLabels": {{"team": "{SECRET}"}}}}'),
        _with("metadata", {"customLabels": {"team": SECRET}}),
        [{"spec": {"customLabels": {"team": SECRET}}}],
    ],
)
def test_values_of_custom_labels_are_never_shown(document: Any) -> None:
    assert SECRET[-6:] not in str(_refusal(document))


def test_a_key_with_a_line_break_or_of_great_length_keeps_the_message_short_and_on_one_line() -> None:
    refusal = _refusal(_with("spec.customLabels", {"a\nb": 5, "k" * 2000: 5}))
    assert "a\\nb" in str(refusal)


@pytest.mark.parametrize(
    "value", ["a\0", {"a\0": 1}, ["\ud800"], float("nan"), float("inf"), {1: "a", "b": 2}, object(), b""]
)
@pytest.mark.parametrize("path", ["spec.future", "spec.execution.engineConfig", "metadata.annotations", "status"])
def test_a_value_that_the_database_cannot_hold_is_refused_wherever_it_is(path: str, value: object) -> None:
    assert path.startswith(_refusal(_with(path, value)).field)


def test_text_that_looks_like_an_escaped_nul_is_fine() -> None:
    assert entry(_with("spec.future", "\\u0000")).document["spec"]["future"] == "\\u0000"


def test_absurd_nesting_is_refused() -> None:
    value: list[Any] = []
    for _ in range(20_000):
        value = [value]
    assert _refusal(_with("spec.future", value)).field == "spec"


@given(
    labels=st.fixed_dictionaries(
        {
            to_camel(dimension): st.lists(
                st.text(
                    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9
                ).filter(str.strip),
                min_size=1,
                max_size=3,
            )
            for dimension in DIMENSIONS
        }
    )
)
def test_no_declared_label_is_lost(labels: dict[str, list[str]]) -> None:
    accepted = entry(_with("spec.labels", labels)).labels.values
    assert accepted.keys() == set(DIMENSIONS)
    for dimension in DIMENSIONS:
        assert accepted[dimension] == {value.strip().casefold() for value in labels[to_camel(dimension)]}


def _texts(accepted: CatalogEntry) -> str:
    return " ".join([accepted.embedding_text, *accepted.lexical_texts.values()])


def test_only_name_use_and_purpose_are_embedded_and_nothing_negative_is_ranked() -> None:
    document = manifest.workflow("oom-restart", what="Frees KubeMemory.", title="Grand title", keywords=["exit 137"])
    document["spec"]["description"] |= {"whenNotToUse": "negative", "preconditions": "beforehand"}
    accepted = entry(document)
    assert accepted.embedding_text == ("oom restart. When oom-restart helps. Frees KubeMemory. Kube Memory")
    assert accepted.lexical_texts == {
        WordPlace.NAME: "oom restart oomrestart Grand title Restart Pod exit 137",
        WordPlace.WHEN_TO_USE: "When oom-restart helps.",
        WordPlace.WHAT: "Frees KubeMemory. Kube Memory",
        WordPlace.SIGNAL: "OOMKilled OOM Killed",
    }
    assert not any(word in _texts(accepted) for word in ("negative", "beforehand", "production", "critical"))


def test_exclusion_sees_name_title_description_keywords_and_action_type() -> None:
    text = entry(
        manifest.workflow("oom-restart", what="Frees.", title="Grand", keywords=["exit 137"])
    ).labels.exclusion_text
    assert all(f" {word} " in text for word in ("oom", "grand", "frees", "exit 137", "restartpod"))


def test_equal_texts_share_a_vector_whatever_else_differs() -> None:
    one, other = entry(_with("spec.title", "One")), entry(_with("spec.version", "2.0.0"))
    assert one.text_hash == other.text_hash
    assert one.text_hash != entry(_with("spec.description.what", "Else.")).text_hash


def test_a_flood_of_keywords_does_not_outgrow_the_index() -> None:
    accepted = entry(_with("spec.keywords", [f"word{number}" for number in range(50_000)]))
    assert len(accepted.lexical_texts[WordPlace.NAME]) == MAX_LEXICAL_TEXT
