"""`formulary trace export`: traces as files that outlive the database."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.audit.source import TrailSource, read_trace, readable_options
from formulary_catalog.edges.cli.options import DIRECTORY
from formulary_catalog.errors import StartupError

if TYPE_CHECKING:
    from formulary_catalog.domain.audit.export import FileName
    from formulary_catalog.settings import Settings
    from formulary_catalog.store.audit.reader import TraceReader


class _ReaderGone(Exception):
    """The reader of standard output has read enough. No `OSError`: the database would be blamed for it on the way."""


@click.command("export")
@click.argument("trace_id", metavar="[TRACE]", required=False)
@click.argument("directory", metavar="[DIR]", required=False, type=DIRECTORY)
@click.option(
    "--jsonl",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the events alone, a line of JSON each; without FILE, or with -, to standard output.",
)
@click.option("--all", "everything", is_flag=True, help="All events of all traces; needs --jsonl.")
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
@readable_options
def export_command(
    *,
    trace_id: str | None,
    directory: Path | None,
    jsonl: str | None,
    everything: bool,
    force: bool,
    trail: TrailSource,
) -> None:
    """Write a trace to files, or the events of all traces to one.

    DIR/TRACE/ gets events.ndjson (each event as it was hashed, and its hash), verdict.json, verdict.md (decision and
    story), replay.json and diff.json (whether it is as it was written). Exit code 1 if it is not. Characters of the
    trace's id that are unsafe in file names are written as %2F and the like. With --url the files of one trace come
    from a server; --all reads the database. Existing files are overwritten only with --force.

    \b
    Examples:
      formulary trace export rr-2026-0042 evidence
      formulary trace export rr-2026-0042 --jsonl -
      formulary trace export --all --jsonl events.ndjson
      formulary trace export --all --jsonl | gzip > events.ndjson.gz
      formulary trace export rr-2026-0042 evidence --url https://formulary.example
    """
    if everything:
        complete = jsonl is not None and trace_id is None
    else:
        complete = trace_id is not None and (directory is None) != (jsonl is None)
    if not complete:
        raise click.UsageError("give TRACE and DIR, or TRACE and --jsonl FILE, or --all and --jsonl FILE")
    if everything and trail.url:
        raise click.UsageError("--all reads a database; name it with --database-url or --data-dir, or give TRACE")

    async def write(reader: "TraceReader") -> bool:
        if trace_id is not None:
            return await _write_one(
                reader, trace_id, directory=directory, jsonl=jsonl, force=force, settings=trail.settings
            )
        await _write_all(reader, jsonl or "-", force=force)
        return True

    try:
        if trail.url and trace_id is not None:
            whole = _write_served(trail.url, trace_id, directory=directory, jsonl=jsonl, force=force)
        else:
            whole = trail.ask(write)
    except _ReaderGone as gone:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from gone
    if not whole:
        raise SystemExit(1)


async def _write_one(
    reader: "TraceReader",
    trace_id: str,
    *,
    directory: Path | None,
    jsonl: str | None,
    force: bool,
    settings: "Settings",
) -> bool:
    """Write one trace, as files in the directory or as lines; whether it is as it was written."""
    from formulary_catalog.domain.audit.export import directory_name, event_line, trace_files

    events, replay = await read_trace(reader, trace_id, settings=settings)
    if directory is not None:
        _write_files(directory / directory_name(trace_id), trace_files(trace_id, events, replay=replay), force=force)
    else:
        with _opened(jsonl or "-", force=force) as write:
            for event in events:
                write(f"{event_line(event)}\n")
    return replay.passed


def _write_served(url: str, trace_id: str, *, directory: Path | None, jsonl: str | None, force: bool) -> bool:
    """The same, as a server has it."""
    from formulary_catalog.domain.audit.export import directory_name
    from formulary_catalog.edges.cli.audit.served import served_files

    answer = served_files(url, trace_id)
    if directory is not None:
        _write_files(directory / directory_name(trace_id), answer.files, force=force)
    else:
        with _opened(jsonl or "-", force=force) as write:
            write(answer.files["events.ndjson"])
    return answer.passed


async def _write_all(reader: "TraceReader", file: str, *, force: bool) -> None:
    from formulary_catalog.domain.audit.export import event_line
    from formulary_catalog.runtime.display import progress_bar

    total = await reader.count()
    with _opened(file, force=force) as write, progress_bar("events", total=total) as advance:
        async with aclosing(reader.all_events()) as events:
            async for event in events:
                write(f"{event_line(event)}\n")
                advance(1)


def _write_files(directory: Path, files: "Mapping[FileName, str]", *, force: bool) -> None:
    with _blaming(str(directory)):
        directory.mkdir(parents=True, exist_ok=True)
    for name in files:
        _require_free(directory / name, force=force)  # of all, before one is written
    for name, text in files.items():
        with _opened(str(directory / name), force=force) as write:
            write(text)
    click.echo(str(directory))


def _require_free(file: Path, *, force: bool) -> None:
    """Raises StartupError for a file that would be overwritten, and need not be; devices and pipes lose nothing."""
    with _blaming(str(file)):
        taken = file.is_file() and not force
    if taken:
        raise StartupError(f"{file} is there already; name another place, or give --force to overwrite it")


@contextmanager
def _opened(file: str, *, force: bool) -> Iterator[Callable[[str], None]]:
    """A function that writes text to a file, `-` for standard output.

    Raises:
        StartupError: it cannot be written, or is there already.
    """
    if file != "-":
        _require_free(Path(file), force=force)
    with _blaming(file):
        stream = click.open_file(file, "w", encoding="utf-8", errors="backslashreplace")

    def write(text: str) -> None:
        with _blaming(file):
            stream.write(text)

    with stream:
        yield write
        with _blaming(file):
            stream.flush()


@contextmanager
def _blaming(file: str) -> Iterator[None]:
    """Say of what goes wrong inside that it went wrong with this file."""
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGone from error
    except OSError as error:
        raise StartupError(f"{file} cannot be written: {error.strerror}; name another place") from error


COMMANDS = (export_command,)
