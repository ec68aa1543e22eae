"""Whatever a file of Markdown holds, it becomes documents of plain words, each small enough to be read at once."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.knowledge.documents import MAX_PART, Section, in_parts
from formulary_catalog.domain.knowledge.markdown import MAX_RUNBOOK_BYTES, MAX_SECTIONS, runbook_documents
from formulary_catalog.domain.visible import visible
from formulary_catalog.errors import InvalidInput

PIECES = [
    *(
        "# Disk\n",
        "## Free space\n",
        "## Free space\n",
        "Setext\n===\n",
        "text\n",
        "\n",
        "- item\n",
        "  1. inner\n",
        "> # quoted\n",
    ),
    *("```\n# no heading\n```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "![alt](https://x/y.png)", "<div>x</div>\n"),
    *("<!-- hidden -->", "[words](https://example.com/target)", "<b>bold</b>", "&lt;script&gt;", "\\# not", "---\n"),
    *("\u202eturned", "\u200bhidden", "*a ", "**b", "`", "[", "](", "<", "    code\n", "\t", "\r\n"),
]
markdown = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=30).map("".join)
words = st.text(st.sampled_from('abc ä漢\n"\\\t'), max_size=9000)


def parsed(text: str, *, name: str = "runbooks/disk-full.md") -> list[tuple[str, str, str]]:
    documents = runbook_documents(text.encode(), namespace="formulary", source_file=name)
    return [(each.doc_id.partition("#")[2], each.section_title, each.text) for each in documents]


@given(markdown.filter(lambda text: "\0" not in text))
def test_every_document_has_an_id_of_its_own_and_says_something_that_can_be_seen(text: str) -> None:
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return
    documents = runbook_documents(content, namespace="formulary", source_file="runbooks/disk.md")
    assert len({each.doc_id for each in documents}) == len(documents)
    for each in documents:
        assert each.text.strip()
        assert each.section_title.strip()
        assert each.text == visible(each.text)
        assert len(json.dumps(each.text, ensure_ascii=False).encode()) <= MAX_PART
        assert (each.namespace, each.source_file) == ("formulary", "runbooks/disk.md")
        assert re.fullmatch(r"rb_[0-9a-f]{20}#\S+", each.doc_id)


@given(words)
def test_parts_hold_all_of_a_text_in_its_order(text: str) -> None:
    parts = list(in_parts(Section("steps", "Steps", text)))
    names = ["steps", *(f"steps~{number}" for number in range(2, len(parts) + 1))]
    assert [part.name for part in parts] == names[: len(parts)]
    assert "".join("".join(part.text for part in parts).split()) == "".join(visible(text).split())
    assert all(len(json.dumps(part.text, ensure_ascii=False).encode()) <= MAX_PART for part in parts)


def test_each_heading_with_a_text_of_its_own_is_a_document() -> None:
    text = "intro\n\n# Disk full\n\n## Empty\n\n## Check\n\nLook at `df -h`.\n\n## Check\n\n> # quoted\n"
    assert parsed(text) == [
        ("text", "Disk full", "intro"),
        ("check", "Check", "Look at df -h."),
        ("check.2", "Check", "quoted"),
    ]


def test_lists_code_and_tables_stay_readable() -> None:
    text = (
        "# A\n\n1. first\n   - inner\n2. second\n\n```sh\ndf -h\n  crictl rmi\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    assert parsed(text)[0][2] == "1. first\n  - inner\n2. second\ndf -h\n  crictl rmi\na | b\n1 | 2"


def test_images_html_comments_and_targets_of_links_are_left_out() -> None:
    words_ = "see ![chart](https://x/secret.png) [the page](https://x/target) <b>now</b> <!-- obey me -->"
    text = f"# A\n\n{words_}\n\n<div>obey</div>\n"
    ((_, _, said),) = parsed(text)
    assert said == "see  the page now"


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("title: Disk is full\ntags: [NodeDiskFull]", "Disk is full. NodeDiskFull"),
        ("name: Disk is full\nkeywords: [a, b]\nalerts: C", "Disk is full. a, b, C"),
        ("title: [a, list]", "Disk"),
        ("- a list", "Disk"),
        ("title: {unclosed", "Disk"),
        ("a: &a [x]\nb: {<<: [*a, *a]}\ntitle: Full", "Full"),
        ("x" * 5000, "Disk"),
        ("[" * 3000, "Disk"),
    ],
)
def test_front_matter_gives_title_and_keywords_or_nothing(front: str, title: str) -> None:
    (document,) = runbook_documents(
        f"---\n{front}\n---\n# Disk\n\ntext\n".encode(), namespace="formulary", source_file="runbooks/x.md"
    )
    assert document.title.startswith(title.split(". ")[0])
    assert all(part in document.title for part in title.split(". "))
    assert document.text == "text"


def test_a_file_without_heading_or_title_goes_by_its_name() -> None:
    ((_, title, said),) = parsed("only words")
    assert (title, said) == ("Disk full", "only words")


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"x" * (MAX_RUNBOOK_BYTES + 1), "more than 1000000; split it"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"a\0b", "contains the NUL character"),
        (b"# a\n\nb\n\n" * (MAX_SECTIONS + 1), "more than 1000; split it"),
    ],
)
def test_what_nobody_could_read_is_refused_by_its_name(content: bytes, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^runbooks/x\.md: .*{rule}"):
        runbook_documents(content, namespace="formulary", source_file="runbooks/x.md")


def test_the_same_file_of_two_namespaces_has_two_ids() -> None:
    ids = {
        runbook_documents(b"a", namespace=namespace, source_file="runbooks/x.md")[0].doc_id
        for namespace in ("shop", "bank")
    }
    assert len(ids) == 2


def test_a_skill_is_found_by_its_description() -> None:
    text = "---\nname: pending-pods\ndescription: Pods hang in Pending.\n---\n# Pending pods\n\n## Fix\n\nAdd a node.\n"
    first, fix = runbook_documents(text.encode(), namespace="formulary", source_file="skills/SKILL.md")
    assert "Pods hang in Pending." in first.text
    assert "Pods hang" not in fix.text
