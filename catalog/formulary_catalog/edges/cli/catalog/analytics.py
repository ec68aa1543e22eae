"""`formulary query` and `formulary tables`: SQL over the catalog and its trail, and what there is to ask about."""

import csv
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import json_option
from formulary_catalog.edges.cli.targets import CatalogTarget, catalog_options, incident_option
from formulary_catalog.edges.cli.wording import notes_as_typed

if TYPE_CHECKING:
    from formulary_catalog.domain.analytics.answers import Cell, QueryAnswer
    from formulary_catalog.domain.answers.catalog import Answer

_STATISTICS = ("name", "count", "nulls", "min", "max", "mean", "stddev", "p50", "p95")
_COLUMNS = ("column", "type", "description")
_TABLES = ("table", "rows", "description")


@click.command("query")
@click.argument("sql", metavar="SQL")
@click.option("--max-rows", type=int, default=1000, show_default=True, metavar="N", help="Rows to return, 1 to 1000.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@incident_option
@catalog_options
@json_option
def query_command(*, sql: str, max_rows: int, as_csv: bool, target: CatalogTarget, as_json: bool) -> None:
    """Run one SELECT over the catalog, its searches and its runs.

    `formulary tables` lists what there is. - reads the statement from standard input.

    \b
    Examples:
      formulary query "SELECT workflow, succeeded, failed FROM insight.outcomes ORDER BY failed DESC"
      formulary query "SELECT query, count(*) FROM insight.searches WHERE candidates = 0 GROUP BY 1" --csv
    """
    from formulary_catalog.operations.analytics import QUERY

    if as_csv and as_json:
        raise click.UsageError("--csv and --json are given; give one of them")
    given = {"sql": sys.stdin.read() if sql == "-" else sql, "max_rows": max_rows}
    answer = target.answer(QUERY, given)
    if as_json:
        click.echo(answer.model_dump_json())
    elif as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows([[_spelled(cell) for cell in row.values()] for row in answer.data])
        _show_notes(answer.notes)
    else:
        _show(answer)
    if not answer.data:
        raise SystemExit(1)


@click.command("tables")
@click.argument("table", default="", metavar="[TABLE]")
@click.option("--sample", "n", type=int, metavar="N", help="Show N rows of the table, 1 to 50.")
@click.option("--stats", is_flag=True, help="Show statistics of the table's columns.")
@incident_option
@catalog_options
@json_option
def tables_command(*, table: str, n: int | None, stats: bool, target: CatalogTarget, as_json: bool) -> None:
    """List the tables of `formulary query`, or the columns of one.

    \b
    Examples:
      formulary tables
      formulary tables searches
      formulary tables outcomes --stats
    """
    if not table and (stats or n is not None):
        raise click.UsageError("--sample and --stats need a TABLE")
    answer, header, rows = _answer(target, table, sample=n, stats=stats)
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        _table(header, rows)


def _answer(
    target: CatalogTarget, table: str, *, sample: int | None, stats: bool
) -> "tuple[Answer, Sequence[str], list[list[str]]]":
    """The answer to what was asked, and the same as a table for people."""
    from formulary_catalog.operations.analytics import SAMPLE, SCHEMA, STATISTICS, TABLES

    if stats:
        described = target.answer(STATISTICS, {"table": table})
        lines = [[_text(getattr(line, name)) for name in _STATISTICS] for line in described.columns]
        return described, _STATISTICS, lines
    if sample is not None:
        found = target.answer(SAMPLE, {"table": table, "n": sample})
        return found, found.columns, _rows(found)
    if table:
        schema = target.answer(SCHEMA, {"table": table})
        return schema, _COLUMNS, [[line.name, line.type, line.description] for line in schema.columns]
    listed = target.answer(TABLES, {})
    return listed, _TABLES, [[line.name, _text(line.rows), line.description] for line in listed.tables]


def _show(answer: "QueryAnswer") -> None:
    _table(answer.columns, _rows(answer))
    _show_notes(answer.notes)


def _rows(answer: "QueryAnswer") -> list[list[str]]:
    return [[_text(cell) for cell in row.values()] for row in answer.data]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from formulary_catalog.runtime.terminal import Page

    Page().table(header, rows)


def _show_notes(notes: Sequence[str]) -> None:
    for note in notes_as_typed(notes):
        click.echo(note, err=True)


def _text(cell: "Cell") -> str:
    """A cell in one line."""
    return " ".join(str(_spelled(cell)).split())


def _spelled(cell: "Cell") -> "Cell":
    """A cell as SQL and JSON spell it, not as Python does."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else cell
