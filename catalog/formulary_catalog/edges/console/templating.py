"""Renders pages: every page of the console comes from here, with what its frame shows.

Whatever a template prints is escaped, and characters that hide something are replaced. Only `Markup` is printed as it
is: what macros have made of escaped texts. A page names a file of `static/` with its digest, so that browsers may keep
it for good and get another one after an update.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from formulary_catalog import __version__
from formulary_catalog.domain.console_address import CONSOLE_PATH, DOCUMENTATION, incident_address, workflow_address
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.yaml_text import manifest_text, written
from formulary_catalog.edges.console.security import FORM_TOKEN
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.errors import NotFound

HTMX = "htmx-2.0.11.min.js"
PICO = "pico-2.1.1.min.css"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
_SHOWN = 16
_STEPS = ((60, 1, "second"), (3600, 60, "minute"), (48 * 3600, 3600, "hour"), (60 * 86400, 86400, "day"))
_MONTH = 30.44 * 86400
_NOW = 5
"""Seconds that are no difference."""
NAVIGATION = {
    "overview": "Overview",
    "waiting": "Waiting",
    "incidents": "Incidents",
    "search": "Try a search",
    "catalog": "Catalog",
    "coverage": "Coverage",
    "rules": "Rules",
    "health": "Health",
}
"""The pages by the paths below that of the console."""
_PATIENCE_MS = 30_000
"""Longer than this server takes for any answer."""
_HTMX_CONFIG = json.dumps(
    {
        "allowEval": False,
        "allowScriptTags": False,
        "historyCacheSize": 0,  # pages are personal: nothing of them stays in the browser
        "includeIndicatorStyles": False,
        "refreshOnHistoryMiss": True,
        "responseHandling": [
            {"code": "204", "swap": False},
            {"code": "[23]..", "swap": True},
            {"code": "[45]..", "swap": True, "error": True, "ignoreTitle": True},  # a form says why it failed
        ],
        "selfRequestsOnly": True,
        "timeout": _PATIENCE_MS,
    }
)


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


def instant(when: datetime | str) -> datetime | None:
    """The moment, in UTC; None where an answer has none. Texts are those of RFC 3339."""
    if not when:
        return None
    read = datetime.fromisoformat(when) if isinstance(when, str) else when
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).astimezone(UTC)


def exact(when: datetime) -> str:
    """The moment to the second."""
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def relative(when: datetime, *, now: datetime) -> str:
    """`5 minutes ago`, `in 3 hours`, `just now`."""
    seconds = (when - now).total_seconds()
    if abs(seconds) < _NOW:
        return "just now"
    amount = _amount(abs(seconds))
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def _amount(seconds: float) -> str:
    for below, unit, name in _STEPS:
        if seconds < below:
            return _counted(int(seconds // unit), name)
    return _counted(int(seconds // _MONTH), "month")


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sentence(message: str) -> str:
    """A message of the services, which begin in lower case."""
    return message[:1].upper() + message[1:]


def _plain(value: Any) -> str:
    """A value of JSON as people read it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.globals.update(
    console=CONSOLE_PATH,
    form_token=FORM_TOKEN,
    navigation=NAVIGATION,
    version=__version__,
    style_sheets=[asset_url(PICO), asset_url("console.css")],
    incident_address=incident_address,
    workflow_address=workflow_address,
    documentation=f"{DOCUMENTATION}/docs/console.html",
    icon=asset_url("icon.svg"),
    scripts=[asset_url(HTMX), asset_url("console.js")],
    htmx_config=_HTMX_CONFIG,
)
_environment.filters.update(
    instant=instant, exact=exact, plain=_plain, sentence=_sentence, yaml=written, manifest=manifest_text
)


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template of `templates/`.

    Beside the given values templates have `visitor`, `halts`, `waiting_count`, `path`, `now`, `relative(when)` and
    `here(name=value)`: the address of this page with other query parameters, without those that are None.
    """
    now = datetime.now(UTC)
    frame: Mapping[str, Any] = {
        "visitor": visitor_of(request),
        "halts": getattr(request.state, "halts", ()),
        "waiting_count": getattr(request.state, "waiting_count", 0),
        "path": request.url.path,
        "now": now,
        "relative": lambda when: relative(when, now=now),
        "here": lambda **changes: _address(request.url.path, request.query_params, changes),
    }
    page = _environment.get_template(template).render({**frame, **values})
    return HTMLResponse(page, status_code=status)


def _address(path: str, query: QueryParams, changes: Mapping[str, Any]) -> str:
    kept = [(name, value) for name, value in query.multi_items() if name not in changes]
    given = [(name, value) for name, value in changes.items() if value is not None]
    return f"{path}?{urlencode([*kept, *given])}" if kept or given else path
