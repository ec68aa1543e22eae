"""What a decision on a run turns on: read in the transaction that acts on it, and kept with the decision.

And what the run refers to, as it is when it starts: hours may lie between request and start, so the workflow may be
withdrawn by then, or the incident changed.

`store/runs/submission` reads it when a run is asked for, `lifecycle` when it is to begin.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import asyncpg

from formulary_catalog.domain.governance.contract import Contract, contract
from formulary_catalog.domain.governance.decision import Approval, ApprovalDecision, RunDecision
from formulary_catalog.domain.runs.admission_decision import REPEAT_HOURS, DecisionBasis, Selection, Situation
from formulary_catalog.domain.runs.run import UNPROVEN_USERS, Invocation, NewInvocation
from formulary_catalog.domain.runs.start_checks import Present, TargetNow, Withdrawn, facts_now
from formulary_catalog.errors import InvalidInput, Unavailable
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.incidents import context_of
from formulary_catalog.store.runs.halting import halts_of


async def situation_of(
    connection: Connection, run: NewInvocation | Invocation, *, namespaces: tuple[str, ...]
) -> Situation:
    """What a decision on a run turns on now.

    Raises:
        Unavailable: a contract that applies cannot be read.
    """
    contracts = await connection.fetch(
        "select namespace, name, spec from governance_contract where namespace = any ($1) order by namespace, name",
        list(namespaces),
    )
    approvals = await connection.fetch(
        """
        select decision, approver, reason, at, decision = 'Approve' and digest not in ('', $3) as of_other_content
        from invocation_approval
        where invocation_id = $1 and namespace = $2 and not (decision = 'Approve' and approver = any ($4))
        order by at, uid
        """,
        run.id,
        run.namespace,
        run.content_digest if isinstance(run, Invocation) else "",
        list(UNPROVEN_USERS),  # earlier releases accepted approvals by nobody
    )
    selection = await connection.fetchrow("select * from selection_of($1, $2)", run.trace_id, run.version_id)
    facts = await connection.fetchrow(
        "select clock_timestamp() as now, recent_failures($1, $2, $3, $4) as failures",
        run.workflow_namespace,
        run.workflow_name,
        run.target.as_json(),
        timedelta(hours=REPEAT_HOURS),
    )
    assert facts is not None
    return Situation(
        contracts=tuple(map(contract_of, contracts)),
        approvals=tuple(_approval_of(row) for row in approvals if not row["of_other_content"]),
        approved_other_content=any(row["of_other_content"] for row in approvals),
        selection=Selection(**selection) if selection is not None else None,
        recent_failures=facts["failures"] if run.target.name else 0,
        now=facts["now"],
        halts=await halts_of(connection, run.namespace),
    )


async def keep_basis(
    connection: Connection,
    run: NewInvocation | Invocation,
    decision: RunDecision,
    *,
    facts: Mapping[str, Any],
    situation: Situation,
) -> None:
    """Keep what a decision on a run turned on, in the transaction of the decision, until the run is forgotten."""
    await connection.execute(
        "insert into decision_basis (invocation_id, namespace, at, outcome, basis) values ($1, $2, $3, $4, $5)",
        run.id,
        run.namespace,
        situation.now,
        decision.outcome,
        DecisionBasis(facts=facts, situation=situation).as_json(),
    )


def contract_of(row: asyncpg.Record) -> Contract:
    """A contract as it is stored; of a newer release perhaps. What cannot be understood may forbid anything."""
    try:
        return contract(row["spec"], name=row["name"], namespace=row["namespace"])
    except InvalidInput as error:
        raise Unavailable(
            f"contract {row['namespace']}/{row['name']} holds rules that this release does not know, so nothing it "
            "applies to is run; ask its owner to correct it, or update Formulary"
        ) from error


def _approval_of(row: asyncpg.Record) -> Approval:
    return Approval(
        decision=ApprovalDecision(row["decision"]), approver=row["approver"], reason=row["reason"], at=row["at"]
    )


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
