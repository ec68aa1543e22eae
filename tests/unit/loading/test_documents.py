"""A file's bytes become documents, whatever is in them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.loading import documents
from formulary_catalog.loading.documents import ManifestDocument, Rejection, file_of, read_documents
from formulary_catalog.loading.syntax import SyntaxProblem, parse_json, parse_yaml


def read(tmp_path: Path, content: str | bytes, *, name: str = "a.yaml") -> list[ManifestDocument | Rejection]:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_documents(path, name=name)


def contents(found: list[ManifestDocument | Rejection]) -> list[dict[str, Any]]:
    return [document.content for document in found if isinstance(document, ManifestDocument)]


def problems(found: list[ManifestDocument | Rejection]) -> list[str]:
    return [rejection.message for rejection in found if isinstance(rejection, Rejection)]


def test_a_broken_document_does_not_lose_its_neighbours(tmp_path: Path) -> None:
    found = read(tmp_path, "a: 1\n---\nb: [\n---\nc: 3\n")
    assert contents(found) == [{"a": 1}, {"c": 3}]
    assert problems(found) == [
        "a.yaml (document 2): line 4: did not find expected node content while parsing a flow node"
    ]


def test_sources_name_the_document_only_where_a_file_holds_several(tmp_path: Path) -> None:
    assert [document.source for document in read(tmp_path, "a: 1\n")] == ["a.yaml"]
    assert [document.source for document in read(tmp_path, "a: 1\n---\nb: 2\n")] == [
        "a.yaml (document 1)",
        "a.yaml (document 2)",
    ]


@pytest.mark.parametrize(
    "source", ["dir/a.yaml", "dir/a.yaml (document 2)", "dir/a.yaml (document 2, item 3)", "dir/a.yaml (item 4)"]
)
def test_a_source_tells_its_file(source: str) -> None:
    assert file_of(source) == "dir/a.yaml"


@pytest.mark.parametrize(
    "text",
    [
        "---\n# a comment\n---\n\n---\na: 1\n",
        "%YAML 1.1\n---\na: 1\n",
        "--- # a comment\na: 1\n...\n",
        "---\na: 1\n---\n",
        "\ufeffa: 1\r\n",
        "--- {a: 1}",
        "null\n---\na: 1",
    ],
)
def test_markers_comments_and_empty_documents_are_no_documents(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert (contents(found), problems(found)) == ([{"a": 1}], [])


def test_a_marker_inside_an_indented_block_is_text(tmp_path: Path) -> None:
    assert contents(read(tmp_path, "a: |\n  ---\n  b\n")) == [{"a": "---\nb\n"}]


def test_line_ends_of_windows_are_read(tmp_path: Path) -> None:
    assert contents(read(tmp_path, "a: 1\r\n---\r\nb: |\r\n  x\r\n  y\r\n")) == [{"a": 1}, {"b": "x\ny\n"}]


def test_dates_and_a_lone_equals_sign_stay_text() -> None:
    assert parse_yaml("a: 2026-01-31\nb: 2026-01-31 10:00:00\nc: =") == {
        "a": "2026-01-31",
        "b": "2026-01-31 10:00:00",
        "c": "=",
    }


def test_a_list_stands_for_its_items(tmp_path: Path) -> None:
    found = read(tmp_path, "kind: List\nitems:\n- {a: 1}\n- 7\n- {kind: List, items: [{b: 2}]}\n")
    assert contents(found) == [{"a": 1}, {"b": 2}]
    assert [document.source for document in found] == [
        "a.yaml (item 1)",
        "a.yaml (item 2)",
        "a.yaml (item 3, item 1)",
    ]


def test_a_list_without_items_is_refused(tmp_path: Path) -> None:
    assert problems(read(tmp_path, "kind: List\n")) == ["a.yaml: is a List without a list of items; add items"]


@pytest.mark.parametrize(("text", "kind"), [("- a\n", "a list"), ("hello\n", "a single value")])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str, kind: str) -> None:
    assert problems(read(tmp_path, text)) == [
        f"a.yaml: is {kind}; a manifest is a map with apiVersion, kind and metadata"
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x7fELF\x00\x01", "is a binary file"),
        (b"a: \xff\xfe", "is not UTF-8 text (byte 3)"),
        ("a: 1\n".encode("utf-16"), "is a binary file"),
    ],
)
def test_what_is_not_utf8_text_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert [problem.startswith(f"a.yaml: {reason}") for problem in problems(read(tmp_path, content))] == [True]


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    found = read_documents(tmp_path / "gone.yaml", name="gone.yaml")
    assert problems(found) == [
        "gone.yaml: cannot be read: No such file or directory; check that the file exists and its permissions"
    ]


def test_a_document_over_one_mebibyte_is_refused_and_its_neighbour_is_not(tmp_path: Path) -> None:
    found = read(tmp_path, f"a: {'x' * documents.MAX_DOCUMENT_BYTES}\n---\nb: 1\n")
    assert contents(found) == [{"b": 1}]
    assert problems(found) == ["a.yaml (document 1): is larger than 1024 KiB; split it"]


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with path.open("wb") as file:
        file.truncate(documents.MAX_FILE_BYTES + 1)
    assert problems(read_documents(path, name="a.yaml")) == ["a.yaml: is larger than 64 MiB; split it"]


def _aliases(levels: int, *, width: int) -> str:
    """Each line holds the one before several times over."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


def _merges(levels: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb:\n  c: 2\n  c: 3", "line 4: key 'c' occurs twice in one map; keep one"),
        ("true: 1\nyes: 2", "line 2: key True occurs twice in one map; keep one"),
        (_aliases(12, width=9), "line 6: expands to more than 100000 values; split the document"),
        (_merges(12), "line 6: expands to more than 100000 values; split the document"),
        (_aliases(300, width=1), "is nested deeper than 100 levels; flatten it"),
        ("a: &a [*a]", "line 1: an alias refers to what contains it; write the value out"),
        ("[" + "1," * 250_000 + "1]", "line 1: expands to more than 100000 values; split the document"),
        ("a: " + "[" * 10_000 + "]" * 10_000, "line 1: is nested deeper than 100 levels; flatten it"),
        ("{a: " * 10_000 + "}" * 10_000, "line 1: is nested deeper than 100 levels; flatten it"),
        ("a: !!python/object:os.system x", "line 1: YAML tags such as !!str are not accepted; remove the tag"),
        ("a: !!str 1", "line 1: YAML tags such as !!str are not accepted; remove the tag"),
        ("? [a]\n: b", "line 1: a key must be a single value, not a list or a map"),
        ("a: *b", "line 1: found undefined alias"),
        ("a: b: c", "line 1: mapping values are not allowed in this context"),
        ("a: \x07", "holds control characters that YAML does not allow; write the file as plain text"),
        ('a: "\\0"', "holds a NUL or an unpaired surrogate character; remove it"),
        ("a: " + "1" * 5000, "holds a number that cannot be read; put it in quotes"),
    ],
)
def test_hostile_or_wrong_yaml_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse_yaml(text)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1,\n "a": 2}', "key 'a' occurs twice in one map; keep one"),
        ('{"a":\n }', "line 2: is not valid JSON: Expecting value"),
        ('{"a": ' + "[" * 10_000 + "]" * 10_000 + "}", "is nested deeper than 100 levels; flatten it"),
        ('{"a": ' + "[" * 150 + "]" * 150 + "}", "is nested deeper than 100 levels; flatten it"),
        ('{"a": NaN}', "NaN is not a JSON value; put it in quotes"),
        ('{"a": "\\ud800"}', "holds a NUL or an unpaired surrogate character; remove it"),
        ('{"a\\u0000": 1}', "holds a NUL or an unpaired surrogate character; remove it"),
        ('{"a": ' + "1" * 5000 + "}", "holds a number that cannot be read; put it in quotes"),
    ],
)
def test_hostile_or_wrong_json_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse_json(text)
    assert str(caught.value) == problem


def test_json_files_are_json(tmp_path: Path) -> None:
    found = read(tmp_path, '{"a": "2026-01-31", "b": "\\ud83d\\ude00"}', name="a.json")
    assert contents(found) == [{"a": "2026-01-31", "b": "\N{GRINNING FACE}"}]


def test_merge_keys_and_modest_aliases_are_read() -> None:
    assert parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: *a") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2},
        "c": {"x": 1, "y": 2},
    }


def test_merged_maps_that_override_each_other_have_no_duplicate_keys() -> None:
    text = "base: &base {x: 1}\nmore: {next: &next {<<: *base, x: 2}}\n<<: *next"
    assert parse_yaml(text) == {"base": {"x": 1}, "more": {"next": {"x": 2}}, "x": 2}


@given(st.binary(max_size=300))
def test_any_bytes_give_documents_or_one_line_rejections(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data)
    for found in read_documents(path, name="any.yaml"):
        assert isinstance(found, ManifestDocument) or (
            found.message.startswith("any.yaml") and "\n" not in found.message
        )


# YAML folds its own line breaks, such as NEL, and PyYAML writes them unescaped.
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\x85\u2028\u2029"))
_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="ascii", min_codepoint=32)), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(_plain)
def test_plain_data_survives_both_syntaxes(value: object) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_yaml(yaml.safe_dump(value, allow_unicode=True)) == value


def test_a_long_text_counts_for_more_where_aliases_repeat_it() -> None:
    with pytest.raises(SyntaxProblem, match="expands to more than 100000 values"):
        parse_yaml(f"a: [&s '{'A' * 10_000}'{', *s' * 600}]")


def test_a_number_that_no_machine_holds_is_a_problem_of_its_document() -> None:
    with pytest.raises(SyntaxProblem, match="number that cannot be read"):
        parse_yaml(f"a: {'1:' * 400}1.5")
