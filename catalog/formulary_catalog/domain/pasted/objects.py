"""What kubectl prints of objects, and what of a pasted text is of logs, of hosts and of a person.

`reading` calls it with the lines that are of no alert. What rows, events and conditions report is read by `states`, and
what is of no object by `logs`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from formulary_catalog.domain.pasted.logs import has_log, is_logged, of_host, of_pod_limit, reports_error, shortened
from formulary_catalog.domain.pasted.problems import Finding, finding, is_compound
from formulary_catalog.domain.pasted.states import (
    CELLS,
    HEAD_WORDS,
    KIND_BY_COLUMN,
    ROWS,
    cells_of,
    is_trouble,
    kind_of,
    of_condition,
    of_event,
    of_row,
    of_state,
    says_more_than_restarts,
)

_FRAME = re.compile(r"(?=.*---)[\s-]+|\s*Type\s+(?:Reason|Status)\b.*")
_GAP = r"(?:[ ]{2,}|[ ]*\t[ \t]*)"
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
_CONDITION = re.compile(rf"\s*(?P<type>[A-Z]\w+){_GAP}(?P<status>True|False|Unknown)(?:{_GAP}(?P<rest>.*))?")
_PAIR = re.compile(
    r'(?P<front>[\s>*•-]*(?:\d+\.\s)?)"?(?P<key>[A-Za-z][\w -]{0,40}?)"?[ ]*(?::|\t)(?P<value>(?:\s.*|["\d].*)?)'
)
_COLLAPSED = re.compile(r"(?<=\S)\s+(?=(?:Last State|State|Reason|Exit Code|Message|Started|Finished|Ready):\s)")
"""Where lines of a description began that were joined."""
_KEYS = frozenset({"reason", "phase", "status", "state", "type", "message", "exitcode", "kind", "name"})
_STATES = frozenset({"failed", "unknown", "lost", "terminating", "pending", "degraded", "notready", "stalled"})
_PROMPT = r"(?:\[[\w.@-]+\s\S+\]|[\w.@-]+:[~/]\S*)[$#]"
"""Of a shell: the user, the host and the directory."""
_COMMAND = re.compile(
    rf"\s*(?:[$#]|{_PROMPT})\s(?:kubectl|k|oc)\s(?P<verb>get|describe|logs?|events?|top|explain|rollout|apply|delete|exec|drain|cordon"
    r"|uncordon|scale|patch|edit|create|run|config|cluster-info|version|auth|wait|debug|set|adm)(?![\w-])\s*(?P<resource>[\w./,-]*).*"
)
_OTHER_COMMAND = re.compile(
    rf"\s*(?:\$|{_PROMPT})\s(?:sudo\s)?(?:df|dmesg|journalctl|systemctl|tail|cat|free|top|ps|ss|ip|docker|crictl|nerdctl"
    r"|kubeadm|etcdctl|helm|argocd|flux|velero|ceph|dig|nslookup|curl|ping)(?![\w-]).*"
)
"""A command whose output holds no object."""
_SENTENCE = re.compile(r"[A-Za-z']+(?:[ ,]+[\w'%.()-]+){3,}[.!?]?")
_REMARKS = re.compile(
    r"\s*(?:I|we|our|my|the|this|it|why|what|how|users?|but|since|after|please)\b(?=(?:\s+\S+){4})", re.IGNORECASE
)
"""How a person's sentence begins right below an output."""
_MAX_LOGGED, _MAX_COLUMNS, _REMARK = 3, 40, 4


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
    reader = _Reader(has_log=has_log(lines))
    for line in [*lines, ""]:
        reader.read(line)
    seen = reader.seen
    if seen.findings:
        seen.findings += [each for each in seen.normal if is_trouble(each.name)]
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
        command, other = _COMMAND.fullmatch(line), _OTHER_COMMAND.fullmatch(line)
        if command is None and other is None:
            return False
        self._end_record()
        verb, resource = (command["verb"], command["resource"]) if command else ("log", "")
        self._is_log = verb.startswith("log")
        self._kind = self._commanded = kind_of(resource) if verb in {"get", "describe"} else ""
        self._columns, self._in_output, self._described = [], True, False
        return self._add()

    def _head(self, line: str) -> bool:
        """The head of a table. One that lost its lines is followed by its first row."""
        words, titles = line.split(), CELLS.split(line.strip())
        if words[0] not in {"NAME", "NAMESPACE", "LAST"}:
            return _FRAME.fullmatch(line) is not None
        if len(titles) > 1 and all(title[:1].isalpha() and title == title.upper() for title in titles):
            starts = [found.start() for found in re.finditer(r"(?:(?<=\t)|(?<=\s\s)|^)(?=\S)", line)]
            self._columns = [*zip(titles[:_MAX_COLUMNS], starts or [0] * len(titles), strict=False)]
            kinds = (kind for column, kind in KIND_BY_COLUMN.items() if column in titles)
            self._kind = next(kinds, self._commanded or ("StatefulSet" if titles == ["NAME", "READY", "AGE"] else ""))
            return self._add()
        known = next((number for number, word in enumerate(words) if word not in HEAD_WORDS), len(words))
        if known > 2:
            self.read(" ".join(words[known:]))
        return known > 2 and self._add()

    def _event(self, line: str) -> bool:
        event = _EVENT.fullmatch(line)
        if event is None:
            return False
        found = of_event(event["listed"] or event["described"], event["message"])
        if "Warning" in {event["type"], event["level"]}:
            return self._add(found)
        self.seen.normal.append(found)
        return self._add()

    def _row(self, line: str) -> bool:
        if self._columns and (cells := cells_of(line, self._columns)):
            prefix, slash, _ = cells.get("NAME", "").partition("/")
            return self._add(*of_row(cells, (kind_of(prefix) if slash else "") or self._kind))
        for kind, row in ROWS.items():
            if found := [*row.finditer(line)]:
                for each in found:
                    values = {title.replace("_", "-"): value for title, value in each.groupdict().items()}
                    self._add(*of_row(values, kind))
                left = row.sub(" ", line).strip()
                if left and not re.match(r"[\d.]+\s|<", left):
                    self.seen.prose.append(left)
                return True
        return False

    def _condition(self, line: str) -> bool:
        row = _CONDITION.fullmatch(line)
        if row is None:
            return False
        cells = CELLS.split(row["rest"] or "")
        reason = next((cell for cell in cells if cell.isalpha()), "")
        message = " ".join(cell for cell in cells if " " in cell)
        return self._add(*of_condition(row["type"], row["status"], reason, message, self._kind))

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
            self._add(*of_condition(record["type"], state, reason, message, kind))
        elif record.get("type") in {"Warning", "Normal"} and reason:
            self._add(of_event(reason, message))
        else:
            if not (reason[:1].isupper() or self.seen.printed):
                reason = ""
            found = [*of_state(reason, kind)]
            if state.casefold() in _STATES or is_compound(state):
                found += of_state(state, kind)
            if record.get("exitcode", "0") != "0":
                found.append(finding("", f"exit code {record['exitcode']}"))
            if found or reason or self.seen.printed:
                tells = message and says_more_than_restarts(message)
                self._add(*found, *([finding("", message)] if tells else []))

    def _unstructured(self, line: str) -> None:
        """A line of a host, a log, or a person. Of the output of a command only errors are kept."""
        if of_pod_limit(line):
            self._add(finding("OOMKilled"))
        elif of_host(line):
            self.seen.hosted.append(shortened(line))
        elif self._in_output and (
            (self._after_blank and _SENTENCE.fullmatch(line.strip())) or (not self._is_log and _REMARKS.match(line))
        ):
            self._in_output = False
            self.seen.prose.append(line)
        elif self._in_output or (self._has_log and is_logged(line)):
            if reports_error(line):
                self.seen.logged.append(shortened(line))
        elif not (self._described and line[:1].isspace()):
            self.seen.prose.append(line)
