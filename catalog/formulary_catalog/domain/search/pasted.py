"""Finds the problem in a query that was pasted as a program printed it.

`query` calls it before it reads the first word. In alerts, in events and in what `kubectl get` and `kubectl describe`
print, the name of the problem is in a column, behind a key or in a message, amid names, times and lines that report no
problem. A sentence stays as it is.
"""

import re

from formulary_catalog.domain.markup import SIGNAL, without_markup
from formulary_catalog.domain.text import split_camel_case
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, SEVERITIES, fold

_STATE = re.compile(r"^\s*\[(?:(?:FIRING|RESOLVED)(?::\d+)?,?\s*)+\]\W*(?=\w)", re.IGNORECASE)
"""How notifications of Alertmanager begin: `[FIRING:2] KubePodCrashLooping`."""
_RESOLVED, _FIRING = (
    re.compile(
        rf"""
          \[(?:(?:firing|resolved)(?::\d+)?,[ ]*)*{state}(?::\d+)?[\],]
        | ^[ \t*-]*(?:status[ \t]*[:=][ \t]*["']?{state}["']?[ \t]*$|alerts[ ]{state}:)
        | "status"\s*:\s*"{state}"
        """,
        re.IGNORECASE | re.MULTILINE | re.VERBOSE,
    )
    for state in ("resolved", "firing")
)
"""What notifications say of their alerts: `[RESOLVED] X`, `Status: resolved`, `Alerts Firing:`, `"status":"firing"`."""
_ALERT, _SEVERITY = (
    re.compile(rf"""{label}["']?\s*[=:]\s*(?:"(?P<quoted>[^"]+)"|(?P<bare>[\w.:-]*\w)),?""", re.MULTILINE)
    for label in (rf"""(?:["']?\balertname|^[ \t•*-]*[Aa]lert(?=:[ ]*{SIGNAL}))""", r"""["']?\b[Ss]everity""")
)
"""A label of an alert, as in `alertname=X`, `alertname: X`, `"alertname":"X",` and `Alert: KubePodCrashLooping`."""
_AGE = r"(?:\d+[smhdy]\S*|<unknown>|<invalid>)[ \t]+(?:\(x\d+\ over\ [^)\n]*\)[ \t]+)?"
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
      \b[Rr]eason["']?[ \t]*[:=][ \t]*["'`]?(?P<reason>[A-Z]\w+)(?=[ \t]*(?:$|["'`,})]|[A-Z][\w ]*:))
    | (?:^[ \t*-]*[Pp]hase|"phase")[ \t]*:[ \t]*["'`]?(?P<phase>Pending)(?=[ \t]*(?:$|["'`,}]))
    | [ \t]\d+/\d+[ \t]+(?:Init:)?(?P<status>[A-Z]\w+)(?=[ \t]+\d)
    | ^[ \t]*\S+[ \t]+(?P<node>NotReady)(?=,\S|[ \t]{2,}|\t|$)
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What names a problem in the status of an object: `Reason:   OOMKilled`, `"reason":"Evicted"`,
`cart-7d9   1/2   CrashLoopBackOff   14`, `node-3   NotReady   <none>`."""
_OTHER_KIND = re.compile(r"""\bkind["']?\s*:\s*["']?(?!Pod\b)\w""")
_MESSAGE = re.compile(
    r"(?P<CrashLoopBackOff>Back-off restarting failed container)"
    r"|(?P<ImagePullBackOff>Back-off pulling image|Failed to pull image|Error: (?:ErrImagePull|ImagePullBackOff))"
)
"""Messages of events whose reason is not the canonical signal: `BackOff` is the reason of two."""
_OTHER_NAMES = {
    "errimagepull": "ImagePullBackOff",
    "notready": "NodeNotReady",
    "pending": "PodPending",
    "unschedulable": "FailedScheduling",
}
"""How a status calls a canonical signal, folded."""
_CONSEQUENCES = ("CrashLoopBackOff", "PodPending")
"""What follows from another problem, which may be named as well."""
_TIME = re.compile(r"\w{3}, \d\d \w{3} \d{4} [\d:]+ [+-]\d{4}|\"\d{4}-\d\d-\d\dT[\d:.]+Z?\"")
"""As `kubectl` prints it. In a sentence a time may be the symptom."""
_COLUMN_NAME = r"(?:NAME|READY|STATUS|RESTARTS|AGE|ROLES|VERSION|TYPE|REASON|OBJECT|MESSAGE)\b"
_HEAD = re.compile(
    rf"^[ \t]*(?:NAMESPACE|NAME|LAST[ ]SEEN)[ \t]+(?:{_COLUMN_NAME}[ \t]+){{2,}}+(?!{_COLUMN_NAME})(?=\S)", re.MULTILINE
)
"""The head of a table that lost its lines."""
_FRAME = re.compile(
    r"""
    ^[ \t]*(?:
      (?:NAMESPACE|NAME|LAST[ ]SEEN)(?=.*\b(?:AGE|MESSAGE|STATUS)\b)(?:[ \t]+[A-Z()-]+)+  # the head of a table
    | Type[ \t]+(?:Reason|Status)\b.*
    | \$[ ]kubectl[ ](?:get|describe|events|logs|top)\b.*                  # what was typed
    | -+(?:[ \t]+-+)+
    | (?:Events|Conditions|Labels|Annotations):
    | (?:\S+[ \t]+)?\S+[ \t]+(?P<ready>\d+)/(?P=ready)[ \t]+Running[ \t]+0[ \t]+\d+[smhdy]\w*(?:[ \t]+(?:\d+\.|<).*)?
    | \S+[ \t]+Ready[ \t]+\S+[ \t]+\d+[smhdy]\w*[ \t]+v\d\S*(?:[ \t]+(?:\d+\.|<).*)?
    | (?:\w+Pressure|NetworkUnavailable)[ \t]{2,}(?:False|Unknown)(?:[ \t]{2,}.*)?
    | (?:Ready|Initialized|ContainersReady|PodScheduled|PodReadyToStartContainers)[ \t]{2,}True(?:[ \t]{2,}.*)?
    )[ \t]*$\n?
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Lines that report no problem: heads, pods that never restarted, nodes that are ready, conditions that are as they
should be."""
_DESCRIPTION = re.compile(r"^Name:[ \t]{2,}\S.*\n(?:Namespace|Roles|Labels):[ \t]{2,}", re.MULTILINE)
"""Where `kubectl describe` begins. Most of what it prints, such as tolerations, mounts and labels, is no symptom."""
_DESCRIBING = re.compile(r"[ \t]|[A-Z][\w -]*:")
"""How the lines of a description begin; those of a sentence do not."""
_SYMPTOM = re.compile(
    r"""
    ^[ \t]*(?:
      (?:Last[ ]State|State|Status|Reason|Message|Exit[ ]Code):(?![ \t]+(?:Running|Active|Bound|Completed)\b)
    | (?:\w+Pressure[ \t]+True|(?:Ready|PodScheduled|Available|Progressing)[ \t]+(?:False|Unknown))\b
    )
    """,
    re.VERBOSE,
)
"""A line of a description that may report a problem."""


def problem_first(query: str) -> str:
    """The query with the name of its alert and the severity, or what its status or events name, at the beginning."""
    printed = without_markup(query)
    query = _STATE.sub("", _TIME.sub("", _FRAME.sub("", _HEAD.sub("", printed))))
    if (alert := _ALERT.search(query)) is not None:
        return _alert_first(query, alert)
    query = _symptoms(query)
    if not query.strip():  # where all is well, that is the question
        query = printed
    name = "" if _begins_with_name(query) else _named(query)
    query = _EVENT.sub(lambda event: f"{_reason(event)} ", query)
    if not name:
        return query
    rest = re.sub(rf"\b{name}\b", "", query, count=1)
    return f"{name} {rest}".strip()


def is_resolved(query: str) -> bool:
    """Whether a query was pasted from notifications that say that their alerts are over."""
    if "resolved" not in query.casefold():  # as nearly always
        return False
    said = without_markup(query)
    return _RESOLVED.search(said) is not None and _FIRING.search(said) is None


def _symptoms(query: str) -> str:
    """Of a description the symptoms, and what a person wrote around it; of events those that warn, if any does."""
    lines = query.splitlines()
    if (description := _DESCRIPTION.search(query)) is not None:
        first = query.count("\n", 0, description.start())
        lines = lines[:first] + [line for line in lines[first:] if _tells(line)]
    kinds = [event and (event["type"] or event["kind"]) for event in map(_EVENT.match, lines)]
    if "Warning" not in kinds:
        return "\n".join(lines)
    return "\n".join(line for line, kind in zip(lines, kinds, strict=True) if kind != "Normal")


def _tells(line: str) -> bool:
    """Whether a line of a description, or behind one, may say what is wrong."""
    return not _DESCRIBING.match(line) or any(each.match(line) for each in (_SYMPTOM, _EVENT))


def _alert_first(query: str, alert: re.Match[str]) -> str:
    beginning, rest = _value(alert), _ALERT.sub(" ", query, count=1)
    severity = _SEVERITY.search(rest)
    if severity is not None and fold(_value(severity)) in SEVERITIES:
        beginning, rest = f"{beginning} {_value(severity)}", _SEVERITY.sub(" ", rest, count=1)
    return f"{beginning} {rest}".strip()


def _value(label: re.Match[str]) -> str:
    return label["quoted"] or label["bare"]


def _begins_with_name(query: str) -> bool:
    """Whether the first word may name a signal type already; the key of a block of YAML does not."""
    first, _, rest = query.strip().partition("\n")
    if not first or (rest and re.fullmatch(r"\S+:", first)):
        return False
    words = re.findall(r"[^\W\d_]+", first.split(maxsplit=1)[0])
    return len(words) == 1 and (_canonical(words[0]) != "" or len(split_camel_case(words[0])) > 1)


def _named(query: str) -> str:
    """The canonical signal that a status, an event or a message names: a cause before its consequence. Else the reason
    of the first event."""
    of_another = _OTHER_KIND.search(query) is not None  # claims and workflows are pending too
    found = [each for each in _PROBLEM.finditer(query) if not (of_another and each["phase"])]
    statuses = [each[each.lastgroup or 0] for each in found]
    lines = [line for line in query.splitlines() if _EVENT.match(line)]
    messages = [found.lastgroup or "" for found in map(_MESSAGE.search, lines) if found]
    reasons = [_reason(event) for event in _EVENT.finditer(query)]
    canonical = [name for name in map(_canonical, statuses + reasons + messages) if name]
    causes = [name for name in canonical if name not in _CONSEQUENCES]
    return next(iter(causes + canonical + reasons), "")


def _reason(event: re.Match[str]) -> str:
    return event["listed"] or event["described"]


def _canonical(name: str) -> str:
    return CANONICAL_BY_FOLD.get(fold(name)) or _OTHER_NAMES.get(fold(name), "")
