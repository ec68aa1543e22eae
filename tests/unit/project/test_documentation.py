"""Pages lead somewhere: links, anchors, and the files that contributors are sent to."""

import re
from pathlib import Path

import pytest
import yaml

from support.filling import entry

ROOT = Path(__file__).parents[3]
SKIPPED = {".venv", "build", "dist", ".git", "node_modules"}
TEMPLATE = ROOT / "benchmarks" / "agents" / "page.md"
"""Its links are those of docs/benchmarks/agents.md, which is written from it."""
PAGES = sorted(
    page.relative_to(ROOT)
    for page in ROOT.rglob("*.md")
    if SKIPPED.isdisjoint(page.relative_to(ROOT).parts[:-1]) and page != TEMPLATE
)
PLACES = (
    ROOT / "catalog" / "formulary_catalog",
    ROOT / "operator" / "formulary_operator",
    ROOT / "charts" / "formulary",
    ROOT / "scripts",
)
MAPS = (Path("CONTRIBUTING.md"), Path("docs/architecture.md"))
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FILE = re.compile(r"`([\w./*-]+(?:\.(?:py|yaml|yml|tpl|md|toml)|/))`")


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: headings, as the usual renderers spell them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").casefold()).replace(" ", "-")
        for heading in _HEADING.findall(prose(page))
    }


def lost_links(page: Path) -> list[str]:
    """Relative links that lead to no page, picture or heading."""
    lost = []
    for link in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target.resolve().relative_to(ROOT.resolve()))):
            lost.append(link)
    return lost


def test_every_relative_link_leads_to_a_page_and_a_heading_of_it_and_every_picture_is_there() -> None:
    assert len(PAGES) > 80
    assert {str(page): lost for page in PAGES if (lost := lost_links(page))} == {}


@pytest.mark.parametrize("page", MAPS, ids=str)
def test_every_file_that_a_map_of_the_house_names_is_there(page: Path) -> None:
    named = {name for name in _FILE.findall(prose(page)) if "/" in name or name.endswith(".py")}
    lost = {name for name in named if not (ROOT / name).exists() and not any(any(p.rglob(name)) for p in PLACES)}

    assert named
    assert lost == set()


def test_the_workflow_that_the_page_on_writing_them_shows_is_valid() -> None:
    page = (ROOT / "docs" / "workflows.md").read_text(encoding="utf-8")
    document = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])

    assert entry(document).name == document["metadata"]["name"]
