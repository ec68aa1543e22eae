"""Commands that destroy or interrupt, recognised by a table. What is not in it is not known to be harmless.

A help to those who judge, no sandbox: a command can be hidden from any table.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from formulary_catalog.domain.governance.gate import Severity
from formulary_catalog.domain.workflows.manifest import Step

_BETWEEN_COMMANDS = re.compile(r"[\n;|]|(?<!>)&")


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """One line of the table: what it is, how bad where nobody has approved it, and how to see it.

    A command is dangerous if it names the `program` and all `signs` are found behind that. Two searches rather than
    one pattern with a gap: no text makes them slow.
    """

    name: str
    severity: Severity
    program: re.Pattern[str]
    signs: tuple[re.Pattern[str], ...]

    def is_in(self, command: str) -> bool:
        """Whether one command is dangerous in this way."""
        named = self.program.search(command)
        return named is not None and all(sign.search(command, named.end()) for sign in self.signs)


def _danger(name: str, severity: Severity, program: str, *signs: str) -> Danger:
    return Danger(
        name=name,
        severity=severity,
        program=re.compile(program, re.IGNORECASE),
        signs=tuple(re.compile(sign, re.IGNORECASE) for sign in signs),
    )


_KUBECTL = r"\b(?:kubectl|oc)\b"
_RECURSIVE = r"\s(?:-[a-z]*r[a-z]*|--recursive)\b"

DANGERS: Sequence[Danger] = (
    # Deleting a pod is a restart where a controller keeps it, unless it is forced or all of them go.
    _danger("kubectl delete", Severity.HIGH, _KUBECTL, r"\sdelete\b(?!\s+(?:-\S+\s+)*(?:pods?|po)(?:[\s/]|$))"),
    _danger("kubectl delete --all", Severity.HIGH, _KUBECTL, r"\sdelete\b", r"\s--all(?![\w-])"),
    _danger("kubectl --force", Severity.HIGH, _KUBECTL, r"\s(?:delete|replace|drain|apply)\b", r"\s--force(?![\w-])"),
    _danger("kubectl drain", Severity.HIGH, _KUBECTL, r"\sdrain\b"),
    _danger("kubectl cordon", Severity.HIGH, _KUBECTL, r"\scordon\b"),
    _danger("kubectl scale to zero", Severity.HIGH, _KUBECTL, r"\sscale\b", r"--replicas[=\s]\s*[\"']?0\b"),
    _danger("kubectl taint NoExecute", Severity.HIGH, _KUBECTL, r"\staint\b", r":NoExecute\b(?!-)"),
    _danger("helm uninstall", Severity.HIGH, r"\bhelm\b", r"\s(?:uninstall|delete)\b"),
    _danger("terraform destroy", Severity.CRITICAL, r"\b(?:terraform|tofu)\b", r"\sdestroy\b"),
    _danger("etcdctl restore or delete", Severity.CRITICAL, r"\betcdctl\b", r"\s(?:snapshot\s+restore|del)\b"),
    _danger("etcdutl restore", Severity.CRITICAL, r"\betcdutl\b", r"\ssnapshot\s+restore\b"),
    _danger("rm -r", Severity.HIGH, r"(?<![-\w])rm\b", _RECURSIVE),
    _danger("rm -r of a root", Severity.CRITICAL, r"(?<![-\w])rm\b", _RECURSIVE, r"\s/\*?(?:\s|[\"']|$)"),
    _danger("find -delete", Severity.HIGH, r"\bfind\b", r"\s-delete\b"),
    _danger("dd", Severity.CRITICAL, r"\bdd\b", r"\sof="),
    _danger("mkfs or wipefs", Severity.CRITICAL, r"\b(?:mkfs|wipefs|blkdiscard)\b", r"\s"),
    _danger("shutdown", Severity.HIGH, r"^\s*(?:sudo\s+)?(?:shutdown|reboot|poweroff|halt)\b"),
    _danger("kill -9", Severity.HIGH, r"\b(?:p?kill|killall)\s+-(?:9|KILL|SIGKILL)\b"),
    _danger("SQL DROP or TRUNCATE", Severity.CRITICAL, r"\b(?:drop\s+(?:table|database|schema)|truncate\s+table)\b"),
    _danger("SQL DELETE of all rows", Severity.CRITICAL, r"\bdelete\s+from\s+[\w.\"]+\s*(?:[\"']|$)"),
    _danger("FLUSHALL", Severity.CRITICAL, r"\bflush(?:all|db)\b"),
    _danger("cloud delete", Severity.HIGH, r"\b(?:aws|gcloud|az)\b", r"\s(?:delete|terminate)"),
    _danger("image prune", Severity.HIGH, r"\b(?:docker|podman|nerdctl)\b", r"\s(?:system|volume)\s+prune\b"),
)


def dangers(text: str) -> list[Danger]:
    """What the table knows in a text, in the order of the table."""
    commands = _BETWEEN_COMMANDS.split(text.replace("\\\n", " "))
    return [danger for danger in DANGERS if any(map(danger.is_in, commands))]


def destructive_steps(steps: Iterable[Step]) -> tuple[str, ...]:
    """The steps that destroy or interrupt, each with what the table found in it: `evict (kubectl drain)`."""
    return tuple(
        f"{step.name} ({', '.join(danger.name for danger in found)})"
        for step in steps
        if (found := dangers(step.command))
    )
