"""`formulary incident show`: an incident, and what would be offered for it, without a query or an agent."""

from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import json_option
from formulary_catalog.edges.cli.targets import CatalogTarget, catalog_options

if TYPE_CHECKING:
    from formulary_catalog.domain.reading import IncidentAnswer
    from formulary_catalog.runtime.terminal import Page


@click.group("incident")
def incident_command() -> None:
    """Read incidents.

    \b
    Example:
      formulary incident show al-8d4c2f6a1b3e5f70
    """


@incident_command.command("show")
@click.argument("incident", metavar="ID")
@catalog_options
@json_option
def show(*, incident: str, target: CatalogTarget, as_json: bool) -> None:
    """Show an incident and the workflows that would be offered for it.

    ID is a remediation id, or namespace/name of an AIAnalysis.

    \b
    Examples:
      formulary incident show al-8d4c2f6a1b3e5f70
      formulary incident show rr-2026-0042 --json
    """
    from formulary_catalog.operations.incidents import INCIDENT

    target.show(INCIDENT, {"incident": incident}, _show, as_json=as_json)


def _show(answer: "IncidentAnswer", page: "Page") -> None:
    from formulary_catalog.edges.cli.catalog.rendering import show_search

    page.line(answer.remediation_id, style="bold cyan")
    known = {
        "alert": " ".join(filter(None, (answer.signal_name, answer.severity, answer.state))),
        "target": answer.target,
        "environment": answer.environment,
        "priority": answer.priority,
        "cluster": answer.cluster,
        "run": answer.run.replace("_", " "),
    }
    for name, value in known.items():
        if value:
            page.pair(name, value)
    if answer.alert is not None:
        page.pair("source", answer.alert.source)
        for episode in answer.alert.episodes:
            page.pair("fired", f"{episode.began} to {episode.ended}" if episode.ended else f"since {episode.began}")
        for name, value in answer.alert.annotations.items():
            page.pair(name, value)
    for key, values in answer.custom_labels.items():
        page.pair(key, " or ".join(values))
    for note in answer.notes:
        page.pair("note", note)
    if answer.offer is not None:
        page.line()
        show_search(answer.offer, page, query=answer.query)
