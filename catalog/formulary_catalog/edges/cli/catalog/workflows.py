"""`formulary search`, `show` and `select`: what a person asks of workflows."""

import sys
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import json_option, label_arguments, label_option, narrowing_options
from formulary_catalog.edges.cli.targets import CatalogTarget, target_options, workflow_ids
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.domain.answers.catalog import SelectionReceipt
    from formulary_catalog.runtime.terminal import Page


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@label_option
@narrowing_options
@click.option(
    "--exclude",
    "exclude_keywords",
    multiple=True,
    metavar="WORD",
    help="Leave out workflows that contain this word; separate several by commas.",
)
@click.option("--top-k", type=int, metavar="N", help="Number of results, 1 to 50. Default: at most 10, those that fit.")
@click.option(
    "--min-confidence", type=float, default=0.0, metavar="X", help="Leave out results below this confidence, 0 to 1."
)
@target_options
@json_option
def search_command(
    *,
    query: tuple[str, ...],
    labels: tuple[str, ...],
    action_type: str,
    namespace: str,
    keywords: tuple[str, ...],
    exclude_keywords: tuple[str, ...],
    top_k: int | None,
    min_confidence: float,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Search the catalog as an agent would.

    QUERY is "<signal type> <severity> [words]", plain language, or what kubectl or Alertmanager printed, up to 4,000
    characters. - reads it from standard input.

    \b
    Examples:
      formulary search "OOMKilled critical"
      kubectl get events | tail -n 20 | formulary search -
      formulary search "pods stuck pulling images" --label environment=production
      formulary search "OOMKilled critical" --target shop/Deployment/checkout
      formulary search OOMKilled --label priority=P0 --label priority=P1 --exclude restart --json
    """
    from formulary_catalog.domain.search.request import ContextReference
    from formulary_catalog.edges.cli.catalog.rendering import show_search
    from formulary_catalog.edges.cli.http_client import without_nothing
    from formulary_catalog.edges.rest.search import SearchBody
    from formulary_catalog.operations.search import search_request_of
    from formulary_catalog.runtime.terminal import Page

    given = without_nothing(
        {
            "query": sys.stdin.read() if query == ("-",) else " ".join(query),
            "exclude_keywords": list(exclude_keywords),
            "min_confidence": min_confidence,
            "top_k": top_k,
            "action_type": action_type,
            "namespace": namespace,
            "keywords": list(keywords),
            "target": target.about,
            **label_arguments(labels),
        }
    )
    request = search_request_of(SearchBody.read(given), context=ContextReference())  # before a model is opened for it
    answer = target.ask(lambda server: server.search(given, remediation_id=target.remediation_id), by_meaning=True)
    if as_json:
        click.echo(answer.model_dump_json(exclude_unset=True))
    else:
        show_search(answer, query=request.query, page=Page())
    if not answer.workflows:
        raise SystemExit(1)


@click.command("show")
@click.argument("workflow_id", metavar="ID", shell_complete=workflow_ids)
@click.option("--version", default="", metavar="VERSION", help="Version to use instead of the served one.")
@click.option("--section", default="", metavar="SECTION", help="One section alone, such as steps or when-not-to-use.")
@click.option("--against", default="", metavar="VERSION", help="Compare with this version, line by line.")
@target_options
@json_option
def show_command(
    *, workflow_id: str, version: str, section: str, against: str, target: CatalogTarget, as_json: bool
) -> None:
    """Show all of one workflow, one section of it, or what differs between two of its versions.

    ID is name, namespace/name, name@version or wf_ver_….

    \b
    Examples:
      formulary show oom-raise-memory-limit
      formulary show oom-raise-memory-limit@1.0.1 --json
      formulary show oom-raise-memory-limit --section steps
      formulary show oom-raise-memory-limit --against 1.0.0
      formulary show oom-raise-memory-limit --target shop/Deployment/checkout
    """
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.edges.cli.catalog.browsing_pages import show_difference
    from formulary_catalog.edges.cli.catalog.rendering import show_details, show_section
    from formulary_catalog.operations.search import DETAILS
    from formulary_catalog.operations.workflows import DIFFERENCE, SECTION

    reference = parse_reference(workflow_id, version=version)
    if target.about and against:
        raise InvalidInput(
            "--against compares whole manifests, whatever owners demand; leave out --target", field="target"
        )
    if against:
        if section or target.remediation_id:
            raise InvalidInput(
                "--against compares whole manifests, whatever an incident demands; leave out --section and "
                "--remediation-id",
                field="against",
            )
        versions = {"workflow_id": str(reference), "against": against}
        target.show(DIFFERENCE, versions, show_difference, as_json=as_json)
        return
    if section:
        given = {"workflow_id": str(reference), "section": section}
        target.show(SECTION, given, show_section, as_json=as_json)
        return
    target.show(DETAILS, {"workflow_id": workflow_id, "version": version}, show_details, as_json=as_json)


@click.command("select")
@click.argument("workflow_id", metavar="WORKFLOW", shell_complete=workflow_ids)
@click.option("--reasoning", required=True, metavar="TEXT", help="Why it fits the root cause better than the others.")
@click.option("--search-id", default="", metavar="ID", help="The search that found it: search_id of `search --json`.")
@click.option("--version", default="", metavar="VERSION", help="Version to use instead of the served one.")
@click.option("--confidence", type=float, metavar="X", help="How sure you are of the choice, 0 to 1.")
@target_options
@json_option
def select_command(
    *,
    workflow_id: str,
    reasoning: str,
    search_id: str,
    version: str,
    confidence: float | None,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Record which workflow was chosen and why, into the audit trail; nothing is run.

    WORKFLOW is name, namespace/name, name@version or wf_ver_…. `formulary trace show` then shows the choice.

    \b
    Examples:
      formulary select oom-raise-memory-limit --reasoning "The limit is the only cap."
      formulary select oom-scale-out --reasoning "Load has doubled." --remediation-id rr-2026-0042 --confidence 0.9
    """
    from formulary_catalog.operations.search import SELECTION

    given = {
        "workflow_id": workflow_id,
        "version": version,
        "reasoning": reasoning,
        "search_id": search_id,
        "confidence": confidence,
    }
    target.show(SELECTION, given, _show_receipt, as_json=as_json)


def _show_receipt(receipt: "SelectionReceipt", page: "Page") -> None:
    from formulary_catalog.edges.cli.wording import notes_as_typed

    page.line(f"recorded: {receipt.workflow_id}@{receipt.version}", style="bold")
    page.pair("version", receipt.version_id)
    page.pair("search", receipt.search_id)
    page.notes(notes_as_typed(receipt.notes))
