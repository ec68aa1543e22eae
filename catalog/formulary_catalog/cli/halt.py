"""`formulary halt` and `resume`: the emergency stop (DESIGN section 13)."""

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from formulary_catalog.cli.options import data_dir_option, database_option, json_option, settings_of

if TYPE_CHECKING:
    from formulary_catalog.domain.governance.halting import Halt
    from formulary_catalog.settings import Settings
    from formulary_catalog.store.runs.halting import HaltWriter


_T = TypeVar("_T")
_SECONDS = 60.0


def namespace_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--namespace`, empty for everywhere."""
    return click.option("--namespace", default="", metavar="NAME", help=text)


def at_work(settings: "Settings", operation: "Callable[[HaltWriter], Awaitable[_T]]") -> _T:
    """The result of an operation on the halts of a database; an embedded one that nobody runs is run meanwhile.

    Raises:
        StartupError, Unavailable: the database cannot be used.
    """

    async def done() -> _T:
        from formulary_catalog.runtime.databases import existing_database
        from formulary_catalog.store.database.connection import Database, Role
        from formulary_catalog.store.database.migrate import require_current_schema
        from formulary_catalog.store.runs.halting import HaltWriter

        async with existing_database(settings) as dsn:
            await require_current_schema(dsn)
            async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=_SECONDS) as database:
                return await operation(HaltWriter(database))

    return asyncio.run(done())


def who() -> str:
    """Who works at this terminal."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def as_json_of(halt: "Halt") -> dict[str, Any]:
    """A halt for programs."""
    return {
        "namespace": halt.namespace,
        "contract": halt.contract,
        "reason": halt.reason,
        "by": halt.by,
        "at": halt.at.isoformat(),
        "trace_id": halt.trace_id,
    }


@click.command("halt")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, recorded, and shown in every refusal of a run.")
@namespace_option("Halt runs in this namespace only. Default: everywhere.")
@database_option
@data_dir_option
@json_option
def halt_command(
    *, reason: str, namespace: str, database_url: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Stop everything: end all runs, let none begin.

    Once this returns nothing starts any more. The operator ends what runs within seconds. What was halted stays ended;
    `formulary resume` lets new runs begin. Searches go on and say it. In a cluster a GovernanceContract with a rule of
    effect HALT does the same.

    \b
    Examples:
      formulary halt --reason "restarts make the outage worse"
      formulary halt --namespace shop --reason "migration of the database" --database-url postgresql://owner@db/formulary
    """
    from formulary_catalog.domain.governance.halting import require_reason

    require_reason(reason)
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    halt, ended = at_work(settings, lambda halts: halts.halt(namespace=namespace, reason=reason.strip(), by=who()))
    if as_json:
        click.echo(json.dumps({"halted": as_json_of(halt), "ended_runs": ended}, ensure_ascii=False))
        return
    click.echo(str(halt))
    click.echo(f"{ended} {'run ends' if ended == 1 else 'runs end'}; recorded in trace {halt.trace_id}")
    click.echo(f"lift it with {halt.way_out}")


@click.command("resume")
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the audit trail.")
@namespace_option("Lift the halt of this namespace. Default: the halt of all namespaces.")
@database_option
@data_dir_option
@json_option
def resume_command(
    *, reason: str, namespace: str, database_url: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Lift a halt, so that new runs may begin.

    What was halted stays ended. A halt that a GovernanceContract says is lifted there. Exit code 1 if nothing was
    halted so.

    \b
    Examples:
      formulary resume
      formulary resume --namespace shop --reason "the migration is done"
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    lifted, left = at_work(settings, lambda halts: halts.resume(namespace=namespace, reason=reason, by=who()))
    if as_json:
        said = {
            "lifted": as_json_of(lifted) if lifted is not None else None,
            "in_force": [as_json_of(halt) for halt in left],
        }
        click.echo(json.dumps(said, ensure_ascii=False))
    else:
        where = f"in namespace {namespace}" if namespace else "everywhere"
        click.echo(f"the halt {where} is lifted: new runs may begin" if lifted else f"nothing was halted {where}")
        for halt in left:
            click.echo(f"still in force: {halt}; the way out: {halt.way_out}")
    if lifted is None:
        raise SystemExit(1)
