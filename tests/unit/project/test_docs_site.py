"""The documentation site: what it is made of. `make docs` builds it and looks each link of its HTML up."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.scripts import script

ROOT = Path(__file__).parents[3]
site = script("docs_site")


@pytest.fixture(scope="module")
def pages() -> Mapping[str, bytes]:
    found: Mapping[str, bytes] = site.pages()
    return found


def test_every_page_of_the_docs_is_on_the_site_and_in_its_navigation_once(pages: Mapping[str, bytes]) -> None:
    listed = [path for where in site.sections().values() for path in where]
    written = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")}

    assert written <= pages.keys()
    assert len(listed) == len(set(listed))
    pages_to_read = {path for path in written if path.count("/") == 1 or path.startswith("docs/reference/")}
    assert pages_to_read - {"docs/coverage-kube-prometheus.md"} <= set(listed)


def test_a_directory_without_a_first_page_gets_one(pages: Mapping[str, bytes]) -> None:
    runbooks = pages["docs/runbooks/README.md"].decode()

    assert "* [FormularyHalted](FormularyHalted.md)\n" in runbooks
    assert "(runbooks/README.md)" in pages["docs/operations.md"].decode()


def test_blocks_in_lists_are_indented_as_python_markdown_reads_them_and_code_stays_as_it_is() -> None:
    page = "* one\n  more\n\n  ```sh\n  a\n  ```\n1. two\n\n   three\n\n```\n  code\n```\n\ntext\n  not in a list\n"

    said = site.for_site(page, path="docs/x.md")

    assert "* one\n    more\n\n    ```sh\n    a\n    ```\n1. two\n\n    three\n" in said
    assert "```\n  code\n```\n\ntext\n  not in a list\n" in said


def test_models_get_a_list_of_all_pages_with_a_sentence_on_each(pages: Mapping[str, bytes]) -> None:
    text = site.llms_text(pages)

    assert text.startswith("# Formulary\n\n> ")
    entries = re.findall(r"^- \[.+\]\(https://formulary\.dev/(.+\.md)\): (.+)$", text, re.MULTILINE)
    assert {path for path, _ in entries} == {path for where in site.sections().values() for path in where}
    assert [path for path, summary in entries if len(summary) > 400 or "](" in summary] == []


@pytest.mark.parametrize(
    ("link", "is_lost"),
    [
        ("b/", False),
        ("b/#there", False),
        ("b/#gone", True),
        ("c/", True),
        ("#gone", True),
        ("https://example.com/x", False),
        ("picture.png", True),
    ],
)
def test_a_link_of_the_site_that_leads_nowhere_is_found(link: str, is_lost: bool, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h1 id="there">B</h1>')
    (tmp_path / "index.html").write_text(f'<a href="{link}">x</a>')

    assert site.lost_links(tmp_path) == ([("index.html", link)] if is_lost else [])
