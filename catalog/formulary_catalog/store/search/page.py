"""One page of hits: what an answer shows of each version, and the manifests that are not parsed yet.

`kernel/search/pipeline` reads it for the first candidates, where the statement did not bring the versions along. All
readers of versions have their columns from here.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import asyncpg

from formulary_catalog.domain.stored import StoredVersion, WorkflowOutcome
from formulary_catalog.domain.workflows.labels import UNCONSTRAINED, Constraints
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.tenancy import StatementArguments, entered_table
from formulary_catalog.store.search.allowed import AllowedVersions


def outcome_column(version_id: str) -> str:
    """The value of a column for `outcome_of`; `version_id` is the SQL of a version's id."""
    return (
        "(select array[counted.succeeded, counted.failed, counted.median_seconds, counted.helped, counted.verified] "
        f"from workflow_outcome as counted where counted.version_id = {version_id})"
    )


def outcome_of(column: Sequence[float | None] | None) -> WorkflowOutcome:
    """The outcome that such a column has."""
    if column is None:
        return WorkflowOutcome()
    succeeded, failed, median_seconds, helped, verified = column
    return WorkflowOutcome(
        succeeded=int(succeeded or 0),
        failed=int(failed or 0),
        median_seconds=median_seconds,
        helped=int(helped or 0),
        verified=int(verified or 0),
    )


def version_columns(row: str, *, allowed: AllowedVersions) -> str:
    """The columns of a `StoredVersion` but for its id, for a row of `workflow_version`.

    `allowed` is what the incident allows, whatever labels the caller gives.
    """
    return f"""
        {row}.namespace, {row}.name, {row}.version, {row}.status,
        {allowed.ambiguous(row)} as ambiguous, {outcome_column(f"{row}.version_id")} as outcome"""


def stored_version(row: asyncpg.Record) -> StoredVersion:
    """From a row with a version_id and the columns of `version_columns`."""
    return StoredVersion(
        version_id=row["version_id"],
        namespace=row["namespace"],
        name=row["name"],
        version=row["version"],
        status=row["status"],
        ambiguous=row["ambiguous"],
        outcome=outcome_of(row["outcome"]),
    )


class PageReader:
    """Reads what an answer needs of the workflows on its page."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(
        self,
        version_ids: Sequence[str],
        *,
        known: Container[str],
        namespaces: frozenset[str] | None,
        imposed: Constraints = UNCONSTRAINED,
    ) -> tuple[dict[str, StoredVersion], dict[str, Mapping[str, Any]]]:
        """These versions by their ids, and the manifests of those that are not `known`.

        There is none of a workflow that is no longer served. `imposed` are the constraints of the incident.

        Raises:
            Unavailable: the database does not answer in time.
        """
        if not version_ids:
            return {}, {}
        arguments = StatementArguments()
        entering = entered_table(arguments, namespaces=namespaces)
        wanted = arguments.add(list(version_ids), "text[]")
        unknown = arguments.add([version_id for version_id in version_ids if version_id not in known], "text[]")
        rows = await self._database.fetch(
            f"""
            with {entering}
            select page.* from entered, lateral (
                select version_id, case when version_id = any ({unknown}) then document end as document,
                       {version_columns("version", allowed=AllowedVersions(imposed, arguments))}
                from workflow_version version
                where version_id = any ({wanted}) and status = 'Active' and entered.word_in_use is not null
                offset 0
            ) as page
            """,
            *arguments.values,
        )
        return (
            {row["version_id"]: stored_version(row) for row in rows},
            {row["version_id"]: row["document"] for row in rows if row["document"] is not None},
        )
