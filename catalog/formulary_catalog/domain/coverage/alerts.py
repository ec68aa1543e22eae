"""Alerts as Prometheus rules define them, and the query that an agent would ask for each.

`loading/rule_files` reads files with it, the operator the objects of a cluster, the edges what callers send.
`services/workflows/coverage` searches with the queries.

Namespaces share the room for alerts of a cluster: one with very many rules must not crowd out all others. Which alerts
are kept depends on nothing but how many each object has, so that they stay the same from one comparison to the next.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.workflows.labels import fold

RULE_KIND = "PrometheusRule"
_RULE_KINDS = (RULE_KIND, "VMRule")
NO_REMEDY = "formulary_no_remedy"
"""The annotation of a rule that says why nobody needs a remedy. Prometheus 2 refuses names with a dot or a slash."""
MAX_ALERTS = 2000
"""More alerts than this are refused: a rule file of a cluster has a few hundred."""
AT_ONCE = 50
"""So many are compared in one call, which then stays within its deadline and the bound of its body."""
_PORTION_BYTES = 48 * 1024
"""As JSON; a body may have 64 KiB."""
MAX_SUMMARY = 300
"""Characters of a summary that are searched for; more words do not find more."""
_READ = 4096
"""Characters of an annotation that are looked at."""
_EMPTY_QUOTES = re.compile(r"""(["'`(\[])\s*(["'`)\]])""")
_MEMBERS = ("name", "severity", "summary")
_O = TypeVar("_O", bound=tuple[str, str])
"""An object of the cluster: its namespace and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert. `summary` says what happened, without placeholders; empty where the rule says nothing.

    `ignored` is why it needs no remedy; empty if it does. `sources` are the objects of the cluster that define it, as
    `namespace/name`.
    """

    name: str
    severity: str = ""
    summary: str = ""
    ignored: str = ""
    sources: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """What an agent asks when it fires: `<signal_type> <severity> [keywords]`."""
        return " ".join(filter(None, (self.name, self.severity, self.summary)))

    def as_json(self) -> dict[str, str]:
        """The alert as callers send it."""
        return {name: value for name in _MEMBERS if (value := getattr(self, name))}


def alerts_of(document: Mapping[str, Any]) -> Iterator[Alert] | None:
    """The alerts of a PrometheusRule or VMRule, a rule file, or an answer of `/api/v1/rules`; None for anything else.

    Recording rules are left out, and so is what has no name: Prometheus itself refuses it.
    """
    if document.get("kind") in _RULE_KINDS:
        document = _mapping(document.get("spec"))
    elif "kind" in document:
        return None
    elif "status" in document:
        document = _mapping(document.get("data"))
    return _alerts(_items(document["groups"])) if "groups" in document else None


def distinct(alerts: Iterable[Alert]) -> list[Alert]:
    """Each alert once, in order. Rules of one name, such as for two severities, are one alert: the first speaks.

    It is ignored if all of them are.
    """
    found: dict[str, Alert] = {}
    for alert in alerts:
        known = found.setdefault(fold(alert.name), alert)
        if known is not alert:
            found[fold(alert.name)] = replace(
                known,
                summary=known.summary or alert.summary,
                ignored=known.ignored if alert.ignored else "",
                sources=tuple(dict.fromkeys((*known.sources, *alert.sources))),
            )
    return list(found.values())


def ignored_by_rules(alerts: Iterable[Alert]) -> dict[str, str]:
    """The reasons of the alerts whose rules say that they need no remedy, by name."""
    return {alert.name: alert.ignored for alert in alerts if alert.ignored}


def portions(alerts: Sequence[Alert]) -> Iterator[list[Alert]]:
    """The alerts in parts of which each fits into one call."""
    part: list[Alert] = []
    size = 0
    for alert in alerts:
        length = len(json.dumps(alert.as_json())) + 2
        if part and (len(part) == AT_ONCE or size + length > _PORTION_BYTES):
            yield part
            part, size = [], 0
        part.append(alert)
        size += length
    if part:
        yield part


def _alerts(groups: Iterable[Any]) -> Iterator[Alert]:
    for group in groups:
        for rule in _items(_mapping(group).get("rules")):
            rule = _mapping(rule)
            named = rule.get("name") if rule.get("type") == "alerting" else rule.get("alert")
            name = _text(named, limit=MAX_LABEL_LENGTH)
            if not name:
                continue
            notes = _mapping(rule.get("annotations"))
            said = next(
                (text for part in ("summary", "description", "message") if (text := _said(notes.get(part)))), ""
            )
            severity = _text(_mapping(rule.get("labels")).get("severity"), limit=MAX_LABEL_LENGTH)
            yield Alert(
                name=name,
                severity=severity if "{{" not in severity else "",
                summary=said,
                ignored=_said(notes.get(NO_REMEDY)),
            )


def _said(annotation: Any) -> str:
    """An annotation without what Prometheus fills in."""
    text = _EMPTY_QUOTES.sub(" ", _without_templates(annotation[:_READ])) if isinstance(annotation, str) else ""
    return _text(text, limit=MAX_SUMMARY)


def _without_templates(text: str) -> str:
    """Split, since a pattern would look to the end of the text for each `{{` that nothing closes."""
    first, *parts = text.split("{{")
    kept = [first]
    for part in parts:
        _, closed, after = part.partition("}}")
        kept.append(after if closed else "{{" + part)
    return " ".join(kept)


def _text(value: Any, *, limit: int) -> str:
    return " ".join(value.split())[:limit].strip() if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def shared_room(sizes: Mapping[_O, int], *, room: int) -> dict[_O, int]:
    """How many alerts of each object are kept: of each namespace its share, from its objects in the order of names."""
    left = shares(by_namespace(sizes), room=room)
    kept: dict[_O, int] = {}
    for each in sorted(sizes):
        kept[each] = min(sizes[each], left[each[0]])
        left[each[0]] -= kept[each]
    return kept


def shares(wanted: Mapping[str, int], *, room: int) -> dict[str, int]:
    """What each gets of the room: all that it wants, or else as much as any other, but for 1 (max-min fairness)."""
    given: dict[str, int] = {}
    # Who wants least is asked first: what it leaves of its part is for the others.
    for number, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        given[name] = min(wanted[name], room // (len(wanted) - number))
        room -= given[name]
    return given


def by_namespace(counts: Mapping[_O, int]) -> Counter[str]:
    """The sums of the namespaces."""
    sums: Counter[str] = Counter()
    for each, count in counts.items():
        sums[each[0]] += count
    return sums
