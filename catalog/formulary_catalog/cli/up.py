"""`formulary up` and `demo`: everything in one process, for a laptop, a demonstration or a pipeline.

The demonstration has the catalog of `up`, and the questions and pages of `formulary search` and `formulary trace show`.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import (
    data_dir_option,
    database_option,
    listening_options,
    log_level_option,
    manifests_option,
    runbooks_option,
    settings_of,
)
from formulary_catalog.errors import InvalidInput, StartupError

if TYPE_CHECKING:
    from formulary_catalog.cli.catalog.catalogs import StoredCatalog
    from formulary_catalog.loading.report import LoadReport
    from formulary_catalog.runtime.standalone import Standalone
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.settings import Settings


_QUERY = "OOMKilled critical"
_INCIDENT = "rr-checkout-oom"
_TOP_K = 5
_KUBERNETES = "kubernetes"
_SEARCH = f'formulary search "{_QUERY}" --top-k {_TOP_K}'


@click.command("up")
@manifests_option
@runbooks_option
@data_dir_option
@database_option
@listening_options
@click.option("--watch", is_flag=True, help="Load again whenever the manifests change.")
@click.option(
    "--cluster",
    is_flag=True,
    help="Read the targets of calls through your kubeconfig, with your rights; nothing is written.",
)
@click.option("--context", "kube_context", metavar="NAME", help="Context of the kubeconfig. Default: the current one.")
@log_level_option
def up_command(
    *,
    manifests: tuple[Path, ...],
    runbooks: tuple[Path, ...],
    data_dir: Path | None,
    database_url: str | None,
    host: str | None,
    port: int | None,
    insecure: bool | None,
    watch: bool,
    cluster: bool,
    kube_context: str | None,
    log_level: str,
) -> None:
    """Run a complete server on this machine.

    PostgreSQL, embedding model, catalog, MCP and REST in one process; Ctrl-C stops all of it.

    \b
    Examples:
      formulary up
      formulary up --manifests ./workflows --manifests ./incidents --watch
      formulary up --runbooks ./runbooks
      formulary up --cluster --context staging
      formulary up --port 0 --data-dir /tmp/formulary
    """
    from formulary_catalog.log import configure_logging
    from formulary_catalog.runtime.authenticators import is_authenticated
    from formulary_catalog.runtime.listening import check_listening, is_loopback
    from formulary_catalog.runtime.signals import INTERRUPTED, run_until_stopped

    settings = settings_of(
        data_dir=data_dir,
        database_url=database_url,
        host=host,
        port=port,
        insecure=insecure,
        context_target=_KUBERNETES if cluster else None,
    )
    if kube_context and settings.context_target != _KUBERNETES:
        raise InvalidInput(
            "--context names a context of the kubeconfig, which --cluster reads; add it", field="context"
        )
    configure_logging(level=log_level, as_json=not sys.stderr.isatty())
    if is_authenticated(settings):
        raise StartupError("`formulary up` asks nobody who calls; unset FORMULARY_AUTHENTICATION, or run `serve`")
    if settings.context_target == _KUBERNETES and not is_loopback(settings.host):
        raise StartupError(
            f"--cluster reads with your rights, and {settings.host} is open to other machines; listen on 127.0.0.1"
        )
    check_listening(settings)
    run_until_stopped(
        lambda: _up(settings, manifests=manifests, runbooks=runbooks, watching=watch, kube_context=kube_context or ""),
        if_cancelled=INTERRUPTED,
    )


async def _up(
    settings: "Settings",
    *,
    manifests: tuple[Path, ...],
    runbooks: tuple[Path, ...],
    watching: bool,
    kube_context: str,
) -> None:
    from formulary_catalog.runtime.background import background
    from formulary_catalog.runtime.databases import with_local_parts
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.garbage import spare_what_stays
    from formulary_catalog.runtime.hot_reload import follow
    from formulary_catalog.runtime.signals import hurry_on_signals
    from formulary_catalog.runtime.standalone import standalone
    from formulary_catalog.server.app import create_app
    from formulary_catalog.server.calls.readiness import Readiness
    from formulary_catalog.server.http.serving import serve

    with Display() as display:
        async with (
            standalone(
                settings, manifests=manifests, runbooks=runbooks, display=display, kube_context=kube_context
            ) as catalog,
            AsyncExitStack() as following,
        ):
            readiness = Readiness(catalog_loaded=False, unembedded=lambda: catalog.filling.problem)
            serving = with_local_parts(settings)
            app = create_app(catalog.parts, settings=serving, readiness=readiness)

            async def load(port: int) -> None:
                report = await catalog.load(display=display)
                summary = await _summary(catalog, report=report)
                spare_what_stays()
                readiness.catalog_loaded = True
                display.close()
                _announce(settings, port=port, summary=summary)
                if watching:
                    await following.enter_async_context(background(follow(catalog, first=report)))

            try:
                await serve(
                    app,
                    host=settings.host,
                    port=settings.port,
                    background=load,
                    settings=settings,
                    metrics=catalog.parts.metrics,
                )
            finally:
                hurry_on_signals()
    if not readiness.catalog_loaded:  # the server took the signal
        raise asyncio.CancelledError


async def _summary(catalog: "Standalone", *, report: "LoadReport") -> str:
    from formulary_catalog.runtime.terminal import counted

    workflows, mode = await catalog.summary()
    contracts = f"{counted(report.contracts, 'contract')}, " if report.contracts else ""
    sources = f"{counted(report.sources, 'incident source')}, " if report.sources else ""
    return f"{counted(workflows, 'workflow')}, {counted(report.contexts, 'context')}, {contracts}{sources}mode {mode}"


def _announce(settings: "Settings", *, port: int, summary: str) -> None:
    from formulary_catalog.runtime.listening import address

    base = address(settings, port=port)
    click.echo(f"Formulary is ready: MCP {base}/mcp, REST {base}/api/v1, console {base}/console, {summary}")


@click.command("demo")
@data_dir_option
def demo_command(*, data_dir: Path | None) -> None:
    """Show what an incident changes, without a cluster: two searches, and what the audit trail holds of them.

    Starts a PostgreSQL of its own with the starter catalog, an example incident that accepts no restart, and a workflow
    that its team approved for that. Everything is stopped and removed at the end; --data-dir names a new directory and
    keeps it. Nothing listens on the network.

    \b
    Examples:
      formulary demo
      formulary demo --data-dir /tmp/formulary-demo    # to go on with: formulary list --data-dir /tmp/formulary-demo
    """
    from formulary_catalog.log import configure_logging
    from formulary_catalog.runtime.signals import INTERRUPTED, run_until_stopped
    from formulary_catalog.settings import ContextPolicy

    configure_logging(level="warning", as_json=False)
    with _directory(data_dir) as directory:
        settings = settings_of(data_dir=directory, database_url="", request_context=ContextPolicy.OPTIONAL)
        run_until_stopped(lambda: _demo(settings), if_cancelled=INTERRUPTED)


@contextmanager
def _directory(named: Path | None) -> Iterator[Path]:
    """The directory to work in: the one that was named, else one that is removed at the end.

    Raises:
        StartupError: the named one holds something, which loading the examples might replace.
    """
    if named is None:
        with TemporaryDirectory(prefix="formulary-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    if named.exists() and not (named.is_dir() and not any(named.iterdir())):
        raise StartupError(f"{named} is there already, and the demo loads a catalog of its own; name a new directory")
    yield named


async def _demo(settings: "Settings") -> None:
    from formulary_catalog.cli.catalog.catalogs import StoredCatalog
    from formulary_catalog.loading.files import example_incident, starter_catalog
    from formulary_catalog.runtime.databases import with_local_parts
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.signals import hurry_on_signals
    from formulary_catalog.runtime.standalone import standalone
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.server.calls.services import Services

    page = Page()
    manifests = [starter_catalog(), example_incident()]
    with Display() as display:
        async with standalone(settings, manifests=manifests, display=display) as catalog:
            try:
                await catalog.load(display=display)
                display.close()
                stored = StoredCatalog(Services.on(catalog.parts, settings=with_local_parts(settings)))
                await _show_search(stored, title="The whole catalog, as nobody's incident sees it", page=page)
                title = "The same question for an incident whose owners accept no restart"
                await _show_search(stored, title=title, remediation_id=_INCIDENT, page=page)
                await _show_story(settings, page=page)
                display.step("stopping PostgreSQL; `formulary up` serves the catalog to agents and people")
            finally:
                hurry_on_signals()


async def _show_search(stored: "StoredCatalog", *, title: str, page: "Page", remediation_id: str = "") -> None:
    from formulary_catalog.cli.catalog.rendering import show_search
    from formulary_catalog.domain.search.request import ContextReference
    from formulary_catalog.server.calls.searching import search_request_of
    from formulary_catalog.server.rest.search import SearchBody

    asked = SearchBody.read({"query": _QUERY, "top_k": _TOP_K})
    answer = await stored.search(search_request_of(asked, context=ContextReference(remediation_id=remediation_id)))
    _heading(title, command=f"{_SEARCH} --remediation-id {remediation_id}" if remediation_id else _SEARCH, page=page)
    show_search(answer, query=_QUERY, page=page)
    page.line()


async def _show_story(settings: "Settings", *, page: "Page") -> None:
    from formulary_catalog.cli.audit.listed import owned_trace
    from formulary_catalog.cli.audit.rendering import show_story
    from formulary_catalog.cli.audit.source import TrailSource

    answer = await asyncio.to_thread(owned_trace, TrailSource(settings=settings), _INCIDENT)
    _heading("The story of that incident, from the audit trail", command=f"formulary trace show {_INCIDENT}", page=page)
    show_story(answer, page=page, console_url=settings.console_url)


def _heading(title: str, *, command: str, page: "Page") -> None:
    page.line(f"# {title}", style="dim")
    page.line(f"$ {command}", style="bold")
