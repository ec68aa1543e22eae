"""What the release workflow asks of this tree: `release.py check TAG`, `notes`, `chart` and `server`.

`chart` packs the chart so that the same files give the same bytes, which Helm's own `package` does not do. With the
address of a pushed image, the packed chart runs that image and no other. Needs the standard library only.
"""

import argparse
import gzip
import io
import json
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
_CHART = Path("charts", "formulary")
_SERVER = Path("server.json")
_NOT_PACKED = ("ci", "README.md.head", ".helmignore")
_IMAGE = re.compile(r"(?P<repository>[a-z0-9][\w.:/-]*)@(?P<digest>sha256:[0-9a-f]{64})")
_DEFAULT_IMAGE = {
    "Chart.yaml": (("\n      image: formulary\n", "\n      image: {repository}@{digest}\n"),),
    "values.yaml": (
        ("\n  repository: formulary\n", "\n  repository: {repository}\n"),
        ('\n  digest: ""\n', '\n  digest: "{digest}"\n'),
    ),
    "files/defaults.json": (
        ('\n    "repository": "formulary",\n', '\n    "repository": "{repository}",\n'),
        ('\n    "digest": "",\n', '\n    "digest": "{digest}",\n'),
    ),
    "README.md": (
        (
            "\nhelm install formulary charts/formulary -n formulary --create-namespace "
            "--set image.repository=registry.example/formulary\n",
            "\nhelm install formulary oci://{registry}/charts/formulary -n formulary --create-namespace\n",
        ),
        ("\n| `image.repository` | `formulary` |", "\n| `image.repository` | `{repository}` |"),
        ("\n| `image.digest` |  |", "\n| `image.digest` | `{digest}` |"),
    ),
}
"""Where the chart says which image it runs and how it is installed, and what is written there."""
_EPOCH = 1_580_601_600
"""2020-02-02, the time that hatchling gives the files of the wheel."""


class NotReady(Exception):
    """The tree cannot be released; the message says what to change."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="release.py", description="Check and make what a release consists of.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="whether all files name this version").add_argument("tag", help="v0.1.0")
    commands.add_parser("notes", help="print the section of CHANGELOG.md on this version")
    for name, file in (("chart", "dist/formulary-VERSION.tgz"), ("server", "dist/server.json")):
        making = commands.add_parser(name, help=f"write {file}")
        making.add_argument("--image", default="", help="registry.example/formulary@sha256:…, as it was pushed")
    given = parser.parse_args()
    try:
        match given.command:
            case "check":
                if problems := list(problems_of(given.tag)):
                    raise NotReady("\n".join(problems))
            case "notes":
                print(notes(version()))
            case "chart":
                print(_written(f"formulary-{version()}.tgz", packed_chart(given.image)))
            case "server":
                print(_written(_SERVER.name, registry_entry(given.image)))
    except NotReady as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def version() -> str:
    """The version of the Python package, which all other files have too."""
    return str(tomllib.loads(_text("pyproject.toml"))["project"]["version"])


def problems_of(tag: str) -> Iterator[str]:
    """What keeps this tree from being released under a tag."""
    if tag != f"v{version()}":
        yield f"the tag is {tag}, and pyproject.toml has version {version()}; change one of them"
    server = json.loads(_text(_SERVER))
    named = {
        f"{_CHART}/Chart.yaml (version)": _line(_CHART / "Chart.yaml", "version"),
        f"{_CHART}/Chart.yaml (appVersion)": _line(_CHART / "Chart.yaml", "appVersion"),
        f"{_SERVER} (version)": server["version"],
        f"{_SERVER} (packages)": server["packages"][0]["identifier"].rpartition(":")[2],
    }
    for place, found in named.items():
        if found != version():
            yield f"{place} is {found}, and pyproject.toml has {version()}; change one of them"
    try:
        notes(version())
    except NotReady as error:
        yield str(error)


def notes(of: str) -> str:
    """The section of CHANGELOG.md on a version, without its heading. Raises NotReady."""
    section = re.search(rf"^## {re.escape(of)}\b.*?\n(.*?)(?=^## |\Z)", _text("CHANGELOG.md"), re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise NotReady(f"CHANGELOG.md says nothing under '## {of}'; write what users need to know")
    return section[1].strip()


def packed_chart(image: str = "") -> bytes:
    """The archive of the chart, running `image` if that is given. Raises NotReady."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted((ROOT / _CHART).rglob("*")):
            within = path.relative_to(ROOT / _CHART)
            if path.is_dir() or within.parts[0] in _NOT_PACKED:
                continue
            content = path.read_bytes()
            if image:
                content = _with_image(within.as_posix(), content.decode(), image=image).encode()
            member = tarfile.TarInfo(f"formulary/{within.as_posix()}")
            member.size, member.mtime, member.mode = len(content), _EPOCH, 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def registry_entry(image: str = "") -> bytes:
    """`server.json` for the MCP registry, with the tag of `image` if that is given. Raises NotReady."""
    server = json.loads(_text(_SERVER))
    if image:
        server["packages"][0]["identifier"] = f"{_parts(image)[0]}:{version()}"
    return (json.dumps(server, indent=2, ensure_ascii=False) + "\n").encode()


def _written(name: str, content: bytes) -> Path:
    DIST.mkdir(exist_ok=True)
    (DIST / name).write_bytes(content)
    return DIST / name


def _with_image(name: str, text: str, *, image: str) -> str:
    """A file of the chart, with `image` as its default."""
    repository, digest = _parts(image)
    for default, wanted in _DEFAULT_IMAGE.get(name, ()):
        if text.count(default) != 1:
            raise NotReady(f"{_CHART / name} has {default!r} {text.count(default)} times; once is needed")
        registry = repository.rpartition("/")[0]
        text = text.replace(default, wanted.format(repository=repository, digest=digest, registry=registry))
    return text


def _parts(image: str) -> tuple[str, str]:
    """Repository and digest of an image."""
    if not (found := _IMAGE.fullmatch(image)):
        raise NotReady(f"{image!r} is no image with its digest, such as registry.example/formulary@sha256:…")
    return found["repository"], found["digest"]


def _line(path: Path, key: str) -> str:
    """The value of a key at the top level of a YAML file, which has it in one line."""
    found = re.search(rf"^{key}: *(.+?) *$", _text(path), re.MULTILINE)
    return found[1].strip("\"'") if found else "missing"


def _text(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
