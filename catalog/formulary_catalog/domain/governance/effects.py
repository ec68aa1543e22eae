"""What the commands of a workflow do to pods and to data, as far as a table knows them (DESIGN section 4).

`loading/advice` compares it with what a workflow declares for `restarts` and `data-loss`; a test does for the starter
catalog. A help to authors, no sandbox: what is not in the table is not known to be harmless.
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum

from formulary_catalog.domain.workflows.labels import DATA_LOSS, RESTARTS

_BETWEEN_COMMANDS = re.compile(r"\n|;|\|\|?|(?<!>)&&?(?!\d)|\$\((?!\()|\s--\s")
"""What `kubectl exec` runs behind `--`, and what a shell replaces, are commands of their own."""
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_KUBECTL = re.compile(r"(?:^|[\s'\"(])(?:kubectl|oc)\s")


class Effect(IntEnum):
    """Whether commands do it; of several commands, the greatest counts."""

    NO = 0
    UNKNOWN = 1
    YES = 2


def _pattern(*words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|\s)(?:{'|'.join(words)})(?=[\s/]|$)")


_READING = _pattern(
    *("exec", "get", "describe", "logs", "top", "wait", "events", "explain", "diff", "auth", "version", "debug"),
    *("annotate", "label", "cordon", "uncordon", "create", "expose", "api-resources"),
    r"rollout\s+(?:status|history|pause)",
)
_ASKED = re.compile(r"\sannotate\s.*\breconcile\.")
"""A controller is asked to act; what it does is its own."""
_DRY = re.compile(r"--dry-run(?:=server|=client)?(?=\s|$)")
_RESTARTING = _pattern(
    *("drain", "evict", r"rollout\s+(?:restart|undo|resume)", r"set\s+(?:image|resources|serviceaccount)"),
    r"set\s+env(?!.*\s--list\b)",
)
_ON = re.compile(r"\s(?:patch|scale|delete|replace|apply|edit)(?=\s|$)")
_WORKLOADS = re.compile(
    r"(?:^|[\s\"'{/])(?:pods?|po|deployments?|deploy|statefulsets?|sts|daemonsets?|ds|replicasets?|rs|jobs?|nodes?|"
    r"namespaces?|ns|machines(?:\.[\w.]+)?|\$\{WORKLOAD\})(?=[\s/\"']|$)"
)
_GROWING = re.compile(
    r'test\s+"(\$\{\w+\})"\s+-gt\s+"(\$\{\w+\})"\s*&&\s*(?:kubectl|oc)\b[^\n;|&]*\sscale\s[^\n;|&]*'
    r'--current-replicas="\2"\s+--replicas="\1"(?=\s|$)'
    r"|(?:kubectl|oc)\b[^\n;|&]*\sscale\s[^\n;|&]*--current-replicas=0\s+--replicas=\S+"
)
"""Scaling that only adds pods, as it compares the two numbers first and names the former one."""
_RESUMED = re.compile(r"\spatch\s.*'\{\"spec\":\{\"suspend\":false\}\}'")
_WITHOUT_PODS = re.compile(
    r"(?:^|\s)(?:hpa|horizontalpodautoscalers?|pvc|persistentvolumeclaims?|pdb|poddisruptionbudgets?|resourcequotas?|"
    r"cronjobs?|configmaps?|cm|secrets?|services?|svc|ingress(?:es)?|ing|volumeattachments?|limitranges?|"
    r"machinedeployments\.[\w.]+|certificates?)(?=[\s/\"']|$)"
)
_ADDED_TAINT = re.compile(r"\staint\s(?!.*-[\"']?\s*$)")
_DATA = re.compile(
    r"\s(?:-delete|--delete-emptydir-data)(?=\s|$)|(?:^|\s)(?:rm|dd|mkfs\S*|wipefs|blkdiscard|shred|truncate)\s"
    r"|--grace-period=0\s.*--force|--force\s.*--grace-period=0|\bout-of-service\b|\.finalizers\s*-=|\"finalizers\":"
    r"|--force-new-cluster|\bsnapshot\s+restore\b|\betcdctl\s.*\sdel\s|\b(?:helm\s+uninstall|terraform\s+destroy)\b"
    r"|\b(?:drop\s+(?:table|database|schema)|truncate\s+table|delete\s+from|flush(?:all|db))\b",
    re.IGNORECASE,
)
_LOST_WHEN_DELETED = re.compile(
    r"(?:^|[\s\"'])(?:pvc|persistentvolumeclaims?|pv|persistentvolumes?|namespaces?|ns|secrets?|configmaps?|cm|crds?|"
    r"customresourcedefinitions?|volumeattachments?|machines(?:\.[\w.]+)?|nodes?)(?=[\s/\"']|$)"
)
_REPLACED = re.compile(r"\sreplace\s.*--force(?=\s|$)")
_HARMLESS = re.compile(
    r"^(?:(?:if|then|else|fi|do|done|while|until|case|esac|\{|\}|!|time)\s*)*(?:\w+=\S*\s*)*(?:$|\)|for\s|case\s|"
    r"(?:jq|grep|sed(?!.*\s-i)|awk|sort|uniq|head|tail|cut|wc|tr|cat|echo|printf|test|\[|sleep|true|false|exit|date|"
    r"sha256sum|base64|column|df|du|ls|ps|nslookup|dig|set|cmctl)(?=\s|$)|"
    r"env\s*$|java\s+-XX:\+Print|find(?=\s)(?!.*\s-(?:exec|ok))|curl(?=\s)(?!.*\s(?:-X|--request|-d|--data\S*|-T)\b)|"
    r"etcdctl\s.*\s(?:status|snapshot\s+save|defrag|alarm\s+disarm)(?=\s|$))"
)
"""What looks, waits or writes text, and what the starter catalog does with etcd."""


def effects(commands: Iterable[str]) -> dict[str, Effect]:
    """What the commands do, for each standard key."""
    parts = [part for command in commands for part in _parts(_GROWING.sub("true", command))]
    return {
        RESTARTS: max(map(_restarts, parts), default=Effect.NO),
        DATA_LOSS: max(map(_loses_data, parts), default=Effect.NO),
    }


def _parts(command: str) -> Sequence[str]:
    """The single commands of a script; what stands between quotes separates nothing."""
    joined = command.replace("\\\n", " ")
    kept = _QUOTED.sub(lambda found: re.sub(r"[\n;|&]", " ", found.group()), joined)
    return [part.strip() for part in _BETWEEN_COMMANDS.split(kept) if part.strip()]


def _restarts(part: str) -> Effect:
    if _KUBECTL.search(part) is None:
        return Effect.NO if _HARMLESS.match(part) else Effect.UNKNOWN
    if _DRY.search(part) or _RESUMED.search(part):
        return Effect.NO
    if _RESTARTING.search(part) or _ADDED_TAINT.search(part):
        return Effect.YES
    if (acting := _ON.search(part)) is not None:
        on = part[acting.end() :]
        if _WORKLOADS.search(on) and not _without_pods_first(on):
            return Effect.YES
        return Effect.NO if _WITHOUT_PODS.search(on) else Effect.UNKNOWN
    if _ASKED.search(part):
        return Effect.UNKNOWN
    return Effect.NO if _READING.search(part) or re.search(r"\s(?:taint|set\s+env)\s", part) else Effect.UNKNOWN


def _without_pods_first(on: str) -> bool:
    """Whether the first kind that is named has no pods: `patch cronjob` of what has jobs in it."""
    workload, other = _WORKLOADS.search(on), _WITHOUT_PODS.search(on)
    return other is not None and (workload is None or other.start() < workload.start())


def _loses_data(part: str) -> Effect:
    if _DRY.search(part):
        return Effect.NO
    if _DATA.search(part) or _REPLACED.search(part):
        return Effect.YES
    if _KUBECTL.search(part) is None:
        return Effect.NO if _HARMLESS.match(part) else Effect.UNKNOWN
    if re.search(r"\srun(?=\s|$)", part):
        return Effect.UNKNOWN
    if (acting := re.search(r"\sdelete(?=\s|$)", part)) is not None:
        on = part[acting.end() :]
        if _LOST_WHEN_DELETED.search(on):
            return Effect.YES
        return Effect.NO if _WORKLOADS.search(on) or _WITHOUT_PODS.search(on) else Effect.UNKNOWN
    return Effect.NO
