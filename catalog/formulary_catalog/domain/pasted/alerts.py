"""Alerts of notifications: titles, lists and tables of labels, pairs, series of Prometheus, rows of `amtool`.

Only the name, the severity, the state, what says why and the annotations count. Other labels name the exporter or the
object.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from formulary_catalog.domain.pasted.problems import is_compound
from formulary_catalog.domain.pasted.states import CELLS
from formulary_catalog.domain.workflows.labels import SEVERITIES, fold

_TITLE = re.compile(r"\[(?P<first>firing|resolved)(?::\d+)?(?P<more>(?:,[ ]*(?:firing|resolved)(?::\d+)?)*)\]", re.I)
_SUBJECT = frozenset(
    "subject title summary text message description content fallback pretext re fw fwd aw wg alert alerts alertmanager "
    "app am pm".split()
)
"""What stands before a title and says nothing."""
_HEADING = re.compile(r"\W*(?:\[?\d+\]?\s+)?(?:alerts?\s+)?(?P<state>firing|resolved)(?:\s+alerts?)?\W*", re.I)
_SECTION = re.compile(r"\W*(?:common\s+)?(?P<section>labels|annotations)\W*", re.I)
_PAIR = re.compile(r'(?P<front>[\s>*•-]*)"?(?P<key>[A-Za-z_]\w*)"?[ ]*(?:[:=]|\t)(?P<value>.*)')
_LABEL = re.compile(r'"?\b(\w+)"?[ ]*[:=][ ]*(?:"((?:[^"\\]|\\.)*)"|([^\s,}"]+))[ ,}]*')
_NO_WORDS = re.compile(r"\bALERTS\b|(?<!\S)\S*://\S+|\bactive\b|(?<![\w:-])[\d:-]+\b|\bUTC\b|[{}]")
_INLINE = re.compile(r'\balertname"?[ ]*[:=]', re.I)
_ALERT_LINE = re.compile(r"[\s•*-]*alert:\s*(?P<name>\S+)(?:\s+severity:\s*(?P<severity>\w+))?(?P<said>.*)", re.I)
_ENDS = re.compile(r"\s*(?:\$ |(?:NAMESPACE|NAME|LAST SEEN)\s|Name:\s{2,}|apiVersion:|Events:|Conditions:)")
"""Where something else begins."""
_FRAME = re.compile(
    r"[\W\d]*(?:alerts? for .*|view in \w+\b|sent by \w+\b|source|graph|alerts:?|updated at .*|label\s+value"
    r"|labels\s+annotations\s.*)[\W\d]*|[\W\d]*value: \w+=\S+(?: \w+=\S+)*\s*",
    re.I,
)
_STATES = {"firing": "firing", "active": "firing", "suppressed": "firing", "alerting": "firing", "resolved": "resolved"}
_TELLING = frozenset({"reason", "condition", "phase", "summary", "description", "message", "error", "details", "title"})
"""Labels and annotations that say what is wrong. Others do so only below the word "Annotations"."""
_KNOWN = _TELLING - {"error", "message"} | frozenset(
    "alertname alert severity priority status state alertstate labels annotations source silence value instance job "
    "namespace pod container node service cluster endpoint prometheus uid startsat endsat generatorurl "
    "fingerprint".split()
)
"""Labels and sections with which an alert goes on below a blank line."""
_LINKS = re.compile("url|uri|dashboard|runbook|image|link|panel|silence", re.I)
_MOST_VALUES = 7
_ALWAYS_FIRING = frozenset({"Watchdog", "InfoInhibitor", "DeadMansSwitch"})


@dataclass(slots=True)
class Alert:
    """An alert. `reason` is its label of that name."""

    name: str
    state: str = ""
    severity: str = ""
    reason: str = ""
    has_own_state: bool = False
    words: list[str] = field(default_factory=list)

    def add(self, key: str, value: str, *, annotates: bool = False) -> bool:
        """Whether a label or an annotation belongs to this alert and was read."""
        known = fold(key)
        if known in {"severity", "priority"} and fold(value) in SEVERITIES:
            self.severity = self.severity or fold(value)
        elif known in {"status", "state", "alertstate"} and fold(value) in _STATES:
            self.state, self.has_own_state = _STATES[fold(value)], True
        elif known == "reason" and value.isalnum():
            self.reason = value
        elif known == "condition" and fold(value) in {"ready", "true"}:
            return True
        elif (known in _TELLING or annotates) and not _LINKS.search(key) and not value.startswith("http"):
            self.words.append(value)
        else:
            return False
        return True


class _Reader:
    """Goes through the lines. `_state` holds for the alerts that follow, `_before` what was said before a name, and
    `_open` says whether the last alert goes on."""

    def __init__(self) -> None:
        self.labelled: list[Alert] = []
        self.titled: list[Alert] = []
        self.rest: list[str] = []
        self._before: dict[str, str] = {}
        self._state = self._section = ""
        self._columns: list[str] = []
        self._open = self._after_blank = False

    def read(self, line: str) -> None:
        if _FRAME.fullmatch(line):
            self._section = ""
            return
        if _ENDS.match(line):
            self._open = False
        if heading := _HEADING.fullmatch(line):
            self._state = fold(heading["state"])
        elif section := _SECTION.fullmatch(line):
            self._section = fold(section["section"])
        elif any(_is_of_alert(title, line) for title in _TITLE.finditer(line)):
            self._title(line)
        elif not (self._row(line) or self._inline(line) or self._pair(line)):
            self.rest.append(line)
        self._after_blank = not line.strip()

    def _title(self, line: str) -> None:
        found = [title for title in _TITLE.finditer(line) if _is_of_alert(title, line)]
        before = line[: found[0].start()]
        if _says(before):
            self.rest.append(before.rstrip(" \t:*-"))
        for title, after in zip(found, [*found[1:], None], strict=True):
            self._state = "" if title["more"] else fold(title["first"])
            text = line[title.end() : after.start() if after else None].strip()
            if text:
                self.titled.append(_titled(text, self._state))

    def _begin(self, name: str) -> Alert:
        alert = Alert(name, state=self._state)
        for key, value in self._before.items():
            alert.add(key, value)
        self._before.clear()
        self.labelled.append(alert)
        self._open, self._section = True, ""
        return alert

    def _row(self, line: str) -> bool:
        """A row of a table whose head has the name among its columns."""
        cells = CELLS.split(line.strip())
        folded = [fold(cell) for cell in cells]
        if "alertname" in folded and (len(cells) > 2 or {"severity", "state", "status", "summary"} & {*folded}):
            self._columns = folded
            return True
        if not self._columns or len(cells) < len(self._columns) - 1 or not line.strip():
            self._columns = []
            return False
        alert = self._begin(cells[self._columns.index("alertname")])
        for key, value in zip(self._columns, cells, strict=False):
            alert.add(key, value)
        return True

    def _inline(self, line: str) -> bool:
        """Several labels in one line, such as a series."""
        labels = [*_LABEL.finditer(line)] if _INLINE.search(line) else []
        if len(labels) < 2:
            return False
        values = [(label[1], label[2] if label[2] is not None else label[3]) for label in labels]
        alert = self._begin(next((value for key, value in values if fold(key) == "alertname"), ""))
        for key, value in values:
            alert.add(key, value)
        left = _NO_WORDS.sub(" ", _LABEL.sub(" ", line))
        if re.search(r"[^\W\d_]{2}", left):
            self.rest.append(left)
        return True

    def _pair(self, line: str) -> bool:
        """A label of its own line. Labels before the name wait for it."""
        if (named := _ALERT_LINE.fullmatch(line)) and _is_name(named["name"]):
            alert = self._begin(named["name"])
            self.rest.append(named["said"])
            return alert.add("severity", named["severity"] or "") or True
        pair = _PAIR.fullmatch(line)
        if pair is None:
            return self._open and (not line.strip() or "\t" in line)
        if self._after_blank and not pair["front"] and "\t" not in line and fold(pair["key"]) not in _KNOWN:
            self._open = False
        key, value = pair["key"], pair["value"].strip().rstrip(", \t").strip("\"'")
        if fold(key) == "alertname" and value:
            self._begin(value)
            return True
        if key.casefold() in {"labels", "annotations"} and not value.strip("{"):
            self._section = fold(key)
            return True
        if self._open and fold(key) in {"status", "state"} and self.labelled[-1].has_own_state:
            self._open = False  # the next one begins with it
        if self._open and self.labelled[-1].add(key, value, annotates=self._section == "annotations"):
            return True
        if not self._open and fold(key) in {"severity", "status", "state"}:
            self._before[key] = value
        is_remark = key[0].isupper() and len(value.split()) > 3 and not pair["front"].strip()
        return self._open and not is_remark


def read_alerts(lines: Sequence[str]) -> tuple[list[Alert], list[str]]:
    """The alerts of a notification in the order of the text, one of a name, and the lines that are of none."""
    reader = _Reader()
    for line in lines:
        reader.read(line)
    alerts: dict[str, Alert] = {}
    names = {each.name for each in reader.labelled}
    others = [each for each in reader.titled if not names or (each.name not in names and is_compound(each.name))]
    for each in reader.labelled + others:
        known = alerts.setdefault(f"{each.name} {each.state == 'resolved'}", each)
        if known is not each:
            known.severity = known.severity or each.severity
            known.words += each.words
    found = [each for each in alerts.values() if each.name not in _ALWAYS_FIRING] or [*alerts.values()]
    return found, reader.rest if found else list(lines)


def _is_name(word: str) -> bool:
    return is_compound(word) or word in _ALWAYS_FIRING


def _is_of_alert(title: re.Match[str], line: str) -> bool:
    """Whether it is the state in front of a title. Without a number it is so only where the line begins."""
    return ":" in title[0] or not _says(line[: title.start()])


def _says(before: str) -> bool:
    """Whether what stands before a title is more than a subject, a number or an emoji."""
    found = re.findall(r"[^\W\d_]\w*", re.sub(r":\w+:", " ", before))
    return any(word.casefold() not in _SUBJECT for word in found)


def _titled(text: str, state: str) -> Alert:
    """The alert of a title. By default it is `GROUP (OTHER LABELS)`, all of them values, the name in either part.
    Others name the alert and go on in words."""
    head, _, tail = text.partition("(")
    inside, _, after = tail.partition(")")
    tokens = [token.strip("[]*:,") for token in f"{head} {inside}".split()]
    severity = next((fold(token) for token in tokens if fold(token) in SEVERITIES), "")
    named = [token for token in tokens if fold(token) not in SEVERITIES] or [""]
    of_values = len(head.split()) < _MOST_VALUES and (not after.strip("* ") or severity) if tail else len(tokens) < 4
    if tail and len(head.split()) > 1 and not any(map(is_compound, named)):
        inner = next((fold(token) for token in inside.split() if fold(token) in SEVERITIES), "")
        return Alert(" ".join(head.strip("[]*:, ").split()), state=state, severity=inner, words=[after.strip("* ")])
    if of_values:
        name = next(filter(is_compound, named), named[0]) if tail else named[0]
        return Alert(name, state=state, severity=severity, words=[after.strip("* ")])
    severity = next((fold(token) for token in tokens[:2] if fold(token) in SEVERITIES), "")
    words = text.split()[2 if severity else 1 :]
    return Alert(named[0], state=state, severity=severity, words=[" ".join(words)])
