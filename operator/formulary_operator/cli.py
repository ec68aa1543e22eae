"""The command `formulary-operator`."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import structlog

from formulary_catalog import __version__
from formulary_catalog.errors import FormularyError, InvalidInput
from formulary_catalog.loading.files import starter_catalog
from formulary_catalog.log import configure_logging
from formulary_operator.settings import OperatorSettings

_LEVELS = ("debug", "info", "warning", "error")
_DEEPEST_JSON = 25_000
"""Twice what an API server takes: an object of such depth is refused by itself, and must not end the process."""


@click.group()
@click.version_option(__version__, prog_name="formulary-operator")
def cli() -> None:
    """The operator of Formulary: keeps the catalog in step with the RemediationWorkflow objects of a cluster."""


@cli.command("run")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="info",
    envvar="FORMULARY_LOG_LEVEL",
    help="How much to log. [FORMULARY_LOG_LEVEL]",
)
def run_command(*, log_level: str) -> None:
    """Run the operator: watch, validate, embed and store, until it is stopped.

    Settings come from FORMULARY_* variables; the API server from the pod's ServiceAccount or KUBECONFIG.
    """
    from formulary_operator.runtime import run

    settings = _settings()
    configure_logging(level=log_level, as_json=True)
    sys.setrecursionlimit(_DEEPEST_JSON)
    try:
        _run_until_stopped(run(settings))
    except FormularyError as error:
        # A line of the log like all others, for log collectors, not for a person at a terminal.
        structlog.get_logger(__name__).error("stopped", reason=str(error))
        sys.exit(error.exit_code)


@cli.command("apply-starter")
@click.option(
    "--manifests",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of manifests. Default: the starter catalog.",
)
@click.option("--namespace", metavar="NAMESPACE", help="Namespace to apply them in. [FORMULARY_CATALOG_NAMESPACE]")
def apply_starter(*, manifests: Path | None, namespace: str | None) -> None:
    """Apply the starter catalog as RemediationWorkflow objects. Fields that others changed are kept.

    With FORMULARY_WEBHOOK_PORT it waits up to ten minutes for the admission webhook, which records the author.
    """
    from formulary_operator.starter import apply_starter_command

    settings = _settings()
    configure_logging(level="warning", as_json=False)
    _run_until_stopped(
        apply_starter_command(
            manifests=manifests or starter_catalog(),
            namespace=namespace or settings.catalog_namespace,
            webhook=bool(settings.webhook_port),
            echo=click.echo,
        )
    )


@cli.command("sweep")
@click.option("--allow", metavar="ID", default="", help="Allow the refused removal with this id, once.")
def sweep(*, allow: str) -> None:
    """Show which removals of many workflows at once the operator refused, and allow one.

    The database is that of FORMULARY_DATABASE_URL.
    """
    from formulary_operator.watch.sweep_guard import sweep_command

    settings = _settings()
    if not settings.database_url:
        raise InvalidInput("name a database with FORMULARY_DATABASE_URL", field="database_url")
    lines = asyncio.run(sweep_command(settings.database_url, allow=allow))
    click.echo("\n".join(lines) or "nothing is refused")


def main() -> None:
    """Run the command line; errors are one line on standard error, the exit status says their kind."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except FormularyError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _settings() -> OperatorSettings:
    from pydantic import ValidationError

    try:
        return OperatorSettings()
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        value = f" is {problem['input']!r}" if OperatorSettings.model_fields[name].repr else ""
        raise InvalidInput(f"FORMULARY_{name.upper()}{value}: {problem['msg'].lower()}", field=name) from None


def _run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run to its end; SIGTERM and SIGINT cancel it, and a clean end follows."""

    async def interruptible() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(interruptible())
