"""Placeholders of commands in other people's notations, as parameters of a workflow.

The other modules of drafts call it. A value arrives as an environment variable, so each placeholder becomes one in
quotes: what somebody gives is never read as a command.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

_ASSIGNED = re.compile(
    r"(?:^|[\s;&|(])(?:export\s+|local\s+)?([A-Za-z_]\w*)=|\b(?:for|read(?:\s+-\w+)*)\s+([A-Za-z_]\w*)"
)
_VARIABLE = re.compile(r"\$(?:\{([A-Z][A-Z0-9_]*)\}|([A-Z][A-Z0-9_]*)\b)")
_OF_THE_SHELL = frozenset("HOME PATH PWD USER HOSTNAME SHELL RANDOM SECONDS IFS LANG TMPDIR NF NR FS OFS RS".split())
ANGLED = re.compile(
    r"(?<!<)<(?!(?:none|unknown|pending|nil|invalid|unset)>)(?P<name>[A-Za-z](?:[A-Za-z0-9 _./-]{0,60}[A-Za-z0-9])?)>"
)
"""`<namespace>`, as runbooks write it."""
BRACED = re.compile(r"\{\{\s*(?P<name>[A-Za-z][\w.-]*)\s*\}\}")
"""`{{ Namespace }}`, as SSM documents and templates write it."""
OPTION = re.compile(
    r"\$\{option\.(?P<name>[\w-]+)(?:\.value)?\}|@option\.(?P<at>[\w-]+)@|\$\{?RD_OPTION_(?P<rd>[A-Z0-9_]+)\}?"
)
"""As Rundeck writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A value that a command needs. `written` is how the source wrote it."""

    name: str
    written: str
    description: str = ""
    default: str | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    sensitive: bool = False


def variable_name(written: str) -> str:
    """`pod-name`, `PodName` and `pod name` as `POD_NAME`; never a variable that the shell itself reads."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", written)
    name = re.sub(r"[^A-Z0-9]+", "_", split.upper()).strip("_0123456789") or "VALUE"
    name = name.removeprefix("MY_").removeprefix("YOUR_")
    return f"{name}_VALUE" if name in _OF_THE_SHELL else name


def with_variables(command: str, *, notation: re.Pattern[str]) -> tuple[str, list[Placeholder]]:
    """The command with its placeholders as quoted variables, and these; variables of its own count as well."""
    found: dict[str, Placeholder] = {}

    def variable(match: re.Match[str]) -> str:
        written = next(filter(None, match.groups()))
        name = variable_name(written)
        found.setdefault(name, Placeholder(name=name, written=match[0]))
        return name

    command = _quoted(command, notation=notation, variable=variable)
    assigned = {name for groups in _ASSIGNED.findall(command) for name in groups if name} | _OF_THE_SHELL
    for braced, bare in _VARIABLE.findall(command):
        name = braced or bare
        if name not in assigned:
            found.setdefault(name, Placeholder(name=name, written=f"${name}"))
    return command, [each for name, each in found.items() if name not in assigned]


def merged(known: list[Placeholder], found: list[Placeholder]) -> list[Placeholder]:
    """Those of a source that describes them, and further ones that its commands use, each once."""
    by_name: dict[str, Placeholder] = {}
    for each in (*known, *found):
        first = by_name.setdefault(each.name, each)
        if first.description == "" and each.description:
            by_name[each.name] = replace(each, written=first.written)
    return list(by_name.values())


def _quoted(command: str, *, notation: re.Pattern[str], variable: Callable[[re.Match[str]], str]) -> str:
    """Replace each placeholder by `${NAME}`, in double quotes where it is in none."""
    written: list[str] = []
    quote = ""
    place = 0
    while place < len(command):
        if match := notation.match(command, place):
            reference = f"${{{variable(match)}}}"
            around = {"": '"{}"', '"': "{}", "'": "'\"{}\"'"}[quote]
            written.append(around.format(reference))
            place = match.end()
            continue
        letter = command[place]
        if letter == "\\" and quote != "'":
            written.append(command[place : place + 2])
            place += 2
            continue
        if letter == "#" and not quote and (not place or command[place - 1].isspace()):
            end = command.find("\n", place)
            comment = command[place : end if end >= 0 else len(command)]
            written.append(comment)
            place += len(comment)
            continue
        if letter in "\"'" and quote in ("", letter):
            quote = "" if quote else letter
        written.append(letter)
        place += 1
    return "".join(written)
