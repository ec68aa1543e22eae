"""What the commands of a workflow do with its parameters: name an object, a namespace or pods by their labels.

`target_input` asks it, so that what a command reaches is known whatever the parameter is called. It reads commands as
kubectl takes them, in one pass, and rather takes one use too many for a name than one too few.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from formulary_catalog.domain.targets.reference import KINDS, TargetKind, known_kind

_NAMESPACES, _NODES, *_ = KINDS
_CLIENTS = frozenset({"kubectl", "oc", "helm"})
_ON_PODS = frozenset({"exec", "logs", "debug", "attach", "port-forward"})
"""What kubectl does with a pod where no kind is named; what follows the pod is a command, a container or a port."""
_ON_NODES = frozenset({"drain", "cordon", "uncordon"})
_OF_NAMESPACE = frozenset({"-n", "--namespace"})
_OF_LABELS = frozenset({"-l", "--selector"})
_WITH_VALUE = frozenset(
    """
    -L -c -o -s --annotations --as --as-group --chunk-size --cluster --container --container-runtime --context
    --copy-to --cpu-percent --current-replicas --env --field-manager --field-selector --for --from --from-file
    --from-literal --grace-period --image --kubeconfig --label-columns --labels --limits --max --max-log-requests
    --min --output --overrides --patch --patch-file --pod-running-timeout --pod-selector --port --profile --raw
    --replicas --request-timeout --requests --resource-version --revision --server --since --since-time --sort-by
    --subresource --tail --target --template --timeout --to-revision --token --type --user
    """.split()
)
"""Flags whose next word is never a name. After any other flag it may be one."""
_BOOLEAN = frozenset("-i -t -A -R -q -w --stdin --tty --force --all --now --follow --previous --wait".split())
"""Flags whose next word is no value of theirs."""
_REDIRECTION = ">"
_VARIABLE = re.compile(r"\$(?:\{(\w+)[^{}]*\}|(\w+))")
_MARKED = re.compile(r"\x01(\w+)\x02")
_MARKED_ALONE = re.compile(r"(?:\x01\w+\x02)+")
_WITH_KIND = re.compile(r"(?<![\w.$/{-])([A-Za-z]++)(?:\.[\w.]++)?/\x01(\w+)\x02")
_BEFORE_CLIENT = re.compile(r"[/=]")
_WORD = re.compile(r"[<>]+&?|[()\n|;&]|[^\s()|;&<>]+")
_UNMARKED = str.maketrans("", "", "\x01\x02")
_UNQUOTED = str.maketrans("$`", "  ", "\"'\\")


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """The kinds of object that commands take a parameter for; `selects`: also for labels of pods or of nodes."""

    kinds: tuple[TargetKind, ...] = ()
    selects: bool = False
    selects_nodes: bool = False


NO_USE = ParameterUse()


@dataclass(slots=True)
class _Command:
    """What has been read of one command."""

    is_client: bool = False
    kinds: list[TargetKind] = field(default_factory=list)
    takes_one: bool = False
    flag: str = ""


class _Reader:
    """Walks through the words of commands and notes what each parameter is used as."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[TargetKind, None]] = {}
        self.selects: set[str] = set()
        self.selects_nodes: set[str] = set()
        self._command = _Command()
        self._around: list[_Command] = []

    def read(self, word: str) -> None:
        """Take the next word."""
        if word == "(":
            self._around.append(self._command)
            self._command = _Command()
        elif word == ")" and self._around:
            self._command = self._around.pop()
            self._command.flag = ""
        elif word in (*")\n|;&", "--"):
            self._command = _Command()
        elif word[0] in "<>":
            self._command.flag = _REDIRECTION
        elif word.startswith("-"):
            self._flag(word)
        else:
            self._word(word)

    def _flag(self, word: str) -> None:
        name, has_value, value = word.partition("=")
        if not name.startswith("--") and len(name) > 2 and not has_value:
            name, value = word[:2], word[2:]
        self._note_kinds(word)
        if value:
            self._value(name, value)
        self._command.flag = "" if value or has_value else name

    def _value(self, flag: str, value: str) -> None:
        """Note what a flag of a client makes of a value."""
        if not self._command.is_client or not _MARKED_ALONE.fullmatch(value):
            return
        if flag in _OF_NAMESPACE:
            self._note(value, [_NAMESPACES])
        elif flag in _OF_LABELS:
            of_nodes = set(self._command.kinds) == {_NODES}
            (self.selects_nodes if of_nodes else self.selects).update(_MARKED.findall(value))

    def _word(self, word: str) -> None:
        command, flag = self._command, self._command.flag
        command.flag = ""
        if flag in _OF_NAMESPACE | _OF_LABELS and command.is_client:
            self._value(flag, word)
            return
        self._note_kinds(word)
        # The `-c` of a shell has a command, not a value.
        if flag == _REDIRECTION or (flag in _WITH_VALUE and command.is_client):
            return
        if _BEFORE_CLIENT.split(word)[-1].strip("\x01\x02").lower() in _CLIENTS:
            self._command = _Command(is_client=True)
            return
        if _MARKED_ALONE.fullmatch(word):
            self._note(word, command.kinds)
        elif kinds := _kinds_before_names(word):
            command.kinds = list(dict.fromkeys([*(command.kinds if command.is_client else ()), *kinds]))
            command.takes_one = word in _ON_PODS
            return
        elif not command.is_client and not flag:
            command.kinds = []
        if command.takes_one and (not flag or flag in _BOOLEAN):
            command.kinds, command.takes_one = [], False

    def _note_kinds(self, word: str) -> None:
        """Note what a word says of itself, as `deployment/$NAME`."""
        for kind, name in _WITH_KIND.findall(word):
            if (known := known_kind(kind)) is not None:
                self.kinds.setdefault(name, {})[known] = None

    def _note(self, word: str, kinds: Iterable[TargetKind]) -> None:
        for name in _MARKED.findall(word):
            self.kinds.setdefault(name, {}).update(dict.fromkeys(kinds))


def _kinds_before_names(word: str) -> list[TargetKind]:
    """The kinds of what is named next: by the kinds themselves, as `deploy,sts`, or by what is done with one."""
    if word in _ON_PODS:
        word = "Pod"
    elif word in _ON_NODES:
        word = "Node"
    found = (known_kind(each.partition(".")[0]) for each in word.split(","))
    return [each for each in found if each is not None]


def parameter_uses(commands: str) -> dict[str, ParameterUse]:
    """What commands do with each of their variables that names something."""
    text = commands.replace("\\\n", " ").translate(_UNMARKED)
    for _ in range(2):  # one may be the default of another
        text = _VARIABLE.sub(_marked, text)
    reader = _Reader()
    for word in _WORD.findall(text.translate(_UNQUOTED)):
        reader.read(word)
    names = reader.kinds.keys() | reader.selects | reader.selects_nodes
    return {
        name: ParameterUse(
            kinds=tuple(reader.kinds.get(name, ())),
            selects=name in reader.selects,
            selects_nodes=name in reader.selects_nodes,
        )
        for name in names
    }


def _marked(variable: re.Match[str]) -> str:
    names = [variable.group(1) or variable.group(2), *_MARKED.findall(variable.group())]
    return "".join(f"\x01{name}\x02" for name in names)
