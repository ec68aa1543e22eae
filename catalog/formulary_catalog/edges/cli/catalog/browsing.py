"""`formulary list`, `related`, `find`, `impact` and `stats`: what a person asks of the catalog as a whole."""

import click

from formulary_catalog.edges.cli.options import json_option
from formulary_catalog.edges.cli.targets import CatalogTarget, show, target_options, workflow_ids
from formulary_catalog.errors import InvalidInput


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
    from formulary_catalog.domain.workflows.labels import fold
    from formulary_catalog.edges.cli.catalog.browsing_pages import show_refused
    from formulary_catalog.edges.cli.catalog.rendering import show_list
    from formulary_catalog.operations.workflows import LIST, REFUSED

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
        if others or target.remediation_id or target.about:
            option = "--refused" if refused else "--status Invalid"
            raise InvalidInput(
                f"{option} lists objects of which only name and reason are known; leave out everything but "
                "--namespace and --limit",
                field="refused",
            )
        found = target.ask(
            lambda server: server.whole_list(REFUSED, {"namespace": namespace}, entries="refused", limit=limit)
        )
        show(found, show_refused, as_json=as_json)
        return
    listing = target.ask(
        lambda server: server.whole_list(
            LIST,
            {**filters, "target": target.about},
            entries="workflows",
            limit=limit,
            remediation_id=target.remediation_id,
        )
    )
    show(listing, show_list, as_json=as_json)
    if not listing.workflows:
        raise SystemExit(1)


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
    from formulary_catalog.edges.cli.catalog.browsing_pages import show_related
    from formulary_catalog.operations.workflows import RELATED

    given = {"entity": entity, "depth": depth, "relations": list(relations), "limit": limit}
    target.show(RELATED, given, show_related, as_json=as_json)


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
    from formulary_catalog.edges.cli.catalog.browsing_pages import show_names
    from formulary_catalog.operations.workflows import FIND

    if not target.show(FIND, {"name": " ".join(name)}, show_names, as_json=as_json).total:
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
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.edges.cli.catalog.browsing_pages import show_impact
    from formulary_catalog.operations.workflows import IMPACT

    target.show(IMPACT, {"workflow_id": str(parse_reference(workflow_id))}, show_impact, as_json=as_json)


@click.command("stats")
@target_options
@json_option
def stats_command(*, target: CatalogTarget, as_json: bool) -> None:
    """Show the catalog in numbers: workflows, gaps, and the results of searches.

    \b
    Example:
      formulary stats --json
    """
    from formulary_catalog.edges.cli.catalog.browsing_pages import show_statistics
    from formulary_catalog.operations.workflows import STATISTICS

    target.show(STATISTICS, {}, show_statistics, as_json=as_json)
