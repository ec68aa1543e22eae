"""`formulary list`, `related`, `find`, `impact` and `stats`: what a person asks of the catalog as a whole."""

from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import CatalogTarget, target_options, workflow_ids
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.cli.catalog.catalogs import Catalog
    from formulary_catalog.domain.answers.browsing import RefusedList
    from formulary_catalog.domain.answers.catalog import WorkflowList

_PAGE = 100


@click.command("list")
@click.option("--signal", "signal_type", default="", metavar="SIGNAL", help="Only workflows for this signal or alert.")
@click.option("--action", "action_type", default="", metavar="ACTION", help="Only workflows with this action type.")
@click.option("--namespace", default="", metavar="NAME", help="Only workflows of this namespace.")
@click.option(
    "--risk",
    "risk_level",
    default="",
    metavar="LEVEL",
    help="Only workflows with this risk level: low, medium, high or unknown.",
)
@click.option(
    "--status",
    default="",
    metavar="STATUS",
    help="Active, Superseded, Disabled, Pending, or Invalid (same as --refused). Default: Active.",
)
@click.option("--refused", is_flag=True, help="Objects that the operator refused, with the reason, instead.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of results. Default: all.")
@target_options
@json_option
def list_command(
    *,
    signal_type: str,
    action_type: str,
    namespace: str,
    risk_level: str,
    status: str,
    refused: bool,
    limit: int | None,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """List workflows in name order.

    \b
    Examples:
      formulary list
      formulary list --signal OOMKilled --risk low --limit 10
      formulary list --status Disabled
      formulary list --refused --namespace payments
      formulary list --remediation-id rr-2026-0042   # only what this incident allows
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_refused
    from formulary_catalog.cli.catalog.rendering import show_list
    from formulary_catalog.domain.workflows.labels import fold
    from formulary_catalog.runtime.terminal import Page

    filters = {
        "signal_type": signal_type,
        "action_type": action_type,
        "namespace": namespace,
        "risk_level": risk_level,
        "status": status,
    }
    if is_invalid := fold(status) == "invalid":
        del filters["status"]
    if refused or is_invalid:
        others = [name for name, value in filters.items() if value and name != "namespace"]
        if others or target.remediation_id:
            option = "--refused" if refused else "--status Invalid"
            raise InvalidInput(
                f"{option} lists objects of which only name and reason are known; leave out everything but "
                "--namespace and --limit",
                field="refused",
            )
        found = target.ask(lambda catalog: refused_objects(catalog, namespace=namespace, limit=limit))
        if as_json:
            click.echo(found.model_dump_json())
        else:
            show_refused(found, page=Page())
        return
    listing = target.ask(lambda catalog: listed(catalog, filters, limit=limit, remediation_id=target.remediation_id))
    if as_json:
        click.echo(listing.model_dump_json())
    else:
        show_list(listing, page=Page())
    if not listing.workflows:
        raise SystemExit(1)


async def listed(
    catalog: "Catalog", filters: dict[str, Any], *, limit: int | None, remediation_id: str
) -> "WorkflowList":
    """The pages of a listing as one."""
    from formulary_catalog.domain.answers.catalog import WorkflowList
    from formulary_catalog.operations.arguments.browsing import ListArguments

    pages: list[WorkflowList] = []
    wanted = limit or float("inf")
    while not pages or (pages[-1].next_cursor and wanted > 0):
        cursor = pages[-1].next_cursor if pages else ""
        asked = ListArguments.read(filters | {"limit": int(min(wanted, _PAGE)), "cursor": cursor})
        pages.append(await catalog.page(asked.request, remediation_id=remediation_id))
        wanted -= len(pages[-1].workflows)
    return WorkflowList(
        workflows=[workflow for page in pages for workflow in page.workflows],
        total=pages[-1].total,
        total_results=pages[-1].total,
        notes=list(dict.fromkeys(note for page in pages for note in page.notes)),
    )


async def refused_objects(catalog: "Catalog", *, namespace: str, limit: int | None) -> "RefusedList":
    """The pages of what is refused as one."""
    from formulary_catalog.domain.answers.browsing import RefusedList
    from formulary_catalog.operations.arguments.browsing import RefusedArguments

    pages: list[RefusedList] = []
    wanted = limit or float("inf")
    while not pages or (pages[-1].next_cursor and wanted > 0):
        cursor = pages[-1].next_cursor if pages else ""
        asked = RefusedArguments.read({"namespace": namespace, "limit": int(min(wanted, _PAGE)), "cursor": cursor})
        pages.append(await catalog.refused(asked.request))
        wanted -= len(pages[-1].refused)
    return RefusedList(
        refused=[each for page in pages for each in page.refused],
        total=pages[-1].total,
        next_cursor="",
        notes=pages[-1].notes,
    )


@click.command("related")
@click.argument("entity", metavar="WORKFLOW|SIGNAL|ACTION")
@click.option("--depth", type=int, default=1, metavar="N", help="Steps to walk, 1 to 3. Default: 1.")
@click.option("--relation", "relations", multiple=True, metavar="KIND", help="Kind of edge; may be repeated.")
@click.option("--limit", type=int, default=20, metavar="N", help="Maximum number of results, 1 to 100. Default: 20.")
@target_options
@json_option
def related_command(
    *, entity: str, depth: int, relations: tuple[str, ...], limit: int, target: CatalogTarget, as_json: bool
) -> None:
    """Show what is connected with a workflow, a signal type or an action type.

    \b
    Examples:
      formulary related oom-raise-memory-limit
      formulary related oom-raise-memory-limit --relation escalatesTo --depth 3
      formulary related OOMKilled
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_related
    from formulary_catalog.operations.arguments.browsing import RelatedArguments
    from formulary_catalog.runtime.terminal import Page

    asked = RelatedArguments.read({"entity": entity, "depth": depth, "relations": list(relations), "limit": limit})
    answer = target.ask(lambda catalog: catalog.related(asked.request, remediation_id=target.remediation_id))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_related(answer, page=Page())


@click.command("find")
@click.argument("name", nargs=-1, required=True)
@target_options
@json_option
def find_command(*, name: tuple[str, ...], target: CatalogTarget, as_json: bool) -> None:
    """Find workflows by name, not by meaning.

    NAME is a name or a part of one, a version id, a signal or alert, or a title.

    \b
    Examples:
      formulary find memory-limit
      formulary find KubePodCrashLooping --json
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_names
    from formulary_catalog.operations.arguments.browsing import NameArguments
    from formulary_catalog.runtime.terminal import Page

    asked = NameArguments.read({"name": " ".join(name)})
    answer = target.ask(lambda catalog: catalog.find(asked.name, remediation_id=target.remediation_id))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_names(answer, page=Page())
    if not answer.total:
        raise SystemExit(1)


@click.command("impact")
@click.argument("workflow_id", metavar="ID", shell_complete=workflow_ids)
@target_options
@json_option
def impact_command(*, workflow_id: str, target: CatalogTarget, as_json: bool) -> None:
    """Show what would be missed without a workflow, before it is suspended, changed or deleted.

    \b
    Example:
      formulary impact oom-raise-memory-limit
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_impact
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.runtime.terminal import Page

    reference = str(parse_reference(workflow_id))
    answer = target.ask(lambda catalog: catalog.impact(reference, remediation_id=target.remediation_id))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_impact(answer, page=Page())


@click.command("stats")
@target_options
@json_option
def stats_command(*, target: CatalogTarget, as_json: bool) -> None:
    """Show the catalog in numbers: workflows, gaps, and the results of searches.

    \b
    Example:
      formulary stats --json
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_statistics
    from formulary_catalog.runtime.terminal import Page

    answer = target.ask(lambda catalog: catalog.statistics(remediation_id=target.remediation_id))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_statistics(answer, page=Page())
