"""What a state, an event, a condition or a row of `kubectl get` reports of its object.

`objects` and `alerts` call it. A state counts with the kind of the object that has it; what is healthy is no finding.
Names of objects are no symptoms.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from formulary_catalog.domain.pasted.problems import Finding, canonical, finding, is_compound

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
_ADVERSE = re.compile(
    "Pressure|Unavailable|Fail|Degraded|Stalled|Limited|Deadlock|Not[A-Z]|Stuck|Terminating|Error|Full"
)
"""Types of conditions that are wrong if true, and reasons of events that report trouble though they do not warn."""
_ABSENT = re.compile("HasNo|Sufficient")
_NEUTRAL = frozenset({"Complete", "Suspended", "SuccessCriteriaMet", "DisruptionTarget"})
_UNTELLING = frozenset({"Completed", "Error", "ContainersNotReady", "MinimumReplicasUnavailable", "ContainerCreating"})
_KINDS = (
    "Pod Node Service Job CronJob Deployment StatefulSet DaemonSet ReplicaSet PersistentVolumeClaim PersistentVolume "
    "HorizontalPodAutoscaler Namespace ResourceQuota PodDisruptionBudget Ingress Endpoints Certificate APIService"
).split()
_SHORT = {"po": "pod", "no": "node", "pvc": "persistentvolumeclaim", "svc": "service", "hpa": "horizontalpodautoscaler"}
KIND_BY_COLUMN = {
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
ROWS = {
    "Pod": re.compile(
        r"(?<!\S)(?:[a-z]+/)?[a-z0-9][\w.-]*\s+(?P<READY>\d+/\d+)\s+(?P<STATUS>[A-Z][\w:/]*)"
        rf"\s+(?P<RESTARTS>\d+(?:\s\([^()\n]{{1,20}}\))?)\s+{_AGE}"
    ),
    "Node": re.compile(rf"^\s*\S+\s+(?P<STATUS>(?:Not)?Ready(?:,\w+)?)\s+\S+\s+{_AGE}\s+v\d\S*"),
    "Service": re.compile(rf"^\s*\S+\s+(?P<TYPE>LoadBalancer)\s+\S+\s+(?P<EXTERNAL_IP>\S+)\s+\d\S*\s+{_AGE}$"),
    "HorizontalPodAutoscaler": re.compile(r"^\s*\S+\s+[A-Z]\w+/\S+\s+(?P<TARGETS><unknown>/\S+)(?:\s+\d+){3}"),
}
"""Rows that are recognised without the head of their table."""
HEAD_WORDS = frozenset("NAMESPACE NAME READY STATUS RESTARTS AGE ROLES VERSION TYPE REASON OBJECT MESSAGE".split())
CELLS = re.compile(r"\s*\t\s*|\s{2,}")


def of_state(state: str, kind: str) -> Iterator[Finding]:
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


def of_event(reason: str, message: str) -> Finding:
    if reason in {"BackOff", "Failed"}:
        for name, pattern in _BY_MESSAGE.items():
            if found := pattern.search(message):
                return finding(name or found["name"], "" if name == "CrashLoopBackOff" else message)
    return finding(reason, message, is_cause=reason == "Unhealthy" and _CAUSING_PROBE.match(message) is not None)


def is_trouble(reason: str) -> bool:
    """Whether an event reports trouble though it is of type Normal, as the kubelet and the scheduler have some."""
    return (reason == "Preempted" or _ADVERSE.search(reason) is not None) and not _ABSENT.search(reason)


def of_condition(type_: str, status: str, reason: str, message: str, kind: str) -> Iterator[Finding]:
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


def says_more_than_restarts(message: str) -> bool:
    """Whether a message says more than that a container is restarted."""
    return not _BY_MESSAGE["CrashLoopBackOff"].match(message)


def kind_of(resource: str) -> str:
    """The kind that a resource or the prefix of a name means; empty for several."""
    name = resource.casefold().partition("/")[0].partition(".")[0]
    name = _SHORT.get(name, name)
    return next(
        (kind for kind in _KINDS if name.rstrip("s") == kind.casefold().rstrip("s")), "" if "," in name else name
    )


def cells_of(line: str, columns: Sequence[tuple[str, int]]) -> dict[str, str]:
    """The cells of a row by column, some of which may be empty; nothing for what is no row."""
    is_aligned = all(start in {0, len(line)} or line[start - 1 : start] in {"", " "} for _, start in columns)
    if "\t" not in line and is_aligned:
        ends = [start for _, start in columns[1:]] + [len(line)]
        cells = [line[start:end].strip() for (_, start), end in zip(columns, ends, strict=True)]
    else:
        cells = CELLS.split(line.strip())
    return dict(zip((title for title, _ in columns), cells, strict=False)) if sum(map(bool, cells)) > 1 else {}


def of_row(cells: Mapping[str, str], kind: str) -> Iterator[Finding]:
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
    yield from of_state(state, kind)
    for title, value in wrong.items():
        of = cells.get("TYPE", "") if title == "EXTERNAL-IP" else ""
        words = ("" if kind == "Pod" else kind, of, re.sub(r" \(.*|[<>]", "", value), title.casefold())
        yield finding("", " ".join(filter(None, words)))
    if wrong or state:
        yield from (finding("", cells[title]) for title in ("REASON", "MESSAGE") if cells.get(title))
