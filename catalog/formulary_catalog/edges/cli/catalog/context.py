"""`formulary context`: what the owners of a target demand, and which label says so."""

from typing import TYPE_CHECKING

import click

from formulary_catalog.domain.targets.reference import FORM, parse_target
from formulary_catalog.edges.cli.options import json_option
from formulary_catalog.edges.cli.targets import CatalogTarget, catalog_options

if TYPE_CHECKING:
    from formulary_catalog.domain.reading import TargetAnswer
    from formulary_catalog.runtime.terminal import Page


@click.command("context")
@click.argument("about", metavar=FORM)
@catalog_options
@json_option
def context_command(*, about: str, target: CatalogTarget, as_json: bool) -> None:
    """Show the constraints that the owners of an object set for workflows.

    \b
    Examples:
      formulary context shop/Deployment/checkout
      formulary context Namespace/shop --json
    """
    from formulary_catalog.operations.incidents import TARGET

    target.show(TARGET, {"target": str(parse_target(about))}, _show, as_json=as_json)


def _show(answer: "TargetAnswer", page: "Page") -> None:
    page.line(answer.target, style="bold cyan")
    for demand in answer.demands:
        strict = ", strict" if demand.strict else ""
        page.pair(demand.name, f"{demand.value} (label {demand.label} of {demand.object}{strict})")
    if not answer.demands:
        page.line("no label sets a constraint")
    for name, value in answer.detected_labels.items():
        page.pair(name, value or "unknown")
    for note in answer.notes:
        page.pair("note", note)
