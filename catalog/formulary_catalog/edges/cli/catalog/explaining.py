"""`formulary explain`: why a workflow is in the answer to a search, and why not; what a recorded search found."""

from functools import partial

import click

from formulary_catalog.edges.cli.options import (
    json_option,
    label_arguments,
    label_option,
    narrowing_options,
    settings_of,
)
from formulary_catalog.edges.cli.targets import CatalogTarget, target_options, workflow_ids
from formulary_catalog.errors import InvalidInput


@click.command("explain")
@click.argument("workflow_id", metavar="[WORKFLOW]", default="", shell_complete=workflow_ids)
@click.argument("query", nargs=-1)
@click.option("--search-id", default="", metavar="ID", help="Recorded search to explain, instead of a query.")
@label_option
@narrowing_options
@click.option(
    "--exclude",
    "exclude_keywords",
    multiple=True,
    metavar="WORD",
    help="Words to leave out, as in the search; may be repeated.",
)
@click.option("--top-k", type=int, metavar="N", help="Number of results, as in the search.")
@target_options
@json_option
def explain_command(
    *,
    workflow_id: str,
    query: tuple[str, ...],
    search_id: str,
    labels: tuple[str, ...],
    action_type: str,
    namespace: str,
    keywords: tuple[str, ...],
    exclude_keywords: tuple[str, ...],
    top_k: int | None,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Explain why a workflow is in the answer to a search, or why not.

    Names the first rule that excludes WORKFLOW, or the evidence for it, part by part. A recorded search is explained
    under the constraints of its incident at that time; without WORKFLOW, the command shows what it found. Exit code 1
    if the workflow is excluded.

    \b
    Examples:
      formulary explain oom-scale-out "OOMKilled critical" --label environment=production
      formulary explain oom-scale-out OOMKilled --remediation-id rr-2026-0042
      formulary explain oom-scale-out --search-id 0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10
      formulary explain --search-id 0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10
    """
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.edges.cli.catalog.explaining_page import show_explanation, show_recorded
    from formulary_catalog.operations.search import EXPLAIN, RECORDED

    if not (workflow_id or search_id):
        raise InvalidInput("give WORKFLOW and QUERY, or --search-id", field="workflow_id")
    console = settings_of().console_url
    workflow = str(parse_reference(workflow_id)) if workflow_id else ""
    if bool(query) == bool(search_id):
        raise InvalidInput("give either QUERY or --search-id", field="query")
    if search_id:
        narrowed = action_type or namespace or keywords or exclude_keywords
        if labels or narrowed or top_k is not None or target.remediation_id or target.about:
            raise InvalidInput(
                "--search-id names a search with its labels and its incident; leave out --label, --action, "
                "--namespace, --keyword, --exclude, --top-k, --remediation-id and --target",
                field="search_id",
            )
        if not workflow:
            target.show(
                RECORDED, {"search_id": search_id}, partial(show_recorded, console_url=console), as_json=as_json
            )
            return
    given = {
        "workflow": workflow,
        "search_id": search_id,
        "query": " ".join(query),
        "exclude_keywords": list(exclude_keywords),
        "top_k": top_k,
        "action_type": action_type,
        "namespace": namespace,
        "keywords": list(keywords),
        **label_arguments(labels),
    }
    page = partial(show_explanation, console_url=console)
    if not target.show(EXPLAIN, given, page, as_json=as_json, by_meaning=True).allowed:
        raise SystemExit(1)
