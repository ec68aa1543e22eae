"""`formulary docs` and `runbooks`: what a person asks of documents, and loading runbooks."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import DIRECTORY, data_dir_option, database_option, json_option, settings_of
from formulary_catalog.cli.targets import CatalogTarget, target_options

if TYPE_CHECKING:
    from formulary_catalog.loading.runbooks import RunbookReport
    from formulary_catalog.settings import Settings

_WRITE_SECONDS = 60.0
_top_k_option = click.option(
    "--top-k", type=int, default=5, metavar="N", help="Number of results, 1 to 50. Default: 5."
)


@click.group("docs")
def docs_command() -> None:
    """Search and read documents: sections of workflows, past incidents, runbooks.

    \b
    Examples:
      formulary docs search "node does not come back after a reboot"
      formulary docs get wf_ver_0123456789abcdef0123#steps
    """


@docs_command.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--collection", default="", metavar="NAME", help="workflows, incidents or runbooks. Default: all.")
@_top_k_option
@target_options
@json_option
def search(*, query: tuple[str, ...], collection: str, top_k: int, target: CatalogTarget, as_json: bool) -> None:
    """Find the documents that fit a question best.

    \b
    Examples:
      formulary docs search "certificate of the ingress expired" --collection runbooks
      formulary docs search OOMKilled --top-k 10 --json
    """
    from formulary_catalog.cli.catalog.document_pages import show_documents
    from formulary_catalog.runtime.terminal import Page

    answer = target.ask(
        lambda catalog: catalog.search_documents(
            " ".join(query), collection=collection, top_k=top_k, remediation_id=target.remediation_id
        ),
        by_meaning=True,
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_documents(answer, page=Page())
    if not answer.results:
        raise SystemExit(1)


@docs_command.command("similar")
@click.argument("doc_id", metavar="ID", default="")
@click.option("--text", default="", metavar="TEXT", help="A draft to compare with, in place of ID.")
@_top_k_option
@target_options
@json_option
def similar(*, doc_id: str, text: str, top_k: int, target: CatalogTarget, as_json: bool) -> None:
    """Find documents of other sources that resemble one, or a draft.

    \b
    Examples:
      formulary docs similar wf_ver_0123456789abcdef0123#steps
      formulary docs similar --text "Restart CoreDNS when lookups time out"
    """
    from formulary_catalog.cli.catalog.document_pages import show_similar
    from formulary_catalog.runtime.terminal import Page

    answer = target.ask(
        lambda catalog: catalog.similar_documents(doc_id, text=text, top_k=top_k, remediation_id=target.remediation_id),
        by_meaning=True,
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_similar(answer, page=Page())
    if not answer.similar_docs:
        raise SystemExit(1)


@docs_command.command("get")
@click.argument("doc_id", metavar="ID")
@target_options
@json_option
def get(*, doc_id: str, target: CatalogTarget, as_json: bool) -> None:
    """Read one document.

    ID is that of a search result, or the URI of a section.

    \b
    Examples:
      formulary docs get wf_ver_0123456789abcdef0123#steps
      formulary docs get "workflow://formulary/oom-raise-memory-limit@1.0.0#steps"
    """
    from formulary_catalog.cli.catalog.document_pages import show_document
    from formulary_catalog.runtime.terminal import Page

    answer = target.ask(lambda catalog: catalog.document(doc_id, remediation_id=target.remediation_id))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_document(answer, page=Page())


@docs_command.command("collections")
@target_options
@json_option
def collections(*, target: CatalogTarget, as_json: bool) -> None:
    """List the collections, and how much of each may be read."""
    from formulary_catalog.cli.catalog.document_pages import show_collections
    from formulary_catalog.runtime.terminal import Page

    answer = target.ask(lambda catalog: catalog.collections(remediation_id=target.remediation_id))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_collections(answer, page=Page())


@click.group("runbooks")
def runbooks_command() -> None:
    """Load runbooks, so that searches of documents find them.

    \b
    Example:
      formulary runbooks load runbooks
    """


@runbooks_command.command("load")
@click.argument("directories", nargs=-1, required=True, type=DIRECTORY, metavar="DIR...")
@database_option
@data_dir_option
@json_option
def load(*, directories: tuple[Path, ...], database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Load the Markdown files of directories; what an earlier load of them gave and is gone is removed.

    A running server embeds them; until then they are found by their words. Exit code 1 if a file was refused.

    \b
    Examples:
      formulary runbooks load ./runbooks
      formulary runbooks load ./runbooks --database-url postgresql://writer@db/formulary
    """
    import json

    from formulary_catalog.runtime.terminal import counted

    settings = settings_of(database_url=database_url, data_dir=data_dir)
    report = asyncio.run(_load(settings, directories))
    if as_json:
        refused = [{"source": each.source, "message": each.message} for each in report.rejections]
        click.echo(json.dumps({"files": report.files, "documents": report.documents, "rejections": refused}))
    else:
        for rejection in report.rejections:
            click.echo(f"rejected: {rejection.message}", err=True)
        click.echo(f"{counted(report.documents, 'document')} of {counted(report.files, 'file')}")
    if report.rejections:
        raise SystemExit(1)


async def _load(settings: "Settings", directories: tuple[Path, ...]) -> "RunbookReport":
    from formulary_catalog.loading.runbooks import RunbookLoader
    from formulary_catalog.runtime.databases import existing_database
    from formulary_catalog.store.database.connection import Database, Role
    from formulary_catalog.store.knowledge.documents import RunbookWriter

    async with (
        existing_database(settings, role=Role.WRITER) as dsn,
        Database.opened(dsn, role=Role.WRITER, size=1, deadline=_WRITE_SECONDS) as database,
    ):
        loader = RunbookLoader(directories, writer=RunbookWriter(database), namespace=settings.catalog_namespace)
        return await loader.load()
