"""Workflows by their names: exact ones, parts of names, the nearest to a misspelt one; and what values they have."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.domain.workflows.labels import WILDCARD, Constraints
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.allowed import AllowedVersions
from formulary_catalog.store.search.page import stored_version, version_columns

MATCHES = ("name", "version id", "signal", "title", "part of the name", "similar name")
"""How a workflow may match a name, the closest first."""
EXACT = 4
"""So many of these are exact."""
_TITLE = 120
"""Characters of a title that the index holds."""
_BEGINNING = 3
_MAX_PARTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NameQuestion:
    """A name in the forms that are compared: as a workflow's name within a namespace or any, as a version id, as a
    folded signal, as a title in lower case, as a part of a name. Empty forms are not compared: all names are read for
    a part, the other forms have indexes."""

    name: str = ""
    namespace: str = ""
    version_id: str = ""
    signal: str = ""
    title: str = ""
    part: str = ""


class Declared(StrEnum):
    """What workflows declare that listings are narrowed by, as arguments call it."""

    SIGNAL_TYPE = "signal_type"
    ACTION_TYPE = "action_type"
    NAMESPACE = "namespace"


class NameReader:
    """Looks names up under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, question: NameQuestion, *, constraints: Constraints, namespaces: frozenset[str] | None, limit: int
    ) -> tuple[list[tuple[StoredVersion, str, str]], int]:
        """The allowed workflows that match, the closest first, at most `limit`; and how many there are.

        Each has its title, as its author wrote it, and how it matched: one of `MATCHES`.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        namespace = arguments.add(question.namespace, "text")
        forms = _forms(question, arguments)
        if not forms:
            return [], 0
        few, many = allowed.looked_up("version"), allowed.condition("version")
        matching = " union all ".join(
            f"select version_id, name, namespace, {rank} as rank from workflow_version as version "
            f"where {few if rank <= EXACT else many} and ({namespace} = '' or namespace = {namespace}) and {form}"
            for rank, form in forms.items()
        )
        statement = f"""
            with matching as (
                select version_id, name, namespace, min(rank) as rank from ({matching}) as found
                group by version_id, name, namespace
            ), page as (
                select *, count(*) over () as total from matching
                order by rank, length(name), name, namespace limit {arguments.add(limit, "integer")}
            )
            select rank, total, title, version_id, {version_columns("version", allowed=allowed)}
            from page join workflow_version as version using (version_id)
            order by rank, length(page.name), page.name, page.namespace
        """

        async def read(connection: Connection) -> tuple[list[tuple[StoredVersion, str, str]], int]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(statement, *arguments.values)
            found = [(stored_version(row), row["title"], MATCHES[row["rank"] - 1]) for row in rows]
            return found, rows[0]["total"] if rows else 0

        return await self._database.read(read)

    async def alike(
        self, name: str, *, constraints: Constraints, namespaces: frozenset[str] | None, limit: int
    ) -> Sequence[tuple[str, str]]:
        """Name and namespace of the allowed workflows that have most beginnings of parts in common with this name.

        Parts stand between hyphens and dots, and their first letters are seldom misspelt.

        Raises:
            Unavailable: the database does not answer.
        """
        beginnings = sorted({part[:_BEGINNING] for part in re.findall("[a-z0-9]+", name)})[:_MAX_PARTS]
        if not beginnings:
            return []
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        # Taking dots for hyphens with `translate` would cost more than all of this.
        shared = " + ".join(
            f"(starts_with(name, {each}) or strpos(name, '-' || {each}) > 0 or strpos(name, '.' || {each}) > 0)::int"
            for each in (arguments.add(beginning, "text") for beginning in beginnings)
        )
        statement = f"""
            select name, namespace from (
                select name, namespace, {shared} as shared from workflow_version as version
                where {allowed.condition("version")}
            ) as counted
            where shared > 0 order by shared desc, length(name), name, namespace limit {arguments.add(limit, "integer")}
        """

        async def read(connection: Connection) -> Sequence[tuple[str, str]]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(statement, *arguments.values)
            return [(row["name"], row["namespace"]) for row in rows]

        return await self._database.read(read)

    async def allowed(
        self, names: Collection[str], *, constraints: Constraints, namespaces: frozenset[str] | None
    ) -> frozenset[str]:
        """Those of the names that allowed workflows have.

        Raises:
            Unavailable: the database does not answer.
        """
        if not names:
            return frozenset()
        arguments = StatementArguments()
        asked = arguments.add(sorted(names), "text[]")
        allowed = AllowedVersions(constraints, arguments).looked_up("version")
        statement = f"select name as value from workflow_version as version where name = any ({asked}) and {allowed}"
        return frozenset(await self._values(statement, arguments, namespaces=namespaces))

    async def declared(
        self, what: Declared, *, constraints: Constraints, namespaces: frozenset[str] | None
    ) -> list[str]:
        """The different values that allowed workflows have, in order; signal types are folded.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        if what is Declared.SIGNAL_TYPE:
            no_signals = arguments.add(["", WILDCARD], "text[]")
            statement = (
                f"select distinct signal_type as value from ({allowed.signal_rows()}) as searched "
                f"where signal_type <> all ({no_signals}) order by 1"
            )
        else:
            statement = (
                f"select distinct {what.value} as value from workflow_version as version "
                f"where {allowed.condition('version')} order by 1"
            )
        return await self._values(statement, arguments, namespaces=namespaces)

    async def signal_names(
        self, folded: Sequence[str], *, constraints: Constraints, namespaces: frozenset[str] | None
    ) -> list[str]:
        """How allowed workflows write these folded signal types, in the same order.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(constraints, arguments)
        wanted = arguments.add(folded, "text[]")
        statement = (
            f"select min(signal_name) as value from workflow_search where signal_type = any ({wanted}) "
            f"and {allowed.on_signal_rows} group by signal_type order by array_position({wanted}, signal_type)"
        )
        return await self._values(statement, arguments, namespaces=namespaces)

    async def _values(
        self, statement: str, arguments: StatementArguments, *, namespaces: frozenset[str] | None
    ) -> list[str]:
        async def read(connection: Connection) -> list[str]:
            await enter(connection, namespaces=namespaces)
            return [row["value"] for row in await connection.fetch(statement, *arguments.values)]

        return await self._database.read(read)


def _forms(question: NameQuestion, arguments: StatementArguments) -> dict[int, str]:
    """The conditions that the question asks for, each by its place in `MATCHES`."""
    asked = (
        (question.name, "name = {}"),
        (question.version_id, "version_id = {}"),
        (question.signal, "version_id in (select version_id from workflow_search where signal_type = {})"),
        (question.title, f"title_key = lower(left({{}}, {_TITLE}))"),
        (question.part, "strpos(name, {}) > 0"),
    )
    return {
        rank: condition.format(arguments.add(form, "text"))
        for rank, (form, condition) in enumerate(asked, start=1)
        if form
    }
