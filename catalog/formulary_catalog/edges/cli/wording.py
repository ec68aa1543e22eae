"""Errors and notes in the words of a command: `--signal` where a tool says `signal_type`.

They are written for callers of tools and endpoints. A parameter of a command has the name of the argument that it
becomes, so that click knows how a person typed it. `edges/cli/main` reports errors with it, pages show notes with it.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

import click

from formulary_catalog.domain.text import renamed

_LABEL = re.compile(r"\blabel\.(?=[a-z])")
_CAPITAL = re.compile("(?=[A-Z])")
_CLOSE = 0.75
"""From this likeness on, of 1, an option may be meant by another name."""


def as_typed(message: str, *, command: click.Command | None, field: str = "") -> str:
    """The message with the options and arguments of the command. `field` is the argument that it is about.

    Names of one word may be words of the sentence; that of the field begins it.
    """
    if command is None:
        return message
    typed = {each.name: _typed(each) for each in command.params if each.name}
    argument = _CAPITAL.sub("_", field.rpartition(".")[2]).lower()  # JSON-RPC has `options.timeoutMs`
    if argument in typed and message.startswith(f"{field} "):
        message = typed[argument] + message.removeprefix(field)
    flags = {each.name for each in command.params if isinstance(each, click.Option) and each.is_flag}
    names = {name: spelling for name, spelling in typed.items() if "_" in name}
    message = renamed(message, {f"{name} true": names[name] for name in names if name in flags} | names)
    return _LABEL.sub("--label ", message) if "labels" in typed else message


def notes_as_typed(notes: Iterable[str]) -> list[str]:
    """The notes of an answer, for the command that runs."""
    context = click.get_current_context(silent=True)
    command = context.command if context is not None else None
    return [as_typed(note, command=command) for note in notes]


def with_close_options(error: click.NoSuchOption) -> click.NoSuchOption:
    """The error with those options alone that a person may have meant: click suggests `--url` for `--lim`."""
    given = error.option_name.lstrip("-")
    close = [option for option in error.possibilities or () if _is_close(given, option.lstrip("-"))]
    return click.NoSuchOption(error.option_name, possibilities=close, ctx=error.ctx)


def _is_close(given: str, option: str) -> bool:
    return given.startswith(option) or SequenceMatcher(None, given, option).ratio() >= _CLOSE


def _typed(parameter: click.Parameter) -> str:
    """`--signal`; of an argument its name in the usage, `SQL`."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return (parameter.metavar or str(parameter.name).upper()).strip("[].")
