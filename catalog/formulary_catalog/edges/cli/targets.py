"""Which catalog a read command asks: a running server, unless a database is named.

Both are asked over HTTP. Of a database this process has the REST side of the server itself (`edges.rest.endpoints`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from formulary_catalog.domain.targets.reference import FORM
from formulary_catalog.edges.cli.options import DEFAULT_URL, data_dir_option, database_option, settings_of
from formulary_catalog.edges.cli.sources import opened_database
from formulary_catalog.errors import FormularyError, InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.edges.cli.http_client import Remote
    from formulary_catalog.operations.operation import A, Operation, R
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.settings import Settings

_SECONDS = 20.0
"""A person waits longer than an agent, and a database that was started for one question begins slowly."""
_T = TypeVar("_T")
_COMPLETION_SECONDS = 1.0
_MOST_COMPLETED = 1000
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTarget:
    """The options that name a catalog, and the incident on whose behalf it is asked."""

    url: str | None
    database_url: str | None
    data_dir: Path | None
    remediation_id: str
    about: str = ""
    """The object that the catalog is asked about, under what its owners demand."""

    def show(
        self,
        operation: "Operation[A, R]",
        given: Mapping[str, Any],
        page: "Callable[[R, Page], None]",
        *,
        as_json: bool,
        by_meaning: bool = False,
    ) -> "R":
        """The answer to an operation, printed as JSON or as `page` shows it; `by_meaning` as of `ask`.

        Raises:
            FormularyError: as `ask`.
        """
        answer = self.answer(operation, given, by_meaning=by_meaning)
        show(answer, page, as_json=as_json)
        return answer

    def answer(self, operation: "Operation[A, R]", given: Mapping[str, Any], *, by_meaning: bool = False) -> "R":
        """The answer to an operation on behalf of the incident.

        Raises:
            FormularyError: as `ask`.
        """
        from formulary_catalog.edges.cli.http_client import checked_arguments

        given = {**given, "target": self.about} if self.about else given
        checked_arguments(operation, given)  # before a database and a model are opened for it
        return self.ask(
            lambda server: server.ask(operation, given, remediation_id=self.remediation_id), by_meaning=by_meaning
        )

    def ask(self, question: Callable[["Remote"], Awaitable[_T]], *, by_meaning: bool = False) -> _T:
        """The answer to a question; `by_meaning` loads the embedding model if this process has to search itself.

        Raises:
            FormularyError: the catalog's own, or Unavailable and StartupError if it cannot be reached.
        """

        async def asked() -> _T:
            async with self._opened(by_meaning=by_meaning) as server:
                return await question(server)

        return asyncio.run(asked())

    def _opened(self, *, by_meaning: bool) -> AbstractAsyncContextManager["Remote"]:
        from formulary_catalog.edges.cli.http_client import connected

        settings = self._settings()
        if url := self._served_at():
            return connected(url, token=settings.token, seconds=_SECONDS)
        return opened_in_process(settings, by_meaning=by_meaning)

    def _settings(self) -> "Settings":
        return settings_of(database_url=self.database_url, data_dir=self.data_dir)

    def _served_at(self) -> str:
        """The server to ask; empty for a database. A flag goes before the environment, a server before a database."""
        settings = self._settings()
        by_flag = bool(self.database_url or self.data_dir)
        if not by_flag and (self.url or not (settings.database_url or settings.data_dir)):
            return self.url or DEFAULT_URL
        return ""


def show(answer: "R", page: "Callable[[R, Page], None]", *, as_json: bool) -> None:
    """Print an answer as JSON, or as `page` shows it."""
    from formulary_catalog.runtime.terminal import Page

    if as_json:
        click.echo(answer.model_dump_json())
    else:
        page(answer, Page())


def url_option(command: _F) -> _F:
    """`--url`."""
    return click.option(
        "--url", envvar="FORMULARY_URL", help=f"Server to ask, {DEFAULT_URL} by default. [FORMULARY_URL]"
    )(command)


def workflow_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """For a shell that completes: workflows that the server of the command lists. None where it does not answer."""
    try:
        listed = asyncio.run(_listed(ctx.params.get("url") or DEFAULT_URL))
    except (FormularyError, OSError):  # an error would be printed into the line that somebody types
        return []
    return [each for each in listed if each.startswith(incomplete.lower())]


async def _listed(url: str) -> list[str]:
    from formulary_catalog.domain.answers.catalog import WorkflowList
    from formulary_catalog.edges.cli.http_client import connected

    async with connected(url, token=settings_of().token, seconds=_COMPLETION_SECONDS) as server:
        page = await server.answer(WorkflowList, "GET", "/workflows", params={"limit": _MOST_COMPLETED})
    return [each.workflow_id for each in page.workflows]


def incident_option(command: _F) -> _F:
    """`--remediation-id`."""
    return click.option("--remediation-id", default="", metavar="ID", help="Ask on behalf of this incident.")(command)


def about_option(command: _F) -> _F:
    """`--target`."""
    return click.option(
        "--target", default="", metavar=FORM, help="Ask about this object, under what its owners demand."
    )(command)


def check_remediation_id(remediation_id: str) -> None:
    """Raises InvalidInput for an id that cannot be sent."""
    if not (remediation_id.isascii() and remediation_id.isprintable()):
        raise InvalidInput("--remediation-id holds characters that no identifier has", field="remediation_id")


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--url`, `--database-url`, `--data-dir`, `--remediation-id` and `--target`, handed on as `target`."""
    return incident_option(about_option(catalog_options(command)))


def catalog_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same without an incident or what is broken, for what people ask of the catalog as a whole."""

    @wraps(command)
    def with_target(
        *,
        url: str | None,
        database_url: str | None,
        data_dir: Path | None,
        remediation_id: str = "",
        target: str = "",
        **others: Any,
    ) -> None:
        check_remediation_id(remediation_id)
        asked = CatalogTarget(
            url=url, database_url=database_url, data_dir=data_dir, remediation_id=remediation_id, about=target
        )
        command(target=asked, **others)

    options = [url_option, database_option, data_dir_option]
    decorated: Callable[..., None] = with_target
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


@asynccontextmanager
async def opened_in_process(settings: "Settings", *, by_meaning: bool = False) -> AsyncIterator["Remote"]:
    """The catalog of the database that the settings name, asked as a server is; `by_meaning` as of `CatalogTarget.ask`.

    Raises:
        StartupError, Unavailable: it cannot be used.
    """
    import httpx2

    from formulary_catalog.edges.cli.http_client import Remote
    from formulary_catalog.edges.rest.endpoints import in_process
    from formulary_catalog.operations.services import Services
    from formulary_catalog.runtime.databases import with_analytics
    from formulary_catalog.runtime.serving_process import open_catalog
    from formulary_catalog.settings import ContextPolicy
    from formulary_catalog.store.database.connection import Role

    async with (
        opened_database(settings, role=Role.SERVER) as dsn,
        open_catalog(
            settings, dsn=dsn, policy=ContextPolicy.OPTIONAL, by_meaning=by_meaning, deadline=_SECONDS
        ) as parts,
    ):
        # Nothing is run, so no key of inputs is needed.
        settings = with_analytics(settings).model_copy(update={"input_key_file": None})
        transport = httpx2.ASGITransport(in_process(Services.on(parts, settings=settings)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Remote(client)
