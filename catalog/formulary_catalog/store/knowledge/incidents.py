"""Documents of ended incidents, read from the trail trace by trace.

`up` and the operator call it every few seconds. A trace has ended when nothing was added to it for a while; if
something is later, its documents are written again. They go with the trace.
"""

from formulary_catalog.domain.knowledge.incidents import PastIncident, past_incident
from formulary_catalog.domain.knowledge.mentions import KnownWorkflow
from formulary_catalog.store.audit.one_trace import events_of, name_trace
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import tenant_of
from formulary_catalog.store.embedding_models import keep_serving_model
from formulary_catalog.store.knowledge.documents import save_documents

QUIET_SECONDS = 900.0
"""After so long without an event a trace counts as ended."""
_AT_ONCE = 50
_MENTIONS = 7_204_113_628
"""The lock that keeps a document and a workflow that it names from being stored without seeing each other."""


class IncidentDocuments:
    """Keeps documents of the incidents whose traces have ended."""

    def __init__(self, database: Database, *, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._database = database
        self._quiet_seconds = quiet_seconds

    async def catch_up(self) -> int:
        """Read the next traces that have ended; how many there were. Does nothing where another process is at it.

        Raises:
            Unavailable: the database does not answer; nothing was changed.
        """

        async def write(connection: Connection) -> int:
            await keep_serving_model(connection)
            until = await connection.fetchval("select traces_until from knowledge_progress for update skip locked")
            if until is None:
                return 0
            ended = await connection.fetch(
                """
                select trace_id, changed_at
                from ended_traces($1, clock_timestamp() - make_interval(secs => $2), $3)
                """,
                until,
                self._quiet_seconds,
                _AT_ONCE,
            )
            for row in ended:
                await _write(connection, row["trace_id"])
            if ended:
                await connection.execute("update knowledge_progress set traces_until = $1", ended[-1]["changed_at"])
            return len(ended)

        return await self._database.write(write)


async def _write(connection: Connection, trace_id: str) -> None:
    await name_trace(connection, trace_id)
    past = past_incident(trace_id, await events_of(connection, trace_id))
    documents = past.documents(known=await _known(connection, past)) if past is not None else []
    await connection.execute(
        "delete from knowledge_document where trace_id = $1 and doc_id <> all ($2)",
        trace_id,
        [document.doc_id for document in documents],
    )
    if documents:
        tenant_id = await tenant_of(connection, namespace=documents[0].namespace)
        await save_documents(connection, documents, tenant_id=tenant_id, trace_id=trace_id)


async def _known(connection: Connection, past: PastIncident) -> list[KnownWorkflow]:
    """The workflows that its free text may name, whatever became of them.

    Versions that are stored from now on wait until the documents are there, and add themselves to those that name
    them (migration 0009a).
    """
    await connection.execute("select pg_advisory_xact_lock($1)", _MENTIONS)
    possible = past.possible_names
    rows = await connection.fetch(
        """
        select version_id, namespace, name, coalesce(document -> 'spec' ->> 'title', '') as title
        from workflow_version where name = any ($1) or version_id = any ($2)
        """,
        sorted({name.rpartition("/")[2] for name in possible}),
        sorted(possible | past.shown),
    )
    return [KnownWorkflow(**row) for row in rows]
