"""Renders pages: every page of the console comes from here, with what its frame shows.

Whatever a template prints is escaped, and characters that hide something are replaced. Only `Markup` is printed as it
is: what macros have made of escaped texts.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse

from formulary_catalog import __version__
from formulary_catalog.domain.console_address import CONSOLE_PATH, DOCUMENTATION, incident_address, workflow_address
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.yaml_text import manifest_text, written
from formulary_catalog.edges.console.assets import HTMX, PICO, asset_url
from formulary_catalog.edges.console.security import FORM_TOKEN
from formulary_catalog.edges.console.visitor import visitor_of

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
