"""How many workflows a listing would have for each value of what narrows it, for `services/workflows/listing`.

A value is counted under everything else that is asked for, so that its count is the total of the list behind it.
"""

from collections.abc import Mapping

import asyncpg

from formulary_catalog.domain.workflows.labels import WILDCARD
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.allowed import AllowedVersions
from formulary_catalog.store.workflows.listing import (
    ACTIVE,
    RISK,
    ListingQuestion,
    narrowing,
    not_served_shown,
    of_status,
    with_words,
)
from formulary_catalog.store.workflows.refusals import INVALID, refused_where

FACETS = ("namespace", "signal_type", "risk_level", "action_type")
_KEYS = {"namespace": "namespace", "risk_level": "risk", "action_type": "lower(action_type)"}
_NAMES = {"namespace": "namespace", "risk_level": "risk", "action_type": "min(action_type)"}

# What declares any signal answers each: it counts once, beside those that declare the signal alone.
_OF_FOUND = " union all ".join(
    f"""
    select signal_type, count(*) as number from found join (
        select version_id, signal_type from workflow_search
        where {slim} and signal_type <> '' and (signal_type = '{WILDCARD}' or not signal_types && array['{WILDCARD}'])
    ) as searched using (version_id) where {{0}} group by signal_type
    """
    for slim in ("slim", "not slim")
)
# The same for all that is served, from an index alone but for the few that declare any signal and others.
_OF_ALL = f"""
    select signal_type, count(*) as number from workflow_search where signal_type <> '' group by signal_type
    union all
    select signal_type, -count(*) from workflow_search
    where signal_type not in ('', '{WILDCARD}')
      and version_id in (select version_id from workflow_search where signal_type = '{WILDCARD}')
    group by signal_type
"""


class FacetReader:
    """Counts under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def values(
        self, question: ListingQuestion, *, namespaces: frozenset[str] | None, limit: int
    ) -> dict[str, list[tuple[str, int]]]:
        """For each of `FACETS` its values with their counts, the most frequent `limit` first, and the one asked for.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        statement = _statement(question, arguments, limit=limit)

        async def read(connection: Connection) -> list[asyncpg.Record]:
            await enter(connection, namespaces=namespaces)
            return list(await connection.fetch(statement, *arguments.values))

        rows = await self._database.read(read)
        anywhere = next((row["number"] for row in rows if _is_any_signal(row)), 0)
        found: dict[str, list[tuple[str, int]]] = {facet: [] for facet in FACETS}
        for row in rows:
            if not _is_any_signal(row):
                more = anywhere if row["facet"] == "signal_type" else 0
                found[row["facet"]].append((row["name"], row["number"] + more))
        return found

    async def statuses(self, question: ListingQuestion, *, namespaces: frozenset[str] | None) -> Mapping[str, int]:
        """How many versions of each status there are under what is asked for beside the status, and refused objects.

        Constraints are not looked at: who asks has no incident.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        asked = [*with_words(question, arguments), *narrowing(question, arguments).values()]
        narrowed = "".join(f" and {condition}" for condition in asked)
        refused = " and ".join(refused_where(question, arguments))
        shown = not_served_shown(question, arguments)

        async def read(connection: Connection) -> Mapping[str, int]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(  # each half has an index of its own
                f"""
                select {ACTIVE!r} as status, count(*) from workflow_version as version
                where status = {ACTIVE!r}{narrowed}
                union all
                select status, count(*) from workflow_version as version
                where status not in ({ACTIVE!r}, 'Deleted') and {shown}{narrowed} group by status
                union all
                select {INVALID!r}, count(*) from refused_workflow where {refused} having count(*) > 0
                """,
                *arguments.values,
            )
            return {row["status"]: row["count"] for row in rows}

        return await self._database.read(read)


def _statement(question: ListingQuestion, arguments: StatementArguments, *, limit: int) -> str:
    allowed = AllowedVersions(question.constraints, arguments)
    where = " and ".join([of_status(question, allowed, arguments), *with_words(question, arguments)])
    narrowed = narrowing(question, arguments)
    fits = ", ".join(f"({narrowed.get(facet, 'true')}) as {facet}_fits" for facet in FACETS)
    others = {facet: " and ".join(f"{each}_fits" for each in FACETS if each != facet) for facet in FACETS}
    counted = " union all ".join(
        f"select '{facet}' as facet, {key} as key, {_NAMES[facet]} as name, count(*) as number "
        f"from found where {others[facet]} group by {key}"
        for facet, key in _KEYS.items()
    )
    is_whole = question.status == ACTIVE and not question.words and not narrowed.keys() - {"signal_type"}
    signals = _OF_ALL if is_whole else _OF_FOUND.format(others["signal_type"])
    asked = arguments.add([question.namespace, question.signal_type, question.risk_level], "text[]")
    action = arguments.add(question.action_type, "text")
    most = arguments.add(limit, "integer")
    return f"""
        with found as materialized (  -- but for words, from an index alone
            select version_id, namespace, action_type, {RISK} as risk, {fits}
            from workflow_version as version where {where}
        ), value as (
            {counted}
            union all
            select 'signal_type', signal_type, null, number from (
                select signal_type, sum(number)::bigint as number from ({signals}) as declared group by signal_type
            ) as counted
        ), placed as (
            select *, row_number() over (partition by facet order by number desc, key) as place from value
        )
        select facet, number, key, coalesce(name, (
            select signal_name from workflow_search where signal_type = placed.key limit 1
        )) as name
        from placed
        where place <= {most} or key = any ({asked}) or key = lower({action}) or key = {WILDCARD!r}
        order by facet, place
    """


def _is_any_signal(row: asyncpg.Record) -> bool:
    return bool(row["facet"] == "signal_type" and row["key"] == WILDCARD)
