"""What a run refers to, as it is at this moment: read in the transaction that lets it start.

`store.runs.lifecycle` calls it when it decides on a run and when it begins one. Hours may lie between request and
start: the workflow may be withdrawn by then, or the incident changed.
"""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.runs.start_checks import Present, TargetNow, Withdrawn, facts_now
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.incidents import context_of


async def facts_at_start(
    connection: Connection, run: Invocation, *, target: TargetNow, strict_keys: frozenset[str]
) -> Mapping[str, Any] | Withdrawn:
    """The facts of a run with what holds now, or why it must not start; `target` is what the operator read of that."""
    return facts_now(run, await _present_of(connection, run, target=target), strict_keys=strict_keys)


async def _present_of(connection: Connection, run: Invocation, *, target: TargetNow) -> Present:
    """The workflow and the incident of a run, for the writer's role."""
    rows = await connection.fetch(
        """
        select version_id, status, document from workflow_version
        where namespace = $1 and name = $2 and (version_id = $3 or status in ('Active', 'Disabled'))
        """,
        run.workflow_namespace,
        run.workflow_name,
        run.version_id,
    )
    namespace, _, name = run.analysis.partition("/")
    return Present(
        # Versions stay in the catalog for good: of one that is not there nothing was withdrawn.
        deleted=any(row["version_id"] == run.version_id and row["status"] == "Deleted" for row in rows),
        suspended=any(row["status"] == "Disabled" for row in rows),
        served=next((row["document"] for row in rows if row["status"] == "Active"), None),
        incident=await context_of(connection, namespace=namespace, name=name) if run.analysis else None,
        target=target,
    )
