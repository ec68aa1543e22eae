"""Decisions on runs as they were recorded, for those who may read the runs: to be made again, and counted by rule.

`services/governance/rehearsing` and `services/runs/reading` read with it, under row-level security.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from formulary_catalog.domain.governance.contract import Contract
from formulary_catalog.domain.runs.run import RunTarget
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.reviewing import enter_review
from formulary_catalog.store.runs.situation import contract_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedRun:
    """A decision and the run that it is about; `basis` as it is stored."""

    id: int
    at: datetime
    outcome: str
    basis: Mapping[str, Any] = field(repr=False)
    invocation_id: str
    trace_id: str
    workflow_namespace: str
    workflow_name: str
    workflow_version: str
    namespace: str
    target: RunTarget
    dry_run: bool

    @property
    def workflow(self) -> str:
        return f"{self.workflow_namespace}/{self.workflow_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """How many runs a rule matched, and how many of them it decided."""

    contract: str
    rule_id: str
    matched: int
    decided: int


class DecisionReader:
    """Reads what belongs to these namespaces, None for all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        *,
        namespaces: frozenset[str] | None,
        namespace: str,
        since: datetime,
        before: tuple[datetime, int] | None,
        limit: int,
    ) -> list[DecidedRun]:
        """Decisions since a time, the newest first: on runs in one namespace, if one is given, after the row `before`.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[DecidedRun]:
            await enter_review(connection, caller="", namespaces=namespaces)
            at, id_ = before or (None, 0)
            rows = await connection.fetch(
                """
                select decision.id, decision.at, decision.outcome, decision.basis, decision.invocation_id,
                       run.trace_id, run.workflow_namespace, run.workflow_name, run.workflow_version, run.namespace,
                       run.target, run.dry_run
                from decision_basis as decision join invocation as run on run.id = decision.invocation_id
                where decision.at >= $1 and ($2::timestamptz is null or (decision.at, decision.id) < ($2, $3))
                  and $4 in ('', decision.namespace)
                order by decision.at desc, decision.id desc limit $5
                """,
                since,
                at,
                id_,
                namespace,
                limit,
            )
            return [DecidedRun(**{**row, "target": RunTarget.from_json(row["target"])}) for row in rows]

        return await self._database.read(read)

    async def without_basis(self, *, namespaces: frozenset[str] | None, namespace: str, since: datetime) -> int:
        """Runs that were asked for since a time, and of whose decisions nothing is kept but what they came to.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> int:
            await enter_review(connection, caller="", namespaces=namespaces)
            return int(
                await connection.fetchval(
                    """
                    select count(*) from invocation as run
                    where created_at >= $1 and $2 in ('', namespace)
                      and not exists (select from decision_basis where invocation_id = run.id)
                    """,
                    since,
                    namespace,
                )
            )

        return await self._database.read(read)

    async def contracts(
        self, *, namespaces: frozenset[str] | None, shared_namespace: str, namespace: str
    ) -> list[Contract]:
        """The contracts in force for runs in these namespaces; of one of them, if one is given.

        Raises:
            Unavailable: the database does not answer, or one of them cannot be understood.
        """

        async def read(connection: Connection) -> list[Contract]:
            await enter_review(connection, caller="", namespaces=namespaces)
            await connection.execute("select set_config('formulary.namespaces', $1, true)", shared_namespace)
            rows = await connection.fetch(
                "select namespace, name, spec from governance_contract where $1 = '' or namespace = any ($2) "
                "order by 1, 2",
                namespace,
                [namespace, shared_namespace],
            )
            return [contract_of(row) for row in rows]

        return await self._database.read(read)

    async def counts(self, *, namespaces: frozenset[str] | None, since: datetime, at_most: int) -> list[RuleCount]:
        """By rule, the runs that were asked for since a time, of so many the newest: by what was decided last.

        A rule decided a run if the reasons name it. Those of a halt name no rule: each HALT rule that matched decided.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[RuleCount]:
            await enter_review(connection, caller="", namespaces=namespaces)
            rows = await connection.fetch(
                """
                select contract, rule_id, sum(runs)::bigint as matched,
                       coalesce(sum(runs) filter (where effect = 'HALT' and outcome = 'HALT' or exists (
                           select from jsonb_array_elements_text(why) as reason
                           where position(format('%s by rule %s of contract %s', effect, rule_id, contract) in reason)
                                 > 0)), 0)::bigint as decided
                from (
                    select rule ->> 'contract' as contract, rule ->> 'id' as rule_id, rule ->> 'effect' as effect,
                           why, outcome, runs
                    from (
                        -- Most runs are decided alike.
                        select decision -> 'rules' as rules, decision -> 'why' as why,
                               decision ->> 'outcome' as outcome, count(*) as runs
                        from (
                            select decision from invocation where created_at >= $1
                            order by created_at desc, id desc limit $2
                        ) as run group by 1, 2, 3
                    ) as alike
                    cross join lateral jsonb_array_elements(rules) as rule
                ) as matched group by 1, 2
                """,
                since,
                at_most,
            )
            return [RuleCount(**row) for row in rows]

        return await self._database.read(read)
