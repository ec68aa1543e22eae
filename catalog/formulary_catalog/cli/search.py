"""`formulary search`: the question an agent would ask, asked by a person."""

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import Target, target_options
from formulary_catalog.errors import InvalidInput


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Constraint; the same key again means any of them."
)
@click.option(
    "--exclude", "excluded", multiple=True, metavar="WORD", help="Leave out workflows with this word; commas separate."
)
@click.option(
    "--top-k", type=int, metavar="N", help="So many results, 1 to 50; else at most 10, without those that fit nothing."
)
@click.option("--min-confidence", type=float, default=0.0, metavar="X", help="Leave out what is below, 0 to 1.")
@target_options
@json_option
def command(
    *,
    query: tuple[str, ...],
    labels: tuple[str, ...],
    excluded: tuple[str, ...],
    top_k: int | None,
    min_confidence: float,
    target: Target,
    as_json: bool,
) -> None:
    """Search the catalog as an agent would.

    QUERY is "<signal type> <severity> [words]", or plain language.

    \b
    Examples:
      formulary search "OOMKilled critical"
      formulary search "pods stuck pulling images" --label environment=production
      formulary search OOMKilled --label priority=P0 --label priority=P1 --exclude restart --json
    """
    from formulary_catalog.cli.rendering import show_search
    from formulary_catalog.cli.terminal import Page
    from formulary_catalog.domain.request import ContextReference, search_request

    request = search_request(
        query=" ".join(query),
        labels=_by_dimension(labels),
        exclude_keywords=[word for given in excluded for word in given.split(",")],
        min_confidence=min_confidence,
        top_k=top_k,
        context=ContextReference(remediation_id=target.remediation_id),
    )
    answer = target.ask(lambda catalog: catalog.search(request), by_meaning=True)
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_search(answer, query=request.query, page=Page())
    if not answer.workflows:
        raise SystemExit(1)


def _by_dimension(labels: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not value.strip():
            raise InvalidInput(f"--label {label!r} is not KEY=VALUE; give one such as severity=critical", field="label")
        found.setdefault(key.strip().removeprefix("label.").replace("-", "_"), []).append(value)
    return found
