"""`formulary explain`: why a workflow is in the answer to a search, and why not; what a recorded search found."""

import click

from formulary_catalog.cli.options import json_option, label_arguments, label_option, narrowing_options, settings_of
from formulary_catalog.cli.targets import CatalogTarget, target_options, workflow_ids
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

    Names the first rule that excludes WORKFLOW, or what speaks for it, part by part. A recorded search is explained
    under the constraints that its incident had then; without WORKFLOW it is shown with what it found. Exit code 1 if
    the workflow is excluded.

    \b
    Examples:
      formulary explain oom-scale-out "OOMKilled critical" --label environment=production
      formulary explain oom-scale-out OOMKilled --remediation-id rr-2026-0042
      formulary explain oom-scale-out --search-id 0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10
      formulary explain --search-id 0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10
    """
    from formulary_catalog.cli.catalog.explaining_page import show_explanation, show_recorded
    from formulary_catalog.domain.search.request import ContextReference
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.operations.arguments.reading import ExplainArguments
    from formulary_catalog.operations.searching import search_request_of
    from formulary_catalog.runtime.terminal import Page

    if not (workflow_id or search_id):
        raise InvalidInput("give WORKFLOW and QUERY, or --search-id", field="workflow_id")
    workflow = str(parse_reference(workflow_id)) if workflow_id else ""
    if bool(query) == bool(search_id):
        raise InvalidInput("give either QUERY or --search-id", field="query")
    if search_id:
        narrowed = action_type or namespace or keywords or exclude_keywords
        if labels or narrowed or top_k is not None or target.remediation_id:
            raise InvalidInput(
                "--search-id names a search with its labels and its incident; leave out --label, --action, "
                "--namespace, --keyword, --exclude, --top-k and --remediation-id",
                field="search_id",
            )
        if not workflow:
            recorded = target.ask(lambda catalog: catalog.recorded(search_id))
            if as_json:
                click.echo(recorded.model_dump_json())
            else:
                show_recorded(recorded, page=Page(), console_url=settings_of().console_url)
            return
        answer = target.ask(lambda catalog: catalog.explain_recorded(workflow, search_id), by_meaning=True)
    else:
        asked = ExplainArguments.read(
            {
                "workflow": workflow,
                "query": " ".join(query),
                "exclude_keywords": list(exclude_keywords),
                "top_k": top_k,
                "action_type": action_type,
                "namespace": namespace,
                "keywords": list(keywords),
                **label_arguments(labels),
            }
        )
        request = search_request_of(asked, context=ContextReference(remediation_id=target.remediation_id))
        answer = target.ask(lambda catalog: catalog.explain(workflow, request), by_meaning=True)
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_explanation(answer, page=Page(), console_url=settings_of().console_url)
    if not answer.allowed:
        raise SystemExit(1)
