"""`formulary trace verify`: whether the trail is as it was written, and up to when nothing can be missing.

A signed checkpoint vouches for all before it, but the owner of the database can remove it together with the events that
it covers. Only a checkpoint that was published outside the database shows that. Without one, the page says so.
"""

import json
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.edges.cli.audit.source import TrailSource, not_found, require_storable, trail_options
from formulary_catalog.edges.cli.options import json_option
from formulary_catalog.edges.cli.sources import take_source
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.domain.audit.chain import CheckpointTime
    from formulary_catalog.domain.audit.checkpoint import Seen
    from formulary_catalog.domain.audit.verification import Replay
    from formulary_catalog.store.audit.publishing import CheckpointPlace
    from formulary_catalog.store.audit.reader import TraceReader


@click.command("verify")
@click.argument("trace_id", metavar="[TRACE]", required=False)
@click.option(
    "--seen",
    metavar="NUMBER:HASH",
    multiple=True,
    help="A checkpoint that must exist, as logged when it was written. Repeatable.",
)
@click.option(
    "--published",
    envvar="FORMULARY_AUDIT_PUBLISHED",
    default="",
    metavar="FILE|URL",
    help="Published checkpoints, lines NUMBER:HASH, which must be there. [FORMULARY_AUDIT_PUBLISHED]",
)
@trail_options
@json_option
def verify_command(
    *, trace_id: str | None, seen: tuple[str, ...], published: str, trail: TrailSource, as_json: bool
) -> None:
    """Check that a trace, or the whole trail, is as it was written.

    Compares every event with its hash, and every chain with its head and with the signed checkpoints. Names each event
    that was edited, removed, added or moved. Without TRACE also names functions and triggers of the trail that were
    changed. Exit code 1 if it finds anything.

    Without --published or --seen nothing proves that the newest events were not cut off; the result says so.

    \b
    Examples:
      formulary trace verify
      FORMULARY_AUDIT_PUBLIC_KEY_FILE=audit.pem.pub formulary trace verify --published published
    """
    checkpoints = [_checkpoint(each) for each in seen]
    replay = trail.ask(
        lambda reader: _verified(reader, trace_id, seen=checkpoints, published=published, trail=trail), to_verify=True
    )
    if as_json:
        click.echo(json.dumps({"database": take_source(), **_as_json(replay)}))
    else:
        _show(replay)
    if not replay.passed:
        raise SystemExit(1)


def _checkpoint(text: str) -> "Seen":
    """A checkpoint by number and hash.

    Raises:
        InvalidInput: the text names none.
    """
    from formulary_catalog.domain.audit.checkpoint import Seen

    try:
        return Seen.parse(text)
    except ValueError:
        raise InvalidInput(
            f"--seen {text!r} names no checkpoint; give its number and its hash as the log line trace_checkpoint has "
            "them, such as 7:0f3a…",
            field="seen",
        ) from None


async def _verified(
    reader: "TraceReader", trace_id: str | None, *, seen: "list[Seen]", published: str, trail: TrailSource
) -> "Replay":
    from formulary_catalog.runtime.display import progress_bar
    from formulary_catalog.store.audit.keys import public_keys
    from formulary_catalog.store.audit.publishing import place_of

    keys = public_keys(trail.settings)
    if (place := place_of(published)) is not None:
        seen = [*seen, *await _published(place)]
    if trace_id is None:
        with progress_bar("events", total=await reader.count()) as advance:
            return await reader.examine(keys=keys, seen=seen, progress=advance)
    require_storable(trace_id)
    replay = await reader.verify(trace_id, keys=keys, seen=seen)
    if not replay.trace_count:
        raise not_found(trace_id)
    return replay


async def _published(place: "CheckpointPlace") -> "tuple[Seen, ...]":
    """What was published there.

    Raises:
        InvalidInput: nothing was; a wrong name must not look like a comparison.
    """
    if not (published := await place.read()):
        raise InvalidInput(
            "--published names a place that holds no checkpoint to compare with; name the place where the operator or "
            "`formulary up` publishes, or a copy of the ConfigMap *-audit-checkpoints",
            field="published",
        )
    return published


def _show(replay: "Replay") -> None:
    from formulary_catalog.edges.cli.audit.rendering import spell_finding
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    for finding in replay.findings:
        subject = f"trace {finding.trace_id}, " if finding.trace_id else ""
        page.line(f"✗ {subject}{spell_finding(finding)}", style="red")
    looked_at = (
        f"{counted(replay.event_count, 'event')} of {counted(replay.trace_count, 'trace')}, "
        f"{counted(replay.checkpoint_count, 'checkpoint')}"
    )
    if not replay.passed:
        page.line(f"{looked_at}: {counted(len(replay.findings), 'finding')}", style="bold")
    elif replay.proven is None:
        page.line(f"! {looked_at}: as they were written, but NOTHING PROVES THE TAIL COMPLETE", style="bold yellow")
    else:
        page.line(f"✓ {looked_at}: as they were written", style="green")
    if replay.passed:
        page.line(_tail(replay), style="yellow" if replay.proven is None else "")
    if replay.unsigned:
        unsigned = (
            f"{counted(replay.unsigned, 'checkpoint')} not signed: the owner of the database could have written them"
        )
        page.line(unsigned, style="yellow")
    if replay.unchecked:
        unchecked = (
            f"{counted(replay.unchecked, 'signature')} not checked: name the key in FORMULARY_AUDIT_PUBLIC_KEY_FILE"
        )
        page.line(unchecked, style="yellow")
    page.line(f"this is the trail of {take_source()}")


def _tail(replay: "Replay") -> str:
    """Up to when nothing can be missing."""
    if replay.proven is not None:
        return f"complete up to {replay.proven}, which was published; nothing proves that later events are all there"
    newest = f"the newest one here is {replay.newest}" if replay.newest is not None else "there is none here"
    return (
        "no published checkpoint was compared: any number of the newest events, back to the first, could be missing, "
        f"with their checkpoints, signed or not ({newest}); compare with --published FILE|URL or --seen NUMBER:HASH"
    )


def _as_json(replay: "Replay") -> dict[str, Any]:
    from formulary_catalog.domain.audit.export import discrepancies, replay_report

    return {
        **replay_report(replay),
        **({"status": "TAIL_UNPROVEN"} if replay.passed and replay.proven is None else {}),
        "tail_proven": replay.proven is not None,
        "tail": _tail(replay),
        "proven_checkpoint": _checkpoint_as_json(replay.proven),
        "newest_checkpoint": _checkpoint_as_json(replay.newest),
        "trace_count": replay.trace_count,
        "checkpoint_count": replay.checkpoint_count,
        "unsigned_checkpoints": replay.unsigned,
        "unchecked_signatures": replay.unchecked,
        "discrepancies": discrepancies(replay),
    }


def _checkpoint_as_json(checkpoint: "CheckpointTime | None") -> dict[str, Any] | None:
    return {"id": checkpoint.id, "at": checkpoint.at} if checkpoint is not None else None


COMMANDS = (verify_command,)
