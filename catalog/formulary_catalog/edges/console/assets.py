"""The files of `static/`: style sheets and scripts, read once and served by their digests.

A page names a file with its digest, so that browsers may keep it for good and get another one after an update.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.errors import NotFound

HTMX = "htmx-2.0.11.min.js"
PICO = "pico-2.1.1.min.css"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the console."""

    content: bytes = field(repr=False)
    media_type: str
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """The files by name."""
    found = sorted(each for each in (Path(__file__).parent / "static").iterdir() if each.suffix in _TYPES)
    contents = {each: each.read_bytes() for each in found}
    return {
        each.name: Asset(content, _TYPES[each.suffix], hashlib.sha256(content).hexdigest()[:_SHOWN])
        for each, content in contents.items()
    }


def asset_url(name: str) -> str:
    """The address of a file, which changes with its content."""
    return f"{CONSOLE_PATH}/static/{name}?v={assets()[name].digest}"


def asset_response(name: str, *, request: Request) -> Response:
    """The file; without its content if the browser has it.

    Raises:
        NotFound: there is no such file.
    """
    if (asset := assets().get(name)) is None:
        raise NotFound(f"there is no file {name[:60]!r} in the console", reference=name)
    is_current = request.query_params.get("v") == asset.digest
    headers = {"ETag": f'"{asset.digest}"', "Cache-Control": _FOREVER if is_current else _CHECKED}
    if f'"{asset.digest}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
