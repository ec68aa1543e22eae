"""Writes the files that are derived from the code; with `--check` only tells whether they are up to date."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from formulary_catalog import metrics
from formulary_catalog.server.app import openapi_document
from formulary_catalog.settings import Settings

ROOT = Path(__file__).parents[1]


def configuration() -> str:
    """The reference page of all settings, in Markdown."""
    rows = [
        f"| `FORMULARY_{name.upper()}` | {_default(field.get_default())} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(
        [
            "# Configuration",
            "",
            "Flags win over environment variables, those over defaults. `formulary COMMAND --help` lists the flags.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "| `FORMULARY_URL` | `http://127.0.0.1:8080` | The server that `search`, `show` and `list` ask. |",
            "| `FORMULARY_LOG_LEVEL` | `info` | `debug`, `info`, `warning` or `error`. |",
            "",
        ]
    )


def openapi() -> str:
    """The OpenAPI document of the REST interface."""
    return json.dumps(openapi_document(), indent=2, sort_keys=True) + "\n"


FILES: Mapping[str, Callable[[], str]] = {
    "docs/configuration.md": configuration,
    "docs/metrics.md": metrics.page,
    "docs/openapi.json": openapi,
}


def main(*, check: bool) -> int:
    """Write or compare; 1 when something is out of date."""
    stale = [path for path, make in FILES.items() if not _current(ROOT / path, make())]
    if check:
        for path in stale:
            print(f"{path} is out of date; run `make generate`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        (ROOT / path).write_text(FILES[path](), encoding="utf-8")
        print(f"wrote {path}")
    return 0


def _current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def _default(value: object) -> str:
    if value is None or value == "" or value in (frozenset(), ()):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
