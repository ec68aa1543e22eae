"""What `formulary validate` found, in the formats of other programs: annotations of GitHub, and SARIF."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from formulary_catalog import __version__
from formulary_catalog.domain.text import one_line
from formulary_catalog.loading.documents import Rejection, line_in, read_text

_LINE = re.compile(r"line (\d+): ")
_FIELD = re.compile(r"(?:spec|metadata)(?:\.\w+|\[\d+\])+")
_ESCAPED = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPED_PROPERTY = _ESCAPED | {":": "%3A", ",": "%2C"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem or a doubt, and where it is."""

    path: str
    line: int
    message: str
    is_error: bool

    @classmethod
    def of(cls, message: str, *, path: str, source: str, field: str = "", is_error: bool = False) -> Self:
        """Found in the document that `source` names; without a field, that with which the message begins."""
        said = message.removeprefix(f"{source}: ")
        named = _FIELD.match(said)
        field = field or (named[0] if named else "")
        said_line = _LINE.match(said)
        line = int(said_line[1]) if said_line else _line_of(path, source=source, field=field)
        return cls(path=path, line=line, message=one_line(said), is_error=is_error)


def github_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Commands of a workflow of GitHub, which shows them beside the lines of a pull request."""
    for each in findings:
        level = "error" if each.is_error else "warning"
        file, message = _escaped(each.path, _ESCAPED_PROPERTY), _escaped(each.message, _ESCAPED)
        yield f"::{level} file={file},line={each.line}::{message}"


def as_sarif(findings: Iterable[Finding]) -> dict[str, Any]:
    """A log in SARIF 2.1.0, which code scanning reads."""
    driver = {
        "name": "formulary",
        "version": __version__,
        "rules": [{"id": "invalid"}, {"id": "doubtful"}],
    }
    results = [
        {
            "ruleId": "invalid" if each.is_error else "doubtful",
            "level": "error" if each.is_error else "warning",
            "message": {"text": each.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(os.fsencode(each.path))},
                        "region": {"startLine": each.line},
                    }
                }
            ],
        }
        for each in findings
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _line_of(path: str, *, source: str, field: str) -> int:
    """The line of a field, or of its document; 1 where the text cannot be read again."""
    text = read_text(Path(path), name=path) if Path(path).is_file() else ""
    if isinstance(text, Rejection) or not text.strip():
        return 1
    try:
        return line_in(text, re.sub(r"\[(\d+)\]", r".\1", field), source=source)
    except (ValueError, IndexError):  # it is no YAML
        return 1


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in text)
