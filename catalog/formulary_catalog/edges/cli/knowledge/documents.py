"""`formulary docs`: what a person asks of documents."""

import click

from formulary_catalog.edges.cli.options import Suggesting, json_option
from formulary_catalog.edges.cli.targets import CatalogTarget, target_options

_top_k_option = click.option(
    "--top-k", type=int, default=5, metavar="N", help="Number of results, 1 to 50. Default: 5."
)


@click.group("docs", cls=Suggesting)
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
    from formulary_catalog.edges.cli.knowledge.document_pages import show_documents
    from formulary_catalog.operations.knowledge import SEARCH

    given = {"query": " ".join(query), "collection": collection, "top_k": top_k}
    if not target.show(SEARCH, given, show_documents, as_json=as_json, by_meaning=True).results:
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
    from formulary_catalog.edges.cli.knowledge.document_pages import show_similar
    from formulary_catalog.operations.knowledge import SIMILAR

    given = {"doc_id": doc_id, "text": text, "top_k": top_k}
    if not target.show(SIMILAR, given, show_similar, as_json=as_json, by_meaning=True).similar_docs:
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
      formulary docs get "workflow://formulary/oom-raise-memory-limit@1.0.1#steps"
    """
    from formulary_catalog.edges.cli.knowledge.document_pages import show_document
    from formulary_catalog.operations.knowledge import DOCUMENT

    target.show(DOCUMENT, {"doc_id": doc_id}, show_document, as_json=as_json)


@docs_command.command("collections")
@target_options
@json_option
def collections(*, target: CatalogTarget, as_json: bool) -> None:
    """List the collections and the number of documents in each.

    Counts the documents that may be read, and those of them that are compared by meaning.

    \b
    Example:
      formulary docs collections
    """
    from formulary_catalog.edges.cli.knowledge.document_pages import show_collections
    from formulary_catalog.operations.knowledge import COLLECTIONS

    target.show(COLLECTIONS, {}, show_collections, as_json=as_json)
