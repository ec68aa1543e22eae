"""Arguments of the analytics tools and endpoints: a statement, or a table."""

from pydantic import Field

from formulary_catalog.domain.analytics.answers import DEFAULT_SAMPLE, MAX_ROWS, MAX_SAMPLE
from formulary_catalog.domain.analytics.statement import MAX_LENGTH, TABLES
from formulary_catalog.operations.arguments.base import Arguments

_LONGEST_NAME = 100


class QueryArguments(Arguments):
    """What is asked."""

    sql: str = Field(
        max_length=MAX_LENGTH,
        description="One SELECT of PostgreSQL over tables of insight; CTEs, windows and percentiles are fine.",
        examples=[
            "SELECT workflow, failed, success_rate FROM insight.outcomes ORDER BY failed DESC LIMIT 5",
            "SELECT mode, percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) FROM insight.searches GROUP BY 1",
        ],
    )
    max_rows: int = Field(
        MAX_ROWS,
        ge=1,
        le=MAX_ROWS,
        description=f"Rows to return; {MAX_ROWS} without it, as far as they fit.",
        examples=[20],
    )


class TablesArguments(Arguments):
    """Nothing: all tables are listed."""


class TableArguments(Arguments):
    """Which table is meant."""

    table: str = Field(
        max_length=_LONGEST_NAME,
        description=f"One of {', '.join(TABLES)}.",
        examples=["insight.searches"],
    )


class SampleArguments(TableArguments):
    """Which table is meant, and how many of its rows are wanted."""

    n: int = Field(
        DEFAULT_SAMPLE, ge=1, le=MAX_SAMPLE, description=f"Rows to return; {DEFAULT_SAMPLE} without it.", examples=[3]
    )
