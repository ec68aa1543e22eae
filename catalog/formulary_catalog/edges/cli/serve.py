"""`formulary serve`: the stateless server of a cluster, against a database that others feed."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import (
    data_dir_option,
    database_option,
    listening_options,
    log_level_option,
    required_database,
    settings_of,
)

if TYPE_CHECKING:
    from formulary_catalog.settings import Settings


@click.command("serve")
@database_option
@data_dir_option
@listening_options
@log_level_option
def serve_command(
    *,
    database_url: str | None,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    insecure: bool | None,
    log_level: str,
) -> None:
    """Serve MCP and REST from a migrated database, or from an embedded one in --data-dir.

    With --data-dir it runs the embedded PostgreSQL and migrates it, for one pod with its operator. Otherwise it waits
    for the database and its migration, and is not ready until then. Loads no manifests, answers only on behalf of an
    incident unless set otherwise, and logs JSON. With FORMULARY_AUTHENTICATION=kubernetes every call needs a
    ServiceAccount token, and it may listen on any address. The database user must be formulary_server or another one
    that owns nothing; the server is never ready as the owner.

    \b
    Example:
      FORMULARY_DATABASE_URL=postgresql://formulary_server@db/formulary formulary serve
    """
    from formulary_catalog.log import configure_logging
    from formulary_catalog.runtime.authenticators import is_authenticated
    from formulary_catalog.runtime.listening import check_listening
    from formulary_catalog.runtime.process import run_until_stopped

    settings = settings_of(database_url=database_url, data_dir=data_dir, host=host, port=port, insecure=insecure)
    if not settings.data_dir:
        required_database(settings)
    configure_logging(level=log_level, as_json=True)
    check_listening(settings, authenticated=is_authenticated(settings))
    run_until_stopped(lambda: _serve(settings))


async def _serve(settings: "Settings") -> None:
    import structlog

    from formulary_catalog.edges.app import create_app
    from formulary_catalog.edges.calls.readiness import Readiness
    from formulary_catalog.edges.http.serving import serve
    from formulary_catalog.listening.certificate import MountedCertificate
    from formulary_catalog.runtime.authenticators import authentication
    from formulary_catalog.runtime.databases import served
    from formulary_catalog.runtime.listening import address
    from formulary_catalog.runtime.process import background, hurry_on_signals, spare_what_stays
    from formulary_catalog.runtime.serving_process import pending_catalog
    from formulary_catalog.settings import ContextPolicy

    log = structlog.get_logger(__name__)
    certificate = MountedCertificate(settings.tls_dir) if settings.tls_dir else None
    if certificate is not None:
        certificate.load()

    async with (
        served(settings) as settings,
        authentication(settings) as authenticator,
        pending_catalog(settings, dsn=settings.database_url, policy=ContextPolicy.REQUIRED) as catalog,
        AsyncExitStack() as following,
    ):
        readiness = Readiness(
            catalog_loaded=False,
            callers_checked=None if authenticator is None else False,
            database_problem="the database has not answered yet",
        )

        async def work(port: int) -> None:
            if certificate is not None:
                await following.enter_async_context(background(certificate.keep_fresh()))
            await readiness.until_database_is_usable(catalog.check_database)
            watch = catalog.model_watch()
            await readiness.until_database_is_usable(watch.refresh)
            if watch.problem is not None:
                log.warning("embedder_unavailable", mode="lexical", reason=str(watch.problem))
            await following.enter_async_context(background(watch.keep_fresh()))
            spare_what_stays()
            readiness.catalog_loaded = True
            log.info("ready", address=address(settings, port=port, tls=certificate is not None))
            if authenticator is not None:
                await readiness.until_callers_are_checked(authenticator.check)

        app = create_app(catalog.parts, settings=settings, readiness=readiness, authenticator=authenticator)
        await serve(
            app,
            host=settings.host,
            port=settings.port,
            background=work,
            settings=settings,
            metrics=catalog.parts.metrics,
            tls=None if certificate is None else certificate.context,
        )
        hurry_on_signals()
