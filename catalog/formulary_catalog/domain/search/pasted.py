"""Finds the problem in a query that was pasted as a program printed it.

`query` calls it before it reads the first word. In alerts, in events and in what `kubectl get` and `kubectl describe`
print, the name of the problem is in a column, behind a key or in a message, amid names, times and lines that report no
problem. A sentence stays as it is.
"""

import re

from formulary_catalog.domain.text import split_camel_case
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, SEVERITIES, fold

_STATE = re.compile(r"^\s*\[(?:(?:FIRING|RESOLVED)(?::\d+)?,?\s*)+\]\W*(?=\w)", re.IGNORECASE)
"""How notifications of Alertmanager begin: `[FIRING:2] KubePodCrashLooping`."""
_ALERT, _SEVERITY = (
    re.compile(rf"""["']?\b{label}["']?\s*[=:]\s*(?:"(?P<quoted>[^"]+)"|(?P<bare>[\w.:-]*\w)),?""")
    for label in ("alertname", "severity")
)
"""A label of an alert, as in `alertname=X`, `alertname: X` and `"alertname":"X",`."""
_AGE = r"\d+[smhdy]\S*[ \t]+(?:\(x\d+\ over\ [^)\n]*\)[ \t]+)?"
_COLUMN = r"(?:[ ]{2,}|[ ]*\t[ \t]*)"
_EVENT = re.compile(
    rf"""
    ^[ \t]* (?:
      (?:[a-z0-9][a-z0-9-]*{_COLUMN})?                                            # the namespace
      {_AGE} (?P<type>Normal|Warning) [ \t]+ (?P<listed>[A-Z][A-Za-z]+) [ \t]+   # `kubectl get events`
    | (?P<kind>Normal|Warning) [ \t]+ (?P<described>[A-Z][A-Za-z]+)              # `kubectl describe`
      (?: [ \t]+ {_AGE} | {_COLUMN} )
      (?:(?:kubelet|default-scheduler|kernel-monitor|[a-z-]+-(?:controller|autoscaler))\b,?[ \t]+)?
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What stands before the message of an event. What reported it says nothing of what is wrong: `kubelet` reports the
crash of every container."""
_PROBLEM = re.compile(
    r"""
      \b[Rr]eason["']?[ \t]*[:=][ \t]*["']?(?P<reason>[A-Z]\w+)    # `Reason:   OOMKilled`, `"reason":"Evicted"`
    | [ \t]\d+/\d+[ \t]+(?:Init:)?(?P<status>[A-Z]\w+)(?=[ \t]+\d)  # `cart-7d9   1/2   CrashLoopBackOff   14`
    | ^\S+[ \t]+(?P<node>NotReady)(?=,\S|[ \t]{2,}|$)               # `node-3   NotReady   <none>`
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What names a problem in the status of an object."""
_MESSAGE = re.compile(
    r"(?P<CrashLoopBackOff>Back-off restarting failed container)"
    r"|(?P<ImagePullBackOff>Back-off pulling image|Failed to pull image)"
)
"""Messages of events whose reason is not the canonical signal: `BackOff` is the reason of two."""
_OTHER_NAMES = {"errimagepull": "ImagePullBackOff", "pending": "PodPending", "notready": "NodeNotReady"}
"""How a status calls a canonical signal, folded."""
_CONSEQUENCE = "CrashLoopBackOff"
"""What follows from another problem, which may be named as well."""
_TIME = re.compile(r"\w{3}, \d\d \w{3} \d{4} [\d:]+ [+-]\d{4}|\b\d{4}-\d\d-\d\dT[\d:.]+Z?")
_FRAME = re.compile(
    r"""
    ^[ \t]*(?:
      (?:NAMESPACE|NAME|LAST[ ]SEEN)(?:[ \t]+[A-Z()-]+)+                    # the head of a table
    | Type[ \t]+(?:Reason|Status)\b.*
    | -+(?:[ \t]+-+)+
    | (?:Events|Conditions|Labels|Annotations):
    | (?:\S+[ \t]+)?\S+[ \t]+(?P<ready>\d+)/(?P=ready)[ \t]+Running[ \t]+\d.*  # what is well
    | \S+[ \t]+Ready[ \t]+\S+[ \t]+\d+[smhdy]\S*[ \t]+v\d.*
    | (?:\w+Pressure|NetworkUnavailable)[ \t]+(?:False|Unknown)\b.*
    | (?:Ready|Initialized|ContainersReady|PodScheduled|PodReadyToStartContainers)[ \t]+True\b.*
    )[ \t]*$\n?
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Lines that report no problem."""
_DESCRIPTION = re.compile(r"^Name:[ \t]+\S", re.MULTILINE)
"""Where `kubectl describe` begins. Most of what it prints, such as tolerations, mounts and labels, is no symptom."""
_SYMPTOM = re.compile(
    r"""
    ^[ \t]*(?:
      (?:Last[ ]State|State|Status|Reason|Message|Exit[ ]Code):(?![ \t]+(?:Running|Active|Bound)\b)
    | (?:\w+Pressure|Ready|PodScheduled|Available|Progressing)[ \t]+(?:True|False|Unknown)\b
    )
    """,
    re.VERBOSE,
)
"""A line of a description that may report a problem."""


def problem_first(query: str) -> str:
    """The query with the name of its alert and the severity, or what its status or events name, at the beginning."""
    query = _symptoms(_TIME.sub("", _FRAME.sub("", query)))
    query = _STATE.sub("", query)
    if (alert := _ALERT.search(query)) is not None:
        return _alert_first(query, alert)
    name = "" if _begins_with_name(query) else _named(query)
    query = _EVENT.sub(lambda event: f"{_reason(event)} ", query)
    if not name:
        return query
    rest = re.sub(rf"\b{name}\b", "", query, count=1)
    return f"{name} {rest}".strip()


def _symptoms(query: str) -> str:
    """Of a description the symptoms; of events those that warn, if any does."""
    lines = query.splitlines()
    if _DESCRIPTION.search(query) is not None:
        lines = [line for line in lines if _SYMPTOM.match(line) or _EVENT.match(line)] or lines
    kinds = [event and (event["type"] or event["kind"]) for event in map(_EVENT.match, lines)]
    if "Warning" not in kinds:
        return "\n".join(lines)
    return "\n".join(line for line, kind in zip(lines, kinds, strict=True) if kind != "Normal")


def _alert_first(query: str, alert: re.Match[str]) -> str:
    beginning, rest = _value(alert), _ALERT.sub(" ", query, count=1)
    severity = _SEVERITY.search(rest)
    if severity is not None and fold(_value(severity)) in SEVERITIES:
        beginning, rest = f"{beginning} {_value(severity)}", _SEVERITY.sub(" ", rest, count=1)
    return f"{beginning} {rest}".strip()


def _value(label: re.Match[str]) -> str:
    return label["quoted"] or label["bare"]


def _begins_with_name(query: str) -> bool:
    """Whether the first word may name a signal type already."""
    words = re.findall(r"[^\W\d_]+", query.split(maxsplit=1)[0]) if query.strip() else []
    return len(words) == 1 and (_canonical(words[0]) != "" or len(split_camel_case(words[0])) > 1)


def _named(query: str) -> str:
    """The canonical signal that a status, an event or a message names: a cause before its consequence. Else the reason
    of the first event."""
    statuses = [found[found.lastgroup or 0] for found in _PROBLEM.finditer(query)]
    lines = [line for line in query.splitlines() if _EVENT.match(line)]
    messages = [found.lastgroup or "" for found in map(_MESSAGE.search, lines) if found]
    reasons = [_reason(event) for event in _EVENT.finditer(query)]
    canonical = [name for name in map(_canonical, statuses + reasons + messages) if name]
    causes = [name for name in canonical if name != _CONSEQUENCE]
    return next(iter(causes + canonical + reasons), "")


def _reason(event: re.Match[str]) -> str:
    return event["listed"] or event["described"]


def _canonical(name: str) -> str:
    return CANONICAL_BY_FOLD.get(fold(name)) or _OTHER_NAMES.get(fold(name), "")
