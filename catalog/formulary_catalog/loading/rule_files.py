"""The alerts of Prometheus rule files, and the file of alerts to ignore.

The command line and the console call it. A file is read as manifests are (`loading/documents`): strict, bounded, safe.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from formulary_catalog.domain.coverage.alerts import MAX_ALERTS, RULE_KIND, Alert, alerts_of, distinct
from formulary_catalog.domain.workflows.labels import fold
from formulary_catalog.errors import InvalidInput, StartupError
from formulary_catalog.loading.documents import ManifestDocument, Rejection, documents_in, read_documents, read_text
from formulary_catalog.loading.files import find_rules, first_of
from formulary_catalog.loading.syntax import SyntaxProblem, parse_yaml

_EXAMPLE = (
    f"give a {RULE_KIND}, a VMRule, a ConfigMap with rule files, a rule file with groups, or the JSON of /api/v1/rules"
)
_MAX_REASON = 500
_MAX_JSON_BYTES = 16 * 1024**2
"""Of an answer of `/api/v1/rules`, which nobody can split."""
_GROUPS = re.compile(r"""^\s*["']?groups["']?\s*:""", re.MULTILINE)


class FoundAlerts(NamedTuple):
    """The alerts of rule files, and the documents and files in which none were looked for, each with its reason."""

    alerts: list[Alert]
    skipped: list[str]

    @property
    def notes(self) -> list[str]:
        """What was skipped, in words."""
        return [f"skipped: {first_of(self.skipped)}"] if self.skipped else []


def alerts_in_files(place: Path) -> FoundAlerts:
    """The alerts of a file, or of all rule files under a directory.

    Raises:
        StartupError: it cannot be read.
        InvalidInput: a file is broken, no alert is in there, or there are too many.
    """
    if not place.exists():
        raise StartupError(f"rules {place} cannot be read: no such file or directory; correct the path")
    found = find_rules([place])
    documents: list[ManifestDocument | Rejection] = [*found.rejections]
    for file in found.files:
        documents += read_documents(file.path, name=file.name, json_bytes=_MAX_JSON_BYTES)
    return _alerts(documents, place=str(place), skipped=[f"{name} (no YAML or JSON)" for name in found.skipped])


def alerts_in_text(text: str, *, name: str) -> FoundAlerts:
    """The alerts of a text that somebody pasted or uploaded; `name` is how messages call it.

    Raises:
        InvalidInput: as `alerts_in_files`.
    """
    return _alerts(documents_in(text, name=name), place=name, skipped=[])


def ignored_in_file(place: Path) -> dict[str, str]:
    """The alerts to ignore, each with its reason: a YAML list of objects with `alert` and `reason`.

    Raises:
        InvalidInput: it cannot be read, is no such list, or one has no reason.
    """
    text = read_text(place, name=str(place))
    if isinstance(text, Rejection):
        raise InvalidInput(text.message, field="ignore")
    return ignored_in_text(text, name=str(place))


def ignored_in_text(text: str, *, name: str) -> dict[str, str]:
    """The same from a text.

    Raises:
        InvalidInput: as `ignored_in_file`.
    """
    example = "give a list such as `- {alert: Watchdog, reason: always fires}`"
    try:
        items = parse_yaml(text)
    except SyntaxProblem as problem:
        raise InvalidInput(f"{name}: {problem}", field="ignore") from None
    if not isinstance(items, list):
        raise InvalidInput(f"{name}: is no list; {example}", field="ignore")
    reasons: dict[str, str] = {}
    known: set[str] = set()
    for number, item in enumerate(items, start=1):
        alert, reason = (item.get("alert"), item.get("reason")) if isinstance(item, Mapping) else (None, None)
        place = f"{name}: item {number}"
        if not (isinstance(alert, str) and alert.strip()):
            raise InvalidInput(f"{place} names no alert; {example}", field="ignore")
        if not (isinstance(reason, str) and reason.strip()) or len(reason) > _MAX_REASON:
            raise InvalidInput(
                f"{place}: {alert!r} has no reason of 1 to {_MAX_REASON} characters; say why nobody needs a remedy",
                field="ignore",
            )
        if unknown := sorted(map(str, set(item) - {"alert", "reason"})):
            raise InvalidInput(f"{place}: {unknown[0]!r} is unknown; give alert and reason alone", field="ignore")
        if fold(alert) in known:
            raise InvalidInput(f"{place}: {alert!r} is there twice; keep one", field="ignore")
        known.add(fold(alert))
        reasons[alert.strip()] = " ".join(reason.split())
    return reasons


def _alerts(documents: Iterable[ManifestDocument | Rejection], *, place: str, skipped: Iterable[str]) -> FoundAlerts:
    found: list[Alert] = []
    without = list[str]()
    rules = False
    for document in chain.from_iterable(map(_with_rules, documents)):
        if isinstance(document, Rejection):
            raise InvalidInput(document.message, field="from")
        alerts = alerts_of(document.content)
        rules = rules or alerts is not None
        found += alerts or ()
        if alerts is None:
            without.append(f"{document.source} ({_what_it_is(document.content)})")
    without += skipped
    if not found:
        problem = "holds rules, and none of them is an alert" if rules else "holds no alerting rules"
        besides = f" (skipped: {first_of(without)})" if without else ""
        raise InvalidInput(f"{place}: {problem}{besides}; {_EXAMPLE}", field="from")
    alerts_found = distinct(found)
    if len(alerts_found) > MAX_ALERTS:
        raise InvalidInput(
            f"{place}: holds {len(alerts_found)} alerts; at most {MAX_ALERTS} are compared at once, so name a "
            "directory or file with fewer",
            field="from",
        )
    return FoundAlerts(alerts_found, without)


def _with_rules(document: ManifestDocument | Rejection) -> Iterable[ManifestDocument | Rejection]:
    """The rule files that a ConfigMap holds, or the document itself."""
    if isinstance(document, Rejection) or document.content.get("kind") != "ConfigMap":
        return [document]
    data = document.content.get("data")
    files = data.items() if isinstance(data, Mapping) else ()
    texts = [(key, text) for key, text in files if isinstance(text, str) and _GROUPS.search(text)]
    held = [each for key, text in texts for each in documents_in(text, name=f"{document.source}: {key}")]
    return held or [document]


def _what_it_is(content: Mapping[str, Any]) -> str:
    return f"kind {content['kind']}" if "kind" in content else "no groups of rules"
