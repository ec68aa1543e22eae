"""`formulary trace hold`, `release` and `expire`: how long traces are kept."""

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from formulary_catalog.edges.cli.audit.source import TrailSource, require_storable, trail_options
from formulary_catalog.edges.cli.options import json_option

if TYPE_CHECKING:
    from formulary_catalog.store.audit.retention import Month, Retention

_T = TypeVar("_T")


@click.command("hold")
@click.argument("trace_id", metavar="TRACE")
@click.option("--reason", required=True, metavar="TEXT", help="Why it must be kept; recorded with who said so.")
@trail_options
def hold_command(*, trace_id: str, reason: str, trail: TrailSource) -> None:
    """Keep a trace until it is released, however old it gets.

    \b
    Example:
      formulary trace hold rr-2026-0042 --reason "legal case 17"
    """
    require_storable(trace_id)
    _keep(trail, lambda retention: retention.hold(trace_id, reason=reason, by=_who()))
    click.echo(f"{trace_id} is held until `formulary trace release` releases it")


@click.command("release")
@click.argument("trace_id", metavar="TRACE")
@trail_options
def release_command(*, trace_id: str, trail: TrailSource) -> None:
    """End a hold; the audit trail keeps a record of it.

    \b
    Example:
      formulary trace release rr-2026-0042
    """
    require_storable(trace_id)
    _keep(trail, lambda retention: retention.release(trace_id, by=_who()))
    click.echo(f"{trace_id} is no longer held; it goes when its month expires")


@click.command("expire")
@click.option(
    "--older-than",
    "months",
    type=click.IntRange(min=1),
    default=13,
    metavar="MONTHS",
    help="Number of months to keep before this one; 13 by default.",
)
@click.option("--yes", "for_real", is_flag=True, help="Do it; without it, only say what would go.")
@trail_options
@json_option
def expire_command(*, months: int, for_real: bool, trail: TrailSource, as_json: bool) -> None:
    """Drop old traces.

    Drops traces that began in an older month, unless they are held or have changed since. Without --yes it only reports
    what would be dropped. A signed checkpoint names what was dropped, so that verification does not report it as
    tampering. Export first.

    \b
    Examples:
      formulary trace expire                          # what would go
      FORMULARY_AUDIT_KEY_FILE=audit.pem formulary trace expire --older-than 25 --yes
    """
    from formulary_catalog.store.audit.keys import signing_key
    from formulary_catalog.store.audit.retention import months_ago

    before = months_ago(months, now=datetime.now(UTC))
    key = signing_key(trail.settings)

    async def expire(retention: "Retention") -> "list[Month]":
        return await retention.expire(before, key=key) if for_real else await retention.expirable(before)

    gone = _keep(trail, expire)
    if as_json:
        click.echo(json.dumps({"expired": for_real, "before": before.date().isoformat(), "months": _as_json(gone)}))
    else:
        _show(gone, before=before, for_real=for_real)


def _keep(trail: TrailSource, operation: "Callable[[Retention], Awaitable[_T]]") -> _T:
    """The result of an operation on what is kept."""

    async def kept() -> _T:
        from formulary_catalog.store.audit.retention import Retention

        async with trail.dsn() as dsn, Retention.open(dsn) as retention:
            return await operation(retention)

    return asyncio.run(kept())


def _who() -> str:
    """Who works at this terminal."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _show(months: "list[Month]", *, before: datetime, for_real: bool) -> None:
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    rows = [
        (f"{each.month:%Y-%m}", str(each.traces), str(each.events), str(each.held), str(each.in_use)) for each in months
    ]
    if rows:
        page.table(("MONTH", "TRACES", "EVENTS", "HELD", "IN USE"), rows)
    total = counted(sum(each.traces for each in months), "trace")
    if for_real:
        page.line(f"{total} from before {before:%Y-%m} dropped", style="bold")
    else:
        page.line(f"{total} from before {before:%Y-%m} would go; --yes drops them", style="bold")


def _as_json(months: "list[Month]") -> list[dict[str, object]]:
    return [
        {
            "month": f"{each.month:%Y-%m}",
            "traces": each.traces,
            "events": each.events,
            "held": each.held,
            "in_use": each.in_use,
        }
        for each in months
    ]


COMMANDS = (hold_command, release_command, expire_command)
