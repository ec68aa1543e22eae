"""What a state, an event or a condition reports of its object.

`objects` and `tables` call it. A state counts with the kind of the object that has it; what is healthy is no finding.
"""

import re
from collections.abc import Iterator

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
_WELL = re.compile("HasNo|Sufficient")
_NEUTRAL = frozenset({"Complete", "Suspended", "SuccessCriteriaMet", "DisruptionTarget"})
_UNTELLING = frozenset({"Completed", "Error", "ContainersNotReady", "MinimumReplicasUnavailable", "ContainerCreating"})


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
    return (reason == "Preempted" or _ADVERSE.search(reason) is not None) and not _WELL.search(reason)


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
