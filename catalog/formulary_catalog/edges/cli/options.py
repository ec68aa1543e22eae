"""Options that several commands share, the settings that they make up, and groups of commands."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.settings import Settings

_F = TypeVar("_F", bound=Callable[..., Any])
COMMAND = "formulary.command"
_FEW_COMMANDS = 8
_LEVELS = ("debug", "info", "warning", "error")

DEFAULT_URL = "http://127.0.0.1:8080"
"""Of the server that commands ask where none is named."""
DIRECTORY = click.Path(path_type=Path)


class Suggesting(click.Group):
    """A group that answers the name of no command with the nearest, or with all where they are few.

    It keeps the command that runs in the context, under `COMMAND`: errors are reported in its words.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if not args[0].startswith("-") and args[0] not in known:
            nearest = difflib.get_close_matches(args[0], known, n=3)
            few = f"its commands are {', '.join(known)}."
            all_ = few if len(known) <= _FEW_COMMANDS else f"`{ctx.command_path} --help` lists all commands."
            hint = f"did you mean {' or '.join(nearest)}?" if nearest else all_
            raise click.UsageError(f"There is no command {args[0]!r}; {hint}", ctx=ctx)
        name, command, others = super().resolve_command(ctx, args)
        ctx.meta[COMMAND] = command
        return name, command, others


def json_option(command: _F) -> _F:
    """`--json`, which also makes errors JSON."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, errors included.")(command)


def database_option(command: _F) -> _F:
    """`--database-url`."""
    return click.option(
        "--database-url", metavar="URL", help="PostgreSQL to use, postgresql://user@host/name. [FORMULARY_DATABASE_URL]"
    )(command)


def data_dir_option(command: _F) -> _F:
    """`--data-dir`."""
    return click.option(
        "--data-dir", type=DIRECTORY, metavar="DIR", help="Directory of the embedded PostgreSQL. [FORMULARY_DATA_DIR]"
    )(command)


def manifests_option(command: _F) -> _F:
    """`--manifests`, any number of times."""
    return click.option(
        "--manifests",
        type=DIRECTORY,
        multiple=True,
        metavar="DIR",
        help="Directory of manifests to load; may be repeated. Default: the starter catalog.",
    )(command)


def runbooks_option(command: _F) -> _F:
    """`--runbooks`, any number of times."""
    return click.option(
        "--runbooks",
        type=DIRECTORY,
        multiple=True,
        metavar="DIR",
        help="Directory of runbooks in Markdown to load; may be repeated.",
    )(command)


def listening_options(command: _F) -> _F:
    """`--host`, `--port` and `--insecure`."""
    command = click.option(
        "--insecure", is_flag=True, default=None, help="Listen beyond loopback, without any authentication."
    )(command)
    command = click.option(
        "--port", type=int, metavar="PORT", help="Port, 8080 by default; 0 takes a free one. [FORMULARY_PORT]"
    )(command)
    return click.option("--host", metavar="HOST", help="Address, 127.0.0.1 by default. [FORMULARY_HOST]")(command)


def log_level_option(command: _F) -> _F:
    """`--log-level`."""
    return click.option(
        "--log-level",
        type=click.Choice(_LEVELS, case_sensitive=False),
        default="info",
        envvar="FORMULARY_LOG_LEVEL",
        help="How much to log. [FORMULARY_LOG_LEVEL]",
    )(command)


def _labels(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """For a shell that completes: `KEY=`, then `KEY=VALUE` where values are suggested."""
    from formulary_catalog.domain.workflows.labels import LABEL_DIMENSIONS, wire_name

    written = [
        f"{wire_name(dimension.name)}={value}"
        for dimension in LABEL_DIMENSIONS
        for value in (dimension.suggested if "=" in incomplete else ("",))
    ]
    return [each for each in written if each.casefold().startswith(incomplete.casefold())]


def label_option(command: _F) -> _F:
    """`--label`, any number of times; `label_arguments` reads them."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=_labels,
        help="Required label. Repeat a key to allow any of several values.",
    )(command)


def narrowing_options(command: _F) -> _F:
    """`--action`, `--namespace` and `--keyword`: what a search is narrowed to besides labels."""
    command = click.option(
        "--keyword",
        "keywords",
        multiple=True,
        metavar="WORD",
        help="Only workflows with this word; repeat for any of several.",
    )(command)
    command = click.option("--namespace", default="", metavar="NAME", help="Only workflows of this namespace.")(command)
    return click.option(
        "--action", "action_type", default="", metavar="ACTION", help="Only workflows with this action type."
    )(command)


def label_arguments(labels: tuple[str, ...]) -> dict[str, list[str]]:
    """The values of each label dimension, as the argument of a search that has them.

    Raises:
        InvalidInput: one is not KEY=VALUE, or its key is none of the dimensions.
    """
    from formulary_catalog.domain.workflows.labels import DIMENSIONS, nearest_dimension, wire_name

    found: dict[str, list[str]] = {}
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not value.strip():
            raise InvalidInput(f"--label {label!r} is not KEY=VALUE; give one such as severity=critical", field="label")
        dimension = key.strip().removeprefix("label.").replace("-", "_")
        if dimension not in DIMENSIONS:
            near = wire_name(nearest_dimension(dimension))
            hint = f"did you mean {near}?" if near else f"known labels: {', '.join(map(wire_name, DIMENSIONS))}"
            raise InvalidInput(f"--label {key!r} is unknown; {hint}", field="label")
        found.setdefault(f"label_{dimension}", []).append(value)
    return found


def settings_of(**flags: object) -> "Settings":
    """The settings: the flags that were given, then the environment, then defaults.

    Raises:
        InvalidInput: a value breaks a rule; the message names the variable.
    """
    from pydantic import ValidationError

    from formulary_catalog.settings import Settings

    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        spelling = f"--{name.replace('_', '-')}" if name in given else f"FORMULARY_{name.upper()}"
        rule = problem["msg"][0].lower() + problem["msg"][1:]
        raise InvalidInput(f"{spelling} is {problem['input']!r}: {rule}", field=name) from None


def required_database(settings: "Settings") -> str:
    """The named database.

    Raises:
        InvalidInput: none is named.
    """
    if not settings.database_url:
        raise InvalidInput("name a database with --database-url or FORMULARY_DATABASE_URL", field="database_url")
    return settings.database_url
