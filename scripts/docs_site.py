"""Builds the documentation site into build/site/html: `make docs`.

Its pages are those of the repository that README.md leads to, at the same paths, so that a link means the same in a
checkout and on the site. The navigation is the table of README. Zensical makes HTML of the pages. Then each link and
anchor of that HTML is looked up, and `llms.txt` is written. Needs nothing but the standard library and Zensical.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "site"
PAGES, HTML = BUILD / "pages", BUILD / "html"
HOME = "README.md"
SETTINGS = ROOT / "zensical.toml"
_TABLE = "## Read on\n"
_ROW = re.compile(r"^\| ([^|]+) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
_FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"(\*|-|\d+\.) ")
_INDENT = 4
"""Spaces by which Python-Markdown takes a block as part of a list."""
_LONGEST_SUMMARY = 200


def main() -> int:
    """Build the site; 1 where a link leads nowhere."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.rmtree(HTML, ignore_errors=True)
    texts = pages()
    for path, content in texts.items():
        target = PAGES / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    config = BUILD / "zensical.toml"
    config.write_text(configuration(), encoding="utf-8")
    subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--config-file", config, "--strict"], check=True
    )
    for path, content in texts.items():  # as Markdown too, for the agents that read llms.txt
        (HTML / path).parent.mkdir(parents=True, exist_ok=True)
        (HTML / path).write_bytes(content)
    (HTML / "llms.txt").write_text(llms_text(texts), encoding="utf-8")
    lost = lost_links(HTML)
    for page, link in lost:
        print(f"{page}: {link} leads nowhere", file=sys.stderr)
    print(f"{HTML.relative_to(ROOT)}: {sum(1 for _ in HTML.rglob('*.html'))} pages, {len(lost)} broken links")
    return 1 if lost else 0


def pages() -> Mapping[str, bytes]:
    """All that README leads to, by its path: pages as the site needs them, other files as they are."""
    found: dict[str, bytes] = {}
    open_paths = [HOME]
    while open_paths:
        path = open_paths.pop()
        if path in found:
            continue
        file = ROOT / path
        if file.name == HOME and not file.exists():
            text = _index(file.parent)
        elif file.suffix == ".md":
            text = file.read_text(encoding="utf-8")
        else:
            found[path] = file.read_bytes()
            continue
        text = for_site(text, path=path)
        found[path] = text.encode()
        open_paths += [normpath(Path(path).parent / link) for link in links(text)]
    return dict(sorted(found.items()))


def for_site(text: str, *, path: str) -> str:
    """A page with links to directories led to their first page, and lists as Python-Markdown reads them."""

    def led(link: re.Match[str]) -> str:
        target = ROOT / Path(path).parent / link[0]
        return f"{link[0].rstrip('/')}/{HOME}" if target.is_dir() else link[0]

    parts = _FENCED.split(text)  # every second one is a block of code
    return "".join(part if at % 2 else _indented(_LINK.sub(led, part)) for at, part in enumerate(parts))


def _indented(text: str) -> str:
    lines, width = [], 0
    for line in text.splitlines(keepends=True):
        if item := _ITEM.match(line):
            width = len(item[0])
        elif width and line.startswith(" "):
            line = " " * (_INDENT - width) + line
        elif line.strip():
            width = 0
        lines.append(line + "\n" if line.startswith("<!--") else line)
    return "".join(lines)


def links(text: str) -> Iterator[str]:
    for at, part in enumerate(_FENCED.split(text)):
        if at % 2 == 0:
            yield from (link for link in _LINK.findall(part) if not re.match(r"[a-z]+:", link))


def _index(directory: Path) -> str:
    """The first page of a directory that has none."""
    names = sorted(each.name for each in directory.iterdir() if each.is_file())
    lines = "\n".join(f"* [{name.removesuffix('.md')}]({name})" for name in names)
    return f"# {directory.name.capitalize()}\n\n{lines}\n"


def sections() -> Mapping[str, list[str]]:
    """What README's table sends its readers to: the pages, by who reads them."""
    table = (ROOT / HOME).read_text(encoding="utf-8").partition(_TABLE)[2]
    rows = ((who.strip(), re.findall(_LINK, links)) for who, links in _ROW.findall(table))
    return {f"{who[:1].upper()}{who[1:]}": list(dict.fromkeys(links)) for who, links in rows if links}


def configuration() -> str:
    """The configuration of Zensical: `zensical.toml` with the directories and the navigation."""
    listed = [("Home", HOME), *sections().items()]
    navigation = ",\n".join(f"  {{{json.dumps(name)} = {json.dumps(where)}}}" for name, where in listed)
    places = f"docs_dir = {json.dumps(PAGES.name)}\nsite_dir = {json.dumps(HTML.name)}\n"
    head, mark, rest = SETTINGS.read_text(encoding="utf-8").partition("[project]\n")
    return f"{head}{mark}{places}nav = [\n{navigation},\n]\n{rest}"


def llms_text(texts: Mapping[str, bytes]) -> str:
    """The pages with a sentence on each, for language models (llmstxt.org)."""
    site = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["project"]["site_url"]
    lines = [f"# {_title(texts[HOME])}", "", f"> {_summary(texts[HOME])}"]
    for name, where in sections().items():
        lines += ["", f"## {name}", ""]
        lines += [f"- [{_title(texts[path])}]({site}{path}): {_summary(texts[path])}" for path in where]
    return "\n".join([*lines, ""])


def _title(page: bytes) -> str:
    return next(line.removeprefix("# ") for line in page.decode().splitlines() if line.startswith("# "))


def _summary(page: bytes) -> str:
    """The first paragraph, no more of it than its first sentences, without markup."""
    blocks = _FENCED.sub("", page.decode()).split("\n\n")
    text = next((each for each in blocks if each.strip()[:1].isalnum() or each.strip()[:1] in "`["), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", " ".join(text.split()))
    said = ""
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", text):
        if said and len(said) + len(sentence) > _LONGEST_SUMMARY:
            break
        said = f"{said} {sentence}".strip()
    return said


class _Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


def lost_links(site: Path) -> list[tuple[str, str]]:
    """Each link within the site that leads to no file or to no anchor, with its page."""
    parsed = {file: _Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    lost = []
    for file, page in parsed.items():
        for link in dict.fromkeys(page.links):
            url = urlsplit(link)
            if url.scheme or url.netloc or file.name == "404.html":  # whose links begin at the root of the host
                continue
            target = Path(normpath(file.parent / unquote(url.path))) if url.path else file
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(url.fragment)
            if not target.exists() or (anchor and target in parsed and anchor not in parsed[target].anchors):
                lost.append((str(file.relative_to(site)), link))
    return lost


if __name__ == "__main__":
    sys.exit(main())
