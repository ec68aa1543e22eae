"""What came of earlier runs, read beside the workflow versions that they were of."""

from collections.abc import Sequence

from formulary_catalog.domain.outcome import Outcome


def outcome_column(version_id: str) -> str:
    """The value of a column for `outcome_of`; `version_id` is the SQL of a version's id."""
    return (
        "(select array[counted.succeeded, counted.failed, counted.median_seconds] from workflow_outcome as counted "
        f"where counted.version_id = {version_id})"
    )


def outcome_of(column: Sequence[float | None] | None) -> Outcome:
    """The outcome that such a column has."""
    if column is None:
        return Outcome()
    succeeded, failed, median_seconds = column
    return Outcome(succeeded=int(succeeded or 0), failed=int(failed or 0), median_seconds=median_seconds)
