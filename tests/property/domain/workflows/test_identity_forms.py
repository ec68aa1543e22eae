"""Content hashes, version ids and the forms in which a workflow may be named."""

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.workflows.identity import WorkflowReference, content_hash, parse_reference, version_id
from formulary_catalog.errors import InvalidInput

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
specs = st.dictionaries(st.text(max_size=5), json_values, max_size=4)
names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
versions = st.from_regex(r"[0-9]{1,2}\.[0-9]\.[0-9](-[a-z0-9]{1,4})?", fullmatch=True)
version_ids = st.from_regex(r"wf_ver_[0-9a-f]{20}", fullmatch=True)


def _hash(spec: dict[str, Any], *, namespace: str = "formulary", name: str = "a") -> str:
    return content_hash(
        api_version="kubernaut.ai/v1alpha1", kind="RemediationWorkflow", namespace=namespace, name=name, spec=spec
    )


def _reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reordered(value[key]) for key in random.Random(1).sample(list(value), len(value))}
    return [_reordered(item) for item in value] if isinstance(value, list) else value


def test_the_hash_of_a_known_object_never_changes() -> None:
    digest = _hash({"version": "1.0.0", "title": "Grüße", "n": 1.5, "none": None})
    assert digest == "80cfdb537f0ea32a86600ff09f318a9ba6ba28f94621392959843be600b0e4a4"
    assert version_id(digest) == f"wf_ver_{digest[:20]}"


@given(spec=specs)
def test_the_hash_depends_on_content_and_not_on_key_order_or_spelling(spec: dict[str, Any]) -> None:
    assert _hash(spec) == _hash(_reordered(spec)) == _hash(json.loads(json.dumps(spec, indent=2)))


@given(spec=specs, key=st.text(max_size=5), value=json_values)
def test_any_change_of_the_spec_changes_the_hash(spec: dict[str, Any], key: str, value: Any) -> None:
    changed = copy.deepcopy(spec) | {key: [value]}
    assert (_hash(changed) == _hash(spec)) == (json.dumps(changed, sort_keys=True) == json.dumps(spec, sort_keys=True))


def test_namespace_and_name_are_part_of_the_hash() -> None:
    digests = {_hash({}), _hash({}, namespace="shop"), _hash({}, name="b"), _hash({}, namespace="a", name="formulary")}
    assert len(digests) == 4


def test_a_number_that_json_cannot_carry_has_no_hash() -> None:
    with pytest.raises(ValueError, match="JSON"):
        _hash({"limit": float("inf")})


@given(name=names, namespace=names | st.just(""), version=versions | st.just(""), prefix=st.sampled_from(["", "v"]))
def test_every_form_of_a_name_is_read_back_as_written(name: str, namespace: str, version: str, prefix: str) -> None:
    reference = WorkflowReference(name=name, namespace=namespace, version=version)
    assert parse_reference(f"  {reference} ") == reference
    spelled = str(WorkflowReference(name=name, namespace=namespace))
    assert parse_reference(spelled, version=f"{prefix}{version}" if version else "") == reference
    if version:
        assert parse_reference(f"{spelled}@{prefix}{version}", version=f"v{version}") == reference


@given(pinned=version_ids, version=versions)
def test_a_version_id_stands_alone_or_with_its_version(pinned: str, version: str) -> None:
    assert parse_reference(pinned) == WorkflowReference(version_id=pinned)
    assert parse_reference(pinned, version=version) == WorkflowReference(version_id=pinned, version=version)
    assert str(parse_reference(pinned)) == pinned


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "A",
        "a_b",
        "-a",
        "a-",
        "a/b/c",
        "/a",
        "a/",
        "a@",
        "@1.0.0",
        "a@1 0",
        "a@1.0.0@2",
        "wf_ver_",
        "wf_ver_xyz",
        "wf_ver_" + "0" * 19,
        "wf_ver_" + "A" * 20,
        "a\0",
        "a\nb",
        "a" * 401,
        "a@" + "1" * 51,
        "'; drop table",
        "\uff41",
        "a@\uff11",
    ],
)
def test_what_is_no_name_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(InvalidInput, match="namespace/name") as refusal:
        parse_reference(text)
    assert refusal.value.field == "workflow_id"
    assert "\n" not in str(refusal.value)
    assert "\0" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("version", ["1.0.0 or 1", "1\0", "\ud800", "1/2", "x" * 60, "\uff11.0.0"])
def test_a_version_that_cannot_be_one_is_refused_before_the_database_sees_it(version: str) -> None:
    with pytest.raises(InvalidInput, match="semantic version") as refusal:
        parse_reference("a", version=version)
    assert refusal.value.field == "version"
    assert str(refusal.value).encode().decode().isprintable()


def test_two_different_versions_contradict_each_other() -> None:
    with pytest.raises(InvalidInput, match="contradicts"):
        parse_reference("a@1.0.0", version="2.0.0")


@given(text=st.text(max_size=30), version=st.text(max_size=10))
def test_any_text_is_a_reference_or_a_refusal(text: str, version: str) -> None:
    try:
        told = str(parse_reference(text, version=version))
    except InvalidInput as refusal:
        told = str(refusal)
    assert told.isprintable()
