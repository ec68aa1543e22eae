"""`formulary halt` and `resume`: the emergency stop (DESIGN section 13), over a server or at the database itself."""

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from formulary_catalog.edges.cli.options import data_dir_option, database_option, json_option, settings_of
from formulary_catalog.edges.cli.sources import opened_database
from formulary_catalog.edges.cli.targets import url_option
from formulary_catalog.errors import InvalidInput, StartupError, Unavailable

if TYPE_CHECKING:
    from formulary_catalog.domain.governance.answers import HaltedAnswer, LiftedAnswer
    from formulary_catalog.settings import Settings
    from formulary_catalog.store.runs.halting import HaltWriter


_T = TypeVar("_T")
_SECONDS = 60.0


def namespace_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--namespace`; without it everywhere, which an unset variable of a script must not mean."""
    return click.option("--namespace", callback=_namespace, metavar="NAME", help=text)


def _namespace(_context: click.Context, _option: click.Parameter, given: str | None) -> str:
    if given is not None and not given.strip():
        raise InvalidInput("--namespace must not be empty; omit it for all namespaces", field="namespace")
    return given or ""


@click.command("halt")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, recorded, and shown in every refusal of a run.")
@namespace_option("Halt runs in this namespace only. Default: everywhere.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@url_option
@database_option
@data_dir_option
@json_option
def halt_command(
    *,
    reason: str,
    namespace: str,
    yes: bool,
    url: str | None,
    database_url: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Stop everything: end all runs, let none begin.

    Nothing starts after this returns. The operator ends running workflows within seconds, and they stay ended.
    On a terminal it asks once.

    `formulary resume` lets new runs begin. Searches go on and report the halt. In a cluster a GovernanceContract with a
    rule of effect HALT does the same.

    With --url a server does it in the name of the owner of FORMULARY_TOKEN. That takes the right to create
    governancecontracts in the namespace; to halt everything, in the namespace of the shared catalog. Without --url it
    is done in the database, as its owner.

    \b
    Examples:
      formulary halt --reason "restarts make the outage worse" --url https://formulary.example
      formulary halt --namespace shop --reason "migration of the database" --database-url postgresql://owner@db/formulary
    """
    from formulary_catalog.domain.governance.halting import require_namespace, require_reason

    require_reason(reason)
    require_namespace(namespace)
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    if sys.stdin.isatty() and not yes:  # a script has decided already
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        click.confirm(f"End all runs {where} and let none begin?", abort=True, err=True)
    answer = (
        _halted_by_server(url, namespace=namespace, reason=reason)
        if url and not (database_url or data_dir)
        else _halted_at_database(settings, namespace=namespace, reason=reason)
    )
    if as_json:
        click.echo(answer.model_dump_json())
        return
    halt, ended = answer.halted, answer.ended_runs
    _say(halt.message)
    click.echo(f"{ended} {'run ends' if ended == 1 else 'runs end'}; recorded in trace {halt.trace_id}")
    for note in answer.notes:
        click.echo(note)
    click.echo(f"lift it with {halt.way_out.replace('SERVER', url or 'SERVER')}")


@click.command("resume")
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the audit trail.")
@namespace_option("Lift the halt of this namespace. Default: the halt of all namespaces.")
@url_option
@database_option
@data_dir_option
@json_option
def resume_command(
    *, reason: str, namespace: str, url: str | None, database_url: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Lift a halt, so that new runs may begin.

    Halted runs stay ended. With --url a server lifts a halt that was set over a server, in the name of the owner of
    FORMULARY_TOKEN. That takes the right to delete governancecontracts in the namespace. Without --url all halts of the
    namespace are lifted in the database, as its owner, but not those of GovernanceContracts: remove the HALT rule to
    lift one. Exit code 1 if there was no halt to lift.

    \b
    Examples:
      formulary resume --url https://formulary.example
      formulary resume --namespace shop --reason "the migration is done"
    """
    from formulary_catalog.domain.governance.halting import require_namespace

    require_namespace(namespace)
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    answer = (
        _lifted_by_server(url, namespace=namespace, reason=reason)
        if url and not (database_url or data_dir)
        else _lifted_at_database(settings, namespace=namespace, reason=reason)
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        where = f"in namespace {namespace}" if namespace else "everywhere"
        click.echo(_outcome(answer, namespace=namespace, where=where))
        for halt in answer.in_force:
            _say(f"still in force: {halt.message}; the way out: {halt.way_out}")
    if answer.lifted is None:
        raise SystemExit(1)


def _outcome(answer: "LiftedAnswer", *, namespace: str, where: str) -> str:
    """What came of lifting: nothing begins where another halt still holds."""
    holds = answer.still_holds(namespace)
    if answer.lifted:
        return f"the halt {where} is lifted" + ("" if holds else ": new runs may begin")
    if holds:
        return f"no halt {where} was lifted"
    near = get_close_matches(namespace, {halt.namespace for halt in answer.in_force}, n=1)
    return f"no halt is in force {where}" + (f"; did you mean {near[0]}?" if near else "")


def _body(*, namespace: str, reason: str) -> dict[str, str]:
    return {"reason": reason} | ({"namespace": namespace} if namespace else {})


def _halted_by_server(url: str, *, namespace: str, reason: str) -> "HaltedAnswer":
    from formulary_catalog.domain.governance.answers import HaltedAnswer
    from formulary_catalog.edges.cli.http_client import ask_server

    body = _body(namespace=namespace, reason=reason)
    return ask_server(url, lambda server: server.answer(HaltedAnswer, "POST", "/halts", json=body))


def _lifted_by_server(url: str, *, namespace: str, reason: str) -> "LiftedAnswer":
    from formulary_catalog.domain.governance.answers import LiftedAnswer
    from formulary_catalog.edges.cli.http_client import ask_server

    body = _body(namespace=namespace, reason=reason)
    return ask_server(url, lambda server: server.answer(LiftedAnswer, "POST", "/halts/lift", json=body))


def _halted_at_database(settings: "Settings", *, namespace: str, reason: str) -> "HaltedAnswer":
    from formulary_catalog.domain.governance.answers import HaltedAnswer, halt_answer
    from formulary_catalog.domain.governance.halting import unknown_namespace

    async def halted(halts: "HaltWriter", dsn: str) -> HaltedAnswer:
        halt, ended = await halts.halt(namespace=namespace, reason=reason.strip(), by=_who())
        notes = [] if not namespace or await _is_known(namespace, dsn=dsn) else [unknown_namespace(namespace)]
        return HaltedAnswer(halted=halt_answer(halt), ended_runs=ended, notes=notes)

    return _at_work(settings, halted)


def _lifted_at_database(settings: "Settings", *, namespace: str, reason: str) -> "LiftedAnswer":
    from formulary_catalog.domain.governance.answers import LiftedAnswer, halt_answer

    lifted, left = _at_work(settings, lambda halts, _: halts.resume(namespace=namespace, reason=reason, by=_who()))
    return LiftedAnswer(
        lifted=halt_answer(lifted) if lifted is not None else None, in_force=[halt_answer(halt) for halt in left]
    )


async def _is_known(namespace: str, *, dsn: str) -> bool:
    """Whether anything of a namespace is known; true where that cannot be found out, for it is halted already."""
    from formulary_catalog.store.database.connection import Database, Role
    from formulary_catalog.store.namespaces import NamespaceReader

    try:
        async with Database.opened(dsn, role=Role.SERVER, size=1) as database:
            return await NamespaceReader(database).knows(namespace)
    except (StartupError, Unavailable):
        return True


def _at_work(settings: "Settings", operation: "Callable[[HaltWriter, str], Awaitable[_T]]") -> _T:
    """The result of an operation on the halts of a database, by its DSN; an embedded one that nobody runs is run
    meanwhile.

    Raises:
        StartupError, Unavailable: the database cannot be used.
    """

    async def done() -> _T:
        from formulary_catalog.store.database.connection import Database, Role
        from formulary_catalog.store.database.migrate import require_current_schema
        from formulary_catalog.store.runs.halting import HaltWriter

        async with opened_database(settings) as dsn:
            await require_current_schema(dsn)
            async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=_SECONDS) as database:
                return await operation(HaltWriter(database), dsn)

    return asyncio.run(done())


def _who() -> str:
    """Who works at this terminal."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _say(line: str) -> None:
    """A line that holds what others wrote."""
    from formulary_catalog.runtime.terminal import plain

    click.echo(plain(line))
