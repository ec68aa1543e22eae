"""The graph of workflows: what manifests say of others, walked in one statement under the rules of the call.

Edges are rows of `workflow_relation`, written by a trigger. They hold names, or the id of a version, which stands for
its workflow. Which workflow a name means is decided here, among those that the caller sees and the incident allows: the
one of the same namespace, else any.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import asyncpg

from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.domain.workflows.relations import RELATIONS, STORED, Direction, Neighbour, Relation
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.allowed import AllowedVersions

_COLUMNS = "version_id, namespace, name, relation, direction, depth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a walk begins: at a version of a workflow, at a folded signal type, or at an action type.

    `action_type` beside a version says which others have the same action.
    """

    version_id: str = ""
    namespace: str = ""
    name: str = ""
    signal_type: str = ""
    action_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How far to go, along which edges, and whether only against them."""

    depth: int
    relations: Collection[Relation] = tuple(Relation)
    directions: Collection[Direction] = tuple(Direction)


class RelationReader:
    """Walks the graph under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def around(
        self,
        start: Start,
        walk: Walk,
        *,
        constraints: Constraints,
        namespaces: frozenset[str] | None,
        limit: int,
    ) -> tuple[list[Neighbour], int]:
        """The neighbours of a start, the near ones first, at most `limit`; and how many there are.

        No step leads through a workflow that is not allowed.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        statement = _statement(start, walk, allowed=allowed, arguments=arguments, limit=limit)

        async def read(connection: Connection) -> tuple[list[Neighbour], int]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(statement, *arguments.values)
            return [_neighbour(row) for row in rows], rows[0]["total"] if rows else 0

        return await self._database.read(read)

    async def only_answer(
        self,
        signals: Sequence[str],
        *,
        version_id: str,
        constraints: Constraints,
        namespaces: frozenset[str] | None,
    ) -> list[str]:
        """Those of the folded signal types that no allowed workflow but this one declares.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        asked = arguments.add(list(signals), "text[]")
        own = arguments.add(version_id, "text")

        async def read(connection: Connection) -> list[str]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select asked.signal from unnest({asked}) as asked (signal)
                where not exists (
                    select from workflow_search as answering join workflow_version as version using (version_id)
                    where answering.signal_type = asked.signal and version.version_id <> {own}
                      and {allowed.looked_up("version")}
                )
                """,
                *arguments.values,
            )
            return [row["signal"] for row in rows]

        return await self._database.read(read)


def _statement(start: Start, walk: Walk, *, allowed: AllowedVersions, arguments: StatementArguments, limit: int) -> str:
    """The rows of neighbours with how many there are; each edge once, and each workflow at its least depth."""
    rank = f"array_position({arguments.add(list(RELATIONS), 'text[]')}, relation)"
    order = f"depth, {rank}, name, namespace, direction"
    most = arguments.add(limit, "bigint")
    walked = arguments.add([each.value for each in walk.relations if each in STORED], "text[]")
    own_name, own_namespace = arguments.add(start.name, "text"), arguments.add(start.namespace, "text")
    step = " union all ".join(_STEPS[direction].format(walked=walked) for direction in walk.directions)
    step = step.replace("<target>", allowed.looked_up("target")).replace("<source>", allowed.looked_up("source"))
    step = step.replace("<own>", allowed.looked_up("own"))
    also = ""
    if Relation.SAME_ACTION in walk.relations and start.version_id and start.action_type:
        also = f" union all {_same_action(start, allowed, arguments)}"
    return f"""
    with recursive reached ({_COLUMNS}) as (
        {_first(start, allowed, arguments)}
        union
        select next.version_id, next.namespace, next.name, next.relation, next.direction, reached.depth + 1
        from reached, lateral ({step}) as next
        where reached.depth < {arguments.add(walk.depth, "integer")}
          and (next.name, next.namespace) <> ({own_name}, {own_namespace})
    ), neighbour as materialized (
        select {_COLUMNS} from (
            select *, min(depth) over (partition by name, namespace) as least from reached where relation <> ''
        ) as found where depth = least{also}
    )
    select {_COLUMNS}, (select count(*) from neighbour) as total, {allowed.ambiguous("neighbour")} as ambiguous
    from (select * from neighbour order by {order} limit {most}) as neighbour order by {order}
    """


_NAMED = """
(said.namespace = {other} or said.namespace = '' and ({other} = {home} or not exists (
    select from workflow_version as own where own.name = said.name and own.namespace = {home} and <own>)))
"""
"""Whether a name that was said in the namespace `home` means the workflow of that name in `other`."""
_STEPS = {
    Direction.OUTGOING: f"""
        select target.version_id, target.namespace, target.name, said.relation, 'outgoing' as direction
        from workflow_relation as stored
        left join workflow_version as pinned on pinned.version_id = stored.name
        cross join lateral (
            select stored.relation, coalesce(pinned.namespace, stored.namespace) as namespace,
                   coalesce(pinned.name, stored.name) as name
        ) as said
        join workflow_version as target on target.name = said.name and <target>
        where stored.version_id = reached.version_id and stored.relation = any ({{walked}})
          and {_NAMED.format(other="target.namespace", home="reached.namespace")}
    """,
    Direction.INCOMING: f"""
        select source.version_id, source.namespace, source.name, said.relation, 'incoming' as direction
        from (
            select version_id, relation, namespace, name from workflow_relation where name = reached.name
            union all
            select stored.version_id, stored.relation, pinned.namespace, pinned.name
            from workflow_version as pinned join workflow_relation as stored on stored.name = pinned.version_id
            where pinned.name = reached.name and pinned.namespace = reached.namespace
        ) as said
        join workflow_version as source using (version_id)
        where said.relation = any ({{walked}}) and <source>
          and {_NAMED.format(other="reached.namespace", home="source.namespace")}
    """,
}


def _first(start: Start, allowed: AllowedVersions, arguments: StatementArguments) -> str:
    """The rows from which the walk goes on: a workflow, or those that answer a signal or have an action, whatever
    relations are walked."""
    if start.version_id:
        version_id = arguments.add(start.version_id, "text")
        return (
            f'select {version_id} collate "C", {arguments.add(start.namespace, "text")} collate "C", '
            f"{arguments.add(start.name, 'text')} collate \"C\", '' collate \"C\", '', 0"
        )
    if start.signal_type:
        relation = Relation.ANSWERS_SIGNAL
        signal = arguments.add(start.signal_type, "text")
        which = f"version_id in (select version_id from workflow_search where signal_type = {signal})"
    else:
        relation = Relation.SAME_ACTION
        which = f"action_key = lower({arguments.add(start.action_type, 'text')})"
    return (
        f"select version_id, namespace, name, '{relation}' collate \"C\", 'incoming', 1 "
        f"from workflow_version as version where {which} and {allowed.looked_up('version')}"
    )


def _same_action(start: Start, allowed: AllowedVersions, arguments: StatementArguments) -> str:
    name, namespace = arguments.add(start.name, "text"), arguments.add(start.namespace, "text")
    return (
        f"select version_id, namespace, name, '{Relation.SAME_ACTION}', 'outgoing', 1 from workflow_version as version "
        f"where action_key = lower({arguments.add(start.action_type, 'text')}) "
        f"and (name, namespace) <> ({name}, {namespace}) and {allowed.looked_up('version')}"
    )


def _neighbour(row: asyncpg.Record) -> Neighbour:
    return Neighbour(
        version_id=row["version_id"],
        namespace=row["namespace"],
        name=row["name"],
        relation=Relation(row["relation"]),
        direction=Direction(row["direction"]),
        depth=row["depth"],
        ambiguous=row["ambiguous"],
    )
