"""`formulary coverage`, `stale` and `duplicates`: what the catalog has no remedy for, and what it holds in vain."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from formulary_catalog.edges.cli.options import DIRECTORY, json_option, settings_of
from formulary_catalog.edges.cli.targets import CatalogTarget, catalog_options, show

if TYPE_CHECKING:
    from formulary_catalog.domain.coverage.alerts import Alert
    from formulary_catalog.domain.coverage.answers import CoverageAnswer
    from formulary_catalog.edges.cli.http_client import Remote

_limit_option = click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, metavar="N", help="Maximum number of results. Default: 100."
)


@click.command("coverage")
@click.option(
    "--from",
    "rules",
    type=DIRECTORY,
    metavar="FILE|DIR",
    help="File or directory whose alerts to compare: PrometheusRule, VMRule and ConfigMap objects, rule files, the "
    "JSON of /api/v1/rules.",
)
@click.option(
    "--ignore",
    type=DIRECTORY,
    metavar="FILE",
    help="YAML list of {alert, reason}: what needs no remedy, and why.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["none", "weak"]),
    help="Exit with 1 if an alert has no remedy; `weak`: or is not covered.",
)
@catalog_options
@json_option
def coverage_command(
    *,
    rules: Path | None,
    ignore: Path | None,
    fail_on: "Literal['none', 'weak'] | None",
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Compare alerts with the remedies of the catalog.

    Without --from: the signals that the catalog knows, the alerts of the cluster's PrometheusRule objects, and the
    queries of 30 days that found too little. --fail-on is then about these alerts; where there are none, about the
    signals. A rule with the annotation formulary_no_remedy is ignored, for the reason that it gives.

    An alert is covered if a search finds a remedy with a confidence of 0.5 or more that is about the same kind of
    object. Otherwise it is declared only if a workflow declares it, weak if the best hit has 0.1 or more, else none.
    --fail-on also exits with 1 if an alert of the cluster could not be compared.

    \b
    Examples:
      formulary coverage
      formulary coverage --from rules/ --ignore ignore.yaml --fail-on none   # for CI
      formulary coverage --ignore ignore.yaml --fail-on none                 # alerts of the cluster
      curl -s PROMETHEUS/api/v1/rules >rules.json && formulary coverage --from rules.json
    """
    from formulary_catalog.domain.coverage.alerts import ignored_by_rules
    from formulary_catalog.domain.coverage.states import failing, with_ignored, with_notes
    from formulary_catalog.edges.cli.catalog.covering_pages import show_coverage
    from formulary_catalog.loading.rule_files import alerts_in_files, ignored_in_file

    alerts, notes = [], []
    if rules is not None:
        found = alerts_in_files(rules)
        alerts, notes = found.alerts, found.notes
    ignored = ignored_by_rules(alerts) | (ignored_in_file(ignore) if ignore is not None else {})
    answer = target.ask(lambda server: _coverage(server, alerts), by_meaning=True)
    answer = with_notes(with_ignored(answer, ignored) if ignored else answer, notes)
    show(answer, partial(show_coverage, console_url=settings_of().console_url), as_json=as_json)
    if fail_on is not None and failing(answer, fail_on=fail_on):
        raise SystemExit(1)


async def _coverage(server: "Remote", alerts: "Sequence[Alert]") -> "CoverageAnswer":
    from formulary_catalog.domain.coverage.alerts import portions
    from formulary_catalog.domain.coverage.states import joined
    from formulary_catalog.operations.coverage import ALERTS, COVERAGE, MAX_LINES

    if alerts:
        sent = [[alert.as_json() for alert in some] for some in portions(alerts)]
        return joined([await server.ask(ALERTS, {"alerts": some}) for some in sent])
    pages = [await server.ask(COVERAGE, {"limit": MAX_LINES})]
    while cursor := pages[-1].next_cursor:
        pages.append(await server.ask(COVERAGE, {"limit": MAX_LINES, "cursor": cursor}))
    return joined(pages)


@click.command("stale")
@_limit_option
@catalog_options
@json_option
def stale_command(*, limit: int, target: CatalogTarget, as_json: bool) -> None:
    """List workflows that may be of no use: failing, never chosen, or never found in 90 days.

    \b
    Example:
      formulary stale --limit 20
    """
    from formulary_catalog.edges.cli.catalog.covering_pages import show_stale
    from formulary_catalog.operations.coverage import STALE

    target.show(STALE, {"limit": limit}, show_stale, as_json=as_json)


@click.command("duplicates")
@_limit_option
@catalog_options
@json_option
def duplicates_command(*, limit: int, target: CatalogTarget, as_json: bool) -> None:
    """List pairs of workflows that say nearly the same and may be allowed for the same incident.

    \b
    Example:
      formulary duplicates --limit 20
    """
    from formulary_catalog.edges.cli.catalog.covering_pages import show_duplicates
    from formulary_catalog.operations.coverage import DUPLICATES

    target.show(DUPLICATES, {"limit": limit}, show_duplicates, as_json=as_json)
