"""Who allowed or forbade a run.

`services.runs.service` adds answers of callers, the operator's `ApprovalReconciler` those of objects. The approver is
never what somebody wrote, but who was authenticated. An answer and its event in the trail are one transaction.
"""

import secrets
from dataclasses import dataclass

from formulary_catalog.domain.notifications.notices import notices_of_answer
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.notifications import add_notices
from formulary_catalog.store.runs.submission import ACTIVE, COLUMNS, enter, invocation_of, record_event


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApproval:
    """`decision` is Approve or Reject; `uid` that of the object, or empty for one that has none.

    `digest` is that of the content that it counts for; empty for the content that is shown when it is kept.
    """

    invocation_id: str
    namespace: str
    decision: str
    approver: str
    reason: str = ""
    name: str = ""
    uid: str = ""
    digest: str = ""


class ApprovalStore:
    """Adds and withdraws approvals; what they change is decided when the run is looked at next."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, approval: NewApproval) -> Invocation | None:
        """Keep an approval, once for each object. The run it is about; None if there is none in its namespace.

        Raises:
            Unavailable: the database does not answer.
        """

        async def write(connection: Connection) -> Invocation | None:
            await enter(connection, caller=approval.approver, invocation_id=approval.invocation_id, namespaces=())
            row = await connection.fetchrow(
                f"select {COLUMNS} from invocation where id = $1 and namespace = $2",
                approval.invocation_id,
                approval.namespace,
            )
            if row is None:
                return None
            run = invocation_of(row)
            digest = approval.digest or run.content_digest
            added = await connection.execute(
                """
                insert into invocation_approval
                    (uid, source, invocation_id, namespace, name, decision, approver, reason, digest)
                values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (uid) do nothing
                """,
                approval.uid or f"server-{secrets.token_hex(10)}",
                "cluster" if approval.uid else "server",
                approval.invocation_id,
                approval.namespace,
                approval.name,
                approval.decision,
                approval.approver,
                approval.reason,
                digest,
            )
            if added.endswith(" 1"):
                kind = "invocation.approved" if approval.decision == "Approve" else "invocation.rejected"
                payload = {
                    "approver": approval.approver,
                    "reason": approval.reason,
                    "object": approval.name,
                    "digest": digest,
                }
                await record_event(connection, run, kind=kind, payload=payload, caller=approval.approver)
                approved = approval.decision == "Approve"
                await add_notices(
                    connection, notices_of_answer(run, approved=approved, by=approval.approver, digest=digest)
                )
            return run

        return await self._database.write(write)

    async def is_kept(self, uid: str) -> bool:
        """Whether the approval of the object with this uid is kept."""

        async def read(connection: Connection) -> bool:
            return bool(
                await connection.fetchval("select exists (select from invocation_approval where uid = $1)", uid)
            )

        return await self._database.read(read)

    async def of_objects(self) -> dict[tuple[str, str], str]:
        """The uids of the objects whose approvals of runs that are not over are kept, by (namespace, name)."""

        async def read(connection: Connection) -> dict[tuple[str, str], str]:
            rows = await connection.fetch(
                f"""
                select a.namespace, a.name, a.uid from invocation_approval a join invocation i on i.id = a.invocation_id
                where a.source = 'cluster' and {ACTIVE}
                """
            )
            return {(row["namespace"], row["name"]): row["uid"] for row in rows}

        return await self._database.read(read)

    async def withdraw(self, *, namespace: str, name: str, unless_owned_by: str = "") -> None:
        """Forget the approval of an object that is gone; a run that has begun goes on.

        `unless_owned_by` spares that of the object with this uid.
        """
        await self._database.execute(
            """
            delete from invocation_approval
            where source = 'cluster' and namespace = $1 and name = $2 and ($3 = '' or uid <> $3)
            """,
            namespace,
            name,
            unless_owned_by,
        )
