"""The catalog in numbers, as far as a caller may see it, and what searches came to."""

from dataclasses import dataclass
from datetime import datetime

from formulary_catalog.domain.workflows.labels import WILDCARD, Constraints
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.allowed import AllowedVersions
from formulary_catalog.store.workflows.reader import not_suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogNumbers:
    """Counts of what is served and allowed; `others` counts versions that are not served, by status.

    `signals` are those that some workflow declares, folded; `lone_signals` those that one declares, as it spells them.
    """

    by_namespace: dict[str, int]
    by_action: dict[str, int]
    by_risk: dict[str, int]
    others: dict[str, int]
    signals: frozenset[str]
    lone_signals: list[str]
    last_indexed: datetime | None
    model: str

    @property
    def total(self) -> int:
        return sum(self.by_namespace.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchNumbers:
    """Searches by mode, how many were weak or unanswered, and the most frequent queries of the unanswered ones."""

    by_mode: dict[str, int]
    weak: int
    unanswered: int
    queries: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFor:
    """Whose searches and choices count: under an incident those of that incident alone.

    Else those of the caller, and those for incidents of these namespaces; None for all.
    """

    namespaces: frozenset[str] | None
    caller: str
    remediation_id: str

    @property
    def arguments(self) -> tuple[list[str] | None, str, str]:
        """As the functions of the database take them."""
        return None if self.namespaces is None else sorted(self.namespaces), self.caller, self.remediation_id


class StatisticsReader:
    """Counts under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def catalog(
        self,
        *,
        constraints: Constraints,
        namespaces: frozenset[str] | None,
        suspended_in: frozenset[str] | None = frozenset(),
    ) -> CatalogNumbers:
        """The numbers of what is visible and allowed; of suspended workflows in the namespaces `suspended_in`.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        no_signals = arguments.add(["", WILDCARD], "text[]")
        statement = f"""
            with served as materialized (
                select namespace, action_type, risk_level, count(*) as number, max(changed_at) as newest
                from workflow_version as version where {allowed.condition("version")} group by 1, 2, 3
            ), answered as materialized (
                select signal_type, count(*) as number from ({allowed.signal_rows()}) as row_of_a_signal
                where signal_type <> all ({no_signals}) group by signal_type
            )
            select case when grouping(namespace) = 0 then 'namespace' when grouping(action_type) = 0 then 'action'
                   else 'risk' end as what,
                   coalesce(namespace, action_type, risk_level) as key, sum(number)::bigint as number,
                   max(newest) as newest
            from served group by grouping sets (namespace, action_type, risk_level)
            union all select 'signal', signal_type, number, null from answered
            union all select 'alone', signal_name, 1, null
            from answered join workflow_search using (signal_type) where number = 1 and {allowed.on_signal_rows}
        """

        others_arguments = StatementArguments()
        not_served = f"""
            select status, count(*) from workflow_version
            where status not in ('Active', 'Deleted') and {not_suspended(others_arguments, but_in=suspended_in)}
            group by status
        """

        async def read(connection: Connection) -> CatalogNumbers:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(statement, *arguments.values)
            others = await connection.fetch(not_served, *others_arguments.values)
            model = await connection.fetchval("select model_id from embedding_model where state = 'serving'")
            counted = {
                what: {row["key"]: row["number"] for row in rows if row["what"] == what}
                for what in ("namespace", "action", "risk", "signal", "alone")
            }
            return CatalogNumbers(
                by_namespace=counted["namespace"],
                by_action=_whatever_the_case(counted["action"]),
                by_risk={level or "unknown": number for level, number in counted["risk"].items()},
                others={row["status"]: row["count"] for row in others},
                signals=frozenset(counted["signal"]),
                lone_signals=sorted(counted["alone"]),
                last_indexed=max((row["newest"] for row in rows if row["newest"] is not None), default=None),
                model=model or "",
            )

        return await self._database.read(read)

    async def searches(self, whose: CountedFor, *, since: datetime, sure: float, queries: int) -> SearchNumbers:
        """Searches since then.

        Raises:
            Unavailable: the database does not answer.
        """
        modes = await self._database.fetch(
            "select * from formulary.searches_by_mode($1::text[], $2, $3, $4, $5)", *whose.arguments, since, sure
        )
        asked = await self._database.fetch(
            "select * from formulary.unanswered_queries($1::text[], $2, $3, $4, $5)", *whose.arguments, since, queries
        )
        return SearchNumbers(
            by_mode={row["mode"]: row["searches"] for row in modes},
            weak=sum(row["weak"] for row in modes),
            unanswered=sum(row["unanswered"] for row in modes),
            queries=[(row["query"], row["times"]) for row in asked],
        )

    async def use_of(self, version_ids: list[str], whose: CountedFor, *, since: datetime) -> tuple[int, int]:
        """How often one of these versions was the first of a search since then, and how often it was chosen.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch(
            "select first, chosen from formulary.use_of($1::text[], $2::text[], $3, $4, $5)",
            version_ids,
            *whose.arguments,
            since,
        )
        return rows[0]["first"], rows[0]["chosen"]


def _whatever_the_case(counts: dict[str, int]) -> dict[str, int]:
    """The counts of spellings together, under the first of them."""
    spelled: dict[str, str] = {}
    together: dict[str, int] = {}
    for action, number in sorted(counts.items()):
        name = spelled.setdefault(action.lower(), action)
        together[name] = together.get(name, 0) + number
    return together
