"""`formulary up`: everything in one process, for a laptop or a pipeline."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import (
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
    from formulary_catalog.loading.report import LoadReport
    from formulary_catalog.runtime.standalone import Standalone
    from formulary_catalog.settings import Settings


_KUBERNETES = "kubernetes"


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

    PostgreSQL, embedding model, catalog, MCP and REST in one process; Ctrl-C stops all of it. Without --manifests,
    --cluster and --database-url it also loads two example targets, in namespaces named example-….

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
    from formulary_catalog.runtime.process import INTERRUPTED, run_until_stopped

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
    from formulary_catalog.edges.app import create_app
    from formulary_catalog.edges.calls.readiness import Readiness
    from formulary_catalog.edges.http.serving import serve
    from formulary_catalog.loading.targets import OFF
    from formulary_catalog.runtime.databases import with_local_parts
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.hot_reload import follow
    from formulary_catalog.runtime.process import background, hurry_on_signals, spare_what_stays
    from formulary_catalog.runtime.standalone import standalone

    with Display() as display:
        async with (
            standalone(
                settings,
                manifests=manifests,
                runbooks=runbooks,
                examples=settings.context_target == OFF and not settings.database_url,
                display=display,
                kube_context=kube_context,
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
