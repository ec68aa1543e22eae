"""The CRDs as documents; whether an API server takes them is tested on a real one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from formulary_operator.api.crds import CRDS, crd_text
from formulary_operator.api.reference import reference_page
from formulary_operator.api.schema import PRESERVE, Schema

ROOT = Path(__file__).parents[4]

every_crd = pytest.mark.parametrize("crd", [kind.definition() for kind in CRDS.values()], ids=list(CRDS))


def _root(crd: dict[str, Any]) -> Schema:
    (version,) = crd["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for name, member in schema.get("properties", {}).items():
        yield f"{path}.{name}", member
        yield from _fields(member, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            yield f"{path}[]", schema[inner]
            yield from _fields(schema[inner], f"{path}[]")


@every_crd
def test_every_field_is_explained(crd: dict[str, Any]) -> None:
    unexplained = {
        path for path, field in _fields(_root(crd)) if not path.endswith("[]") and "description" not in field
    }
    assert unexplained == {".metadata"}


@every_crd
def test_every_node_has_a_type_or_keeps_what_it_is_given(crd: dict[str, Any]) -> None:
    assert not [path for path, field in _fields(_root(crd)) if "type" not in field and PRESERVE not in field]


def test_only_one_default_is_written_into_workflows() -> None:
    fields = dict(_fields(_root(CRDS["kubernaut.ai_remediationworkflows.yaml"].definition())))
    assert {path for path, field in fields.items() if "default" in field} == {".spec.execution.engine"}


@pytest.mark.parametrize("directory", ["crds", "charts/formulary/files/crds"])
@pytest.mark.parametrize("name", CRDS)
def test_the_files_hold_these_documents(directory: str, name: str) -> None:
    text = (ROOT / directory / name).read_text(encoding="utf-8")
    assert text == crd_text(CRDS[name].definition())
    assert yaml.safe_load(text) == CRDS[name].definition()
    assert "{{" not in text, "the chart would take it for a template"


@every_crd
def test_the_reference_page_lists_every_field(crd: dict[str, Any]) -> None:
    page = reference_page()
    for path, field in _fields(_root(crd)):
        if path.startswith((".spec", ".status")) and "description" in field and not path.endswith("[]"):
            assert f"| `{path[1:]}` |" in page
