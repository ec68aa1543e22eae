"""What kubectl prints of objects: rows of `get`, events, conditions, states; lines of logs and of hosts.

`reading` calls it with the lines that are of no alert. A state counts with the kind of the object that has it, names of
objects count nothing, and what is healthy is no finding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from formulary_catalog.domain.pasted.problems import Finding, canonical, finding, is_compound

_KINDS = (
    "Pod Node Service Job CronJob Deployment StatefulSet DaemonSet ReplicaSet PersistentVolumeClaim PersistentVolume "
    "HorizontalPodAutoscaler Namespace ResourceQuota PodDisruptionBudget Ingress Endpoints Certificate APIService"
).split()
_SHORT = {"po": "pod", "no": "node", "pvc": "persistentvolumeclaim", "svc": "service", "hpa": "horizontalpodautoscaler"}
_KIND_BY_COLUMN = {
    "RESTARTS": "Pod",
    "ROLES": "Node",
    "CLAIM": "PersistentVolume",
    "VOLUME": "PersistentVolumeClaim",
    "EXTERNAL-IP": "Service",
    "TARGETS": "HorizontalPodAutoscaler",
    "COMPLETIONS": "Job",
    "ENDPOINTS": "Endpoints",
    "ALLOWED DISRUPTIONS": "PodDisruptionBudget",
    "NODE SELECTOR": "DaemonSet",
    "UP-TO-DATE": "Deployment",
    "DESIRED": "ReplicaSet",
}
"""The first of these columns that a table has says what its rows are."""
_WELL = re.compile(
    "Running|Ready|Bound|Active|Completed?|Succeeded|Available|Healthy|Synced|Normal|True|OK", re.IGNORECASE
)
_HEALTHY = dict.fromkeys(("STATUS", "STATE", "PHASE", "HEALTH"), _WELL) | {
    "READY": re.compile(r"(\d+)/\1|True|\d+"),
    "AVAILABLE": re.compile(r"(?!False).*"),
    "COMPLETIONS": re.compile(r"(\d+)/\1"),
    "RESTARTS": re.compile(r"0\b.*"),
    "EXTERNAL-IP": re.compile(r"(?!<pending>).*"),
    "TARGETS": re.compile(r"(?!.{0,40}<unknown>).*"),
    "ENDPOINTS": re.compile(r"(?!<none>).*"),
    "ALLOWED DISRUPTIONS": re.compile(r"[1-9]\d*"),
}
"""By column that may hold a symptom, what is none."""
_AGE = r"\d+[smhdy]\w*"
_ROWS = {
    "Pod": re.compile(
        r"(?<!\S)(?:[a-z]+/)?[a-z0-9][\w.-]*\s+(?P<READY>\d+/\d+)\s+(?P<STATUS>[A-Z][\w:/]*)"
        rf"\s+(?P<RESTARTS>\d+(?:\s\([^()\n]{{1,20}}\))?)\s+{_AGE}"
    ),
    "Node": re.compile(rf"^\s*\S+\s+(?P<STATUS>(?:Not)?Ready(?:,\w+)?)\s+\S+\s+{_AGE}\s+v\d\S*"),
    "Service": re.compile(rf"^\s*\S+\s+(?P<TYPE>LoadBalancer)\s+\S+\s+(?P<EXTERNAL_IP>\S+)\s+\d\S*\s+{_AGE}$"),
    "HorizontalPodAutoscaler": re.compile(r"^\s*\S+\s+[A-Z]\w+/\S+\s+(?P<TARGETS><unknown>/\S+)(?:\s+\d+){3}"),
}
"""Rows that are recognised without the head of their table."""
_HEAD_WORDS = frozenset("NAMESPACE NAME READY STATUS RESTARTS AGE ROLES VERSION TYPE REASON OBJECT MESSAGE".split())
_FRAME = re.compile(r"(?=.*---)[\s-]+|\s*Type\s+(?:Reason|Status)\b.*")
_GAP = r"(?:[ ]{2,}|[ ]*\t[ \t]*)"
_CELLS = re.compile(r"\s*\t\s*|\s{2,}")
_SINCE = r"(?:\d+[smhdy]\S*|<unknown>|<invalid>)[ \t]+(?:\(x\d+\ over\ [^)\n]*\)[ \t]+)?"
_EVENT = re.compile(
    rf"""
    [ \t]* (?:
      (?:[a-z0-9][a-z0-9-]*{_GAP})?                                                  # the namespace
      {_SINCE} (?P<type>Normal|Warning) [ \t]+ (?P<listed>[A-Z][A-Za-z]+) [ \t]+   # `kubectl get events`
      (?: [A-Za-z.]+/\S+ [ \t]+ )?
    | (?P<level>Normal|Warning) [ \t]+ (?P<described>[A-Z][A-Za-z]+)               # `kubectl describe`
      (?: [ \t]+ {_SINCE} | {_GAP} )
      (?:(?:kubelet|default-scheduler|kernel-monitor|[a-z-]+-(?:controller|autoscaler))\b,?[ \t]+)?
    )
    (?P<message>.*)
    """,
    re.VERBOSE,
)
"""An event. What reported it says nothing of what is wrong: the kubelet reports the crash of every container."""
_BY_MESSAGE = {
    "CrashLoopBackOff": re.compile(r"[Bb]ack-off (?:\S+ )?restarting failed container"),
    "ImagePullBackOff": re.compile(
        "Back-off pulling image|Failed to pull image|Error: (?:ErrImagePull|ImagePullBackOff)"
    ),
    "CreateContainerConfigError": re.compile('couldn\'t find key|(?:secret|configmap) "[^"]*" not found'),
    "": re.compile("Error: (?P<name>[A-Z][a-z]+[A-Z][A-Za-z]+)"),
}
"""What events report whose reason is that of many, `BackOff` and `Failed`. The first says no more than its name, and
"restarting" would speak for remedies that restart something."""
_CAUSING_PROBE = re.compile(r"(?:Liveness|Startup) probe")
_CONDITION = re.compile(rf"\s*(?P<type>[A-Z]\w+){_GAP}(?P<status>True|False|Unknown)(?:{_GAP}(?P<rest>.*))?")
_ADVERSE = re.compile(
    "Pressure|Unavailable|Fail|Degraded|Stalled|Limited|Deadlock|Not[A-Z]|Stuck|Terminating|Error|Full"
)
"""Types of conditions that are wrong if true."""
_NEUTRAL = frozenset({"Complete", "Suspended", "SuccessCriteriaMet", "DisruptionTarget"})
_UNTELLING = frozenset({"Completed", "Error", "ContainersNotReady", "MinimumReplicasUnavailable", "ContainerCreating"})
_PAIR = re.compile(
    r'(?P<front>[\s>*•-]*(?:\d+\.\s)?)"?(?P<key>[A-Za-z][\w -]{0,40}?)"?[ ]*(?::|\t)(?P<value>(?:\s.*|["\d].*)?)'
)
_COLLAPSED = re.compile(r"(?<=\S)\s+(?=(?:Last State|State|Reason|Exit Code|Message|Started|Finished|Ready):\s)")
"""Where lines of a description began that were joined."""
_KEYS = frozenset({"reason", "phase", "status", "state", "type", "message", "exitcode", "kind", "name"})
_STATES = frozenset({"failed", "unknown", "lost", "terminating", "pending", "degraded", "notready", "stalled"})
_COMMAND = re.compile(
    r"\s*[$#]\s(?:kubectl|k|oc)\s(?P<verb>get|describe|logs?|events?|top|explain|rollout|apply|delete|exec|drain|cordon"
    r"|uncordon|scale|patch|edit|create|run|config|cluster-info|version|auth|wait|debug|set|adm)(?![\w-])\s*(?P<resource>[\w./,-]*).*"
)
_HOST = re.compile(
    r"^\s*(?:systemd\[\d+\]|kernel): |Memory cgroup out of memory|\boom-kill:|Killed process \d|Active: failed"
)
_HOST_LOGGED = re.compile(r"\bsystemd\[\d+\]:|\bkernel: |\.service: ")
"""What says so only behind the beginning of a line of a log."""
_LOGGED = re.compile(
    r"\s*(?:\[pod/\S+\]\s*)?(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\S*|\[?\d\d:\d\d:\d\d\S*|\[\s*\d+\.\d+\]|[IWEF]\d{4}\s"
    r"[\d:.]+|(?:time|ts|level)=\S+|[A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d\s\S+)\s*"
)
"""How lines of a log begin."""
_LEVELLED = re.compile(
    r"(?=.*\d\d:\d\d).*?(?:\b(?:ERROR|ERR|FATAL|PANIC|CRITICAL|WARN|WARNING|INFO|DEBUG)\b|\[[a-z]+\]|\blevel=)"
    r"|\s*[IWEF]\d{4}\s"
)
"""A line that is of a log even if it stands alone."""
_TELLS = re.compile(
    r"error|fatal|exception|denied|refused|panic|fail|time.?out|timed out|unable|cannot|can't|not found|no such"
    r"|invalid|missing|unknown|killed|expired|forbidden|unauthor|x509|no space|exhausted|prematurely|OutOfMemory"
    r"|\b(?:9\d|100)%",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[A-Za-z']+(?:[ ,]+[\w'%.()-]+){3,}[.!?]?")
_REMARKS = re.compile(
    r"\s*(?:I|we|our|my|the|this|it|why|what|how|users?|but|since|after|please)\b(?=(?:\s+\S+){4})", re.IGNORECASE
)
"""How a person's sentence begins right below an output."""
_MAX_LOGGED, _MAX_LOG_LINE, _MAX_COLUMNS, _REMARK = 3, 200, 40, 4


@dataclass(slots=True)
class Observed:
    """What was printed of objects. `printed`: whether anything was. `normal`: events that do not warn. `hosted`: lines
    of hosts. `prose`: what a person wrote."""

    findings: list[Finding] = field(default_factory=list)
    normal: list[Finding] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    hosted: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    printed: bool = False


def observe(lines: Sequence[str]) -> Observed:
    """What lines report of objects."""
    logged = [line for line in lines if _LOGGED.match(line)]
    reader = _Reader(has_log=len(logged) > 1 or any(map(_LEVELLED.match, logged)))
    for line in [*lines, ""]:
        reader.read(line)
    seen = reader.seen
    seen.logged = [*{re.sub(r"[\W\d]+", " ", line): line for line in seen.logged}.values()][-_MAX_LOGGED:]
    return seen


class _Reader:
    """Goes through lines. `_kind` is that of the object that is printed, `_record` the pairs beside each other."""

    def __init__(self, *, has_log: bool) -> None:
        self.seen = Observed()
        self._has_log = has_log
        self._pairs = 0
        self._kind = self._commanded = ""
        self._columns: list[tuple[str, int]] = []
        self._record: dict[str, str] = {}
        self._indent = -1
        self._in_output = self._is_log = self._described = self._after_blank = False

    def read(self, line: str) -> None:
        if not line.strip():
            self._end_record()
            self._columns, self._after_blank = [], True
            return
        if not any(
            read(line) for read in (self._command, self._head, self._event, self._row, self._condition, self._pair)
        ):
            self._end_record()
            self._unstructured(line)
        self._after_blank = False

    def _add(self, *found: Finding) -> bool:
        self.seen.findings += found
        self.seen.printed = True
        return True

    def _command(self, line: str) -> bool:
        command = _COMMAND.fullmatch(line)
        if command is None:
            return False
        self._end_record()
        self._is_log = command["verb"].startswith("log")
        self._kind = self._commanded = _kind(command["resource"]) if command["verb"] in {"get", "describe"} else ""
        self._columns, self._in_output, self._described = [], True, False
        return self._add()

    def _head(self, line: str) -> bool:
        """The head of a table. One that lost its lines is followed by its first row."""
        words, titles = line.split(), _CELLS.split(line.strip())
        if words[0] not in {"NAME", "NAMESPACE", "LAST"}:
            return _FRAME.fullmatch(line) is not None
        if len(titles) > 1 and all(title[:1].isalpha() and title == title.upper() for title in titles):
            starts = [found.start() for found in re.finditer(r"(?:(?<=\t)|(?<=\s\s)|^)(?=\S)", line)]
            self._columns = [*zip(titles[:_MAX_COLUMNS], starts or [0] * len(titles), strict=False)]
            kinds = (kind for column, kind in _KIND_BY_COLUMN.items() if column in titles)
            self._kind = next(kinds, self._commanded or ("StatefulSet" if titles == ["NAME", "READY", "AGE"] else ""))
            return self._add()
        known = next((number for number, word in enumerate(words) if word not in _HEAD_WORDS), len(words))
        if known > 2:
            self.read(" ".join(words[known:]))
        return known > 2 and self._add()

    def _event(self, line: str) -> bool:
        event = _EVENT.fullmatch(line)
        if event is None:
            return False
        found = _of_event(event["listed"] or event["described"], event["message"])
        if "Warning" in {event["type"], event["level"]}:
            return self._add(found)
        self.seen.normal.append(found)
        return self._add()

    def _row(self, line: str) -> bool:
        if self._columns and (cells := _cells(line, self._columns)):
            prefix, slash, _ = cells.get("NAME", "").partition("/")
            return self._add(*_of_row(cells, (_kind(prefix) if slash else "") or self._kind))
        for kind, row in _ROWS.items():
            if found := [*row.finditer(line)]:
                for each in found:
                    values = {title.replace("_", "-"): value for title, value in each.groupdict().items()}
                    self._add(*_of_row(values, kind))
                left = row.sub(" ", line).strip()
                if left and not re.match(r"[\d.]+\s|<", left):
                    self.seen.prose.append(left)
                return True
        return False

    def _condition(self, line: str) -> bool:
        row = _CONDITION.fullmatch(line)
        if row is None:
            return False
        cells = _CELLS.split(row["rest"] or "")
        reason = next((cell for cell in cells if cell.isalpha()), "")
        message = " ".join(cell for cell in cells if " " in cell)
        return self._add(*_of_condition(row["type"], row["status"], reason, message, self._kind))

    def _pair(self, line: str) -> bool:
        """`Reason: X`, `"reason": "X",` and the like. Other pairs report nothing, unless a person wrote them."""
        parts = _COLLAPSED.split(line)
        if len(parts) > 1 and parts[0][-1] not in ".?!" and _PAIR.fullmatch(parts[0]):
            for part in parts:
                self._pair(part)
            return True
        pair = _PAIR.fullmatch(line)
        if pair is None:
            return False
        key, value, front = pair["key"].strip(), pair["value"].strip(" \t,\"'`"), pair["front"]
        if len(front) != self._indent or "-" in front:
            self._end_record()
        self._indent = len(front)
        self._pairs += 1
        if line.startswith("Name:  "):
            self._kind, self._described = self._commanded, True
        if key == "StorageClass":
            self._kind = self._kind or "PersistentVolumeClaim"
        name = re.sub(r"[\s_-]", "", key).casefold()
        if name in _KEYS and (name == "message" or len(value.split()) == 1):
            self._record[name] = value
            return True
        if front or not value or pair["value"].startswith("  "):
            return True
        return " " not in key and key[0].islower() and len(value.split()) < _REMARK

    def _end_record(self) -> None:
        record, self._record, self._indent = self._record, {}, -1
        kind, reason, message = self._kind, record.get("reason", ""), record.get("message", "")
        state = next((record[key] for key in ("phase", "status", "state") if key in record), "")
        if "kind" in record and "name" not in record:
            self._kind = "" if record["kind"] in {"List", "Event"} else record["kind"]
            self.seen.printed |= self._pairs > 1
        if state in {"True", "False", "Unknown"} and "type" in record:
            self._add(*_of_condition(record["type"], state, reason, message, kind))
        elif record.get("type") in {"Warning", "Normal"} and reason:
            self._add(_of_event(reason, message))
        else:
            if not (reason[:1].isupper() or self.seen.printed):
                reason = ""
            found = [*_of_state(reason, kind)]
            if state.casefold() in _STATES or is_compound(state):
                found += _of_state(state, kind)
            if record.get("exitcode", "0") != "0":
                found.append(finding("", f"exit code {record['exitcode']}"))
            if found or reason or self.seen.printed:
                tells = message and not _BY_MESSAGE["CrashLoopBackOff"].match(message)
                self._add(*found, *([finding("", message)] if tells else []))

    def _unstructured(self, line: str) -> None:
        """A line of a host, a log, or a person. Of the output of a command only errors are kept."""
        is_logged = _LOGGED.match(line) is not None
        if _HOST.search(line) or (is_logged and _HOST_LOGGED.search(line)):
            self.seen.hosted.append(_without_time(line)[:_MAX_LOG_LINE])
        elif self._in_output and (
            (self._after_blank and _SENTENCE.fullmatch(line.strip())) or (not self._is_log and _REMARKS.match(line))
        ):
            self._in_output = False
            self.seen.prose.append(line)
        elif self._in_output or (self._has_log and is_logged):
            if _TELLS.search(line):
                self.seen.logged.append(_without_time(line).split(", client:")[0][:_MAX_LOG_LINE])
        elif not (self._described and line[:1].isspace()):
            self.seen.prose.append(line)


def _without_time(line: str) -> str:
    logged = _LOGGED.match(line)
    return line[logged.end() :] if logged else line


def _kind(resource: str) -> str:
    """The kind that a resource or the prefix of a name means; empty for several."""
    name = resource.casefold().partition("/")[0].partition(".")[0]
    name = _SHORT.get(name, name)
    return next(
        (kind for kind in _KINDS if name.rstrip("s") == kind.casefold().rstrip("s")), "" if "," in name else name
    )


def _cells(line: str, columns: Sequence[tuple[str, int]]) -> dict[str, str]:
    """The cells of a row by column, some of which may be empty; nothing for what is no row."""
    is_aligned = all(start in {0, len(line)} or line[start - 1 : start] in {"", " "} for _, start in columns)
    if "\t" not in line and is_aligned:
        ends = [start for _, start in columns[1:]] + [len(line)]
        cells = [line[start:end].strip() for (_, start), end in zip(columns, ends, strict=True)]
    else:
        cells = _CELLS.split(line.strip())
    return dict(zip((title for title, _ in columns), cells, strict=False)) if sum(map(bool, cells)) > 1 else {}


def _of_row(cells: Mapping[str, str], kind: str) -> Iterator[Finding]:
    """What the columns of a row report that hold symptoms."""
    wrong = {
        title: value
        for title, value in cells.items()
        if value and title in _HEALTHY and not _HEALTHY[title].fullmatch(value)
    }
    state = next((wrong.pop(title) for title in ("STATUS", "STATE", "PHASE", "HEALTH") if title in wrong), "")
    if cells.get("DESIRED", "") != cells.get("READY", "") and "DESIRED" in cells:
        wrong["ready"] = f"{cells.get('READY')}/{cells['DESIRED']}"
    if cells.get("REPLICAS") and cells.get("REPLICAS") == cells.get("MAXPODS"):
        wrong["replicas, the maximum"] = cells["MAXPODS"]
    if kind == "Pod" and state:  # which says why
        wrong = {}
    yield from _of_state(state, kind)
    for title, value in wrong.items():
        of = cells.get("TYPE", "") if title == "EXTERNAL-IP" else ""
        words = ("" if kind == "Pod" else kind, of, re.sub(r" \(.*|[<>]", "", value), title.casefold())
        yield finding("", " ".join(filter(None, words)))
    if wrong or state:
        yield from (finding("", cells[title]) for title in ("REASON", "MESSAGE") if cells.get(title))


def _of_state(state: str, kind: str) -> Iterator[Finding]:
    """What a phase or a reason names. A state is that of a pod or a node only where its kind says so."""
    name = state.split(":")[-1].partition(",")[0]
    is_word = name != "" and not is_compound(name) and name not in _UNTELLING
    if name == "Pending" and kind in {"Pod", ""}:
        yield finding("PodPending")
    elif name == "NotReady" and kind == "Node":
        yield finding("NodeNotReady", state)
    elif name in {"Pending", "NotReady", "ContainerCreating"} or is_word:
        yield finding("", f"{kind} {state}")
    elif name and name not in _UNTELLING:
        yield finding(name)


def _of_event(reason: str, message: str) -> Finding:
    if reason in {"BackOff", "Failed"}:
        for name, pattern in _BY_MESSAGE.items():
            if found := pattern.search(message):
                return finding(name or found["name"], "" if name == "CrashLoopBackOff" else message)
    return finding(reason, message, is_cause=reason == "Unhealthy" and _CAUSING_PROBE.match(message) is not None)


def _of_condition(type_: str, status: str, reason: str, message: str, kind: str) -> Iterator[Finding]:
    is_adverse = _ADVERSE.search(type_) is not None
    if type_ in _NEUTRAL or status == ("False" if is_adverse else "True") or (reason in _UNTELLING and not is_adverse):
        return
    if type_ == "Ready" and (kind == "Node" or reason.startswith(("Kubelet", "NodeStatus"))):
        yield finding("NodeNotReady", f"{reason} {message}")
    elif not is_adverse and not reason and not message:
        return
    elif not is_adverse or status == "Unknown":
        yield finding(reason, message if is_adverse else f"{type_} {status} {message}")
    else:
        name = reason if canonical(reason) or type_ == "NotReady" or not is_compound(type_) else type_
        yield finding(name, f"{reason if name == type_ else type_} {message}")
