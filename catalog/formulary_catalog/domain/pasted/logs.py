"""Lines of logs and of hosts: where they begin, and which of them report an error.

`objects` calls it for each line that is of no object.
"""

import re
from collections.abc import Sequence

_KERNEL = r"\[\s*\d+\.\d+\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2}\s+\d+ \d\d:\d\d:\d\d \d{4}\]"
_JOURNAL = r"[A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d\s\S+"
_HOST = re.compile(
    rf"^\s*(?:{_KERNEL}|(?:systemd\[\d+\]|kernel):) "
    r"|Memory cgroup out of memory|\boom-kill:|Killed process \d|Active: failed"
)
_HOST_LOGGED = re.compile(r"\bsystemd\[\d+\]:|\bkernel: |\.service: ")
"""What says so only behind the beginning of a line of a log."""
_GROUP_LIMIT, _OF_POD = "oom-kill:constraint=CONSTRAINT_MEMCG", re.compile(r"\bkubepods\b")
_BEGINS = re.compile(
    rf"\s*(?:\[pod/\S+\]\s*)?(?:\[?\d{{4}}[-/]\d\d[-/]\d\d[T ]\S*|\[?\d\d:\d\d:\d\d\S*|{_KERNEL}|{_JOURNAL}"
    r"|[IWEF]\d{4}\s[\d:.]+|(?:time|ts|level)=\S+|\[(?:ERROR|FATAL|WARN|WARNING|INFO|DEBUG)\](?=\s))\s*"
)
"""How lines of a log begin."""
_LEVELLED = re.compile(
    r"(?=.*\d\d:\d\d).*?(?:\b(?:ERROR|ERR|FATAL|PANIC|CRITICAL|WARN|WARNING|INFO|DEBUG)\b|\[[a-z]+\]|\blevel=)"
    rf"|\s*(?:[IWEF]\d{{4}}\s|{_KERNEL}|{_JOURNAL}\s[\w.@-]+\[\d+\]:)"
)
"""A line that is of a log even if it stands alone."""
_TELLS = re.compile(
    r"(?<!no)error|fatal|exception|denied|refused|panic|fail|time.?out|timed out|unable|cannot|can't|not found|no such"
    r"|invalid|missing|unknown|killed|expired|forbidden|unauthor|x509|no space|exhausted|prematurely|OutOfMemory"
    r"|\b(?:9\d|100)%|(?-i:\b[EF]\d{4}\s\d\d:)",
    re.IGNORECASE,
)


def has_log(lines: Sequence[str]) -> bool:
    """Whether lines are of a log: several begin as such do, or one that has a level too."""
    logged = [line for line in lines if is_logged(line)]
    return len(logged) > 1 or any(map(_LEVELLED.match, logged))


def is_logged(line: str) -> bool:
    """Whether a line begins as those of logs do."""
    return _BEGINS.match(line) is not None


def of_host(line: str) -> bool:
    """Whether a line is of a host, of its units or its kernel."""
    return _HOST.search(line) is not None or (is_logged(line) and _HOST_LOGGED.search(line) is not None)


def of_pod_limit(line: str) -> bool:
    """Whether the kernel reports that it killed a process at the memory limit of a pod."""
    _, limit, after = line.partition(_GROUP_LIMIT)
    return bool(limit) and _OF_POD.search(after) is not None


def reports_error(line: str) -> bool:
    """Whether a line of a log or an output reports an error."""
    return _TELLS.search(line) is not None


def shortened(line: str) -> str:
    """A line without its time and without the request that failed."""
    begins = _BEGINS.match(line)
    said = line[begins.end() :] if begins else line
    return said.split(", client:")[0]
