"""Pages of workflows in name order, as `services/workflows/listing` shows them."""

from dataclasses import dataclass

from formulary_catalog.domain.cursor import Place
from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.workflows.labels import WILDCARD, Constraints
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.allowed import AllowedVersions
from formulary_catalog.store.workflows.reader import manifest_columns, not_suspended, stored_manifest

ACTIVE = "Active"
PENDING = "Pending"
RISK = "case risk_level when '' then 'unknown' else risk_level end"
"""The risk of a row, as answers spell it."""
_SEARCHED = "version_id in (select version_id from workflow_search where leading_row and {})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingQuestion:
    """What to list. Empty parts do not narrow. `signal_type` is folded; `action_type` is compared without case.

    `words` are in lower case: a name, a title, an action or a signal must contain each.

    Constraints hold for what is served alone; of another `status` all is listed that is visible. `Pending` is served
    and has no vector yet. Versions of suspended workflows are listed in the namespaces `suspended_in`, None for all.
    """

    constraints: Constraints
    status: str = ACTIVE
    signal_type: str = ""
    action_type: str = ""
    namespace: str = ""
    risk_level: str = ""
    words: tuple[str, ...] = ()
    suspended_in: frozenset[str] | None = frozenset()


class ListingReader:
    """Reads pages under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(
        self,
        question: ListingQuestion,
        *,
        namespaces: frozenset[str] | None,
        limit: int,
        after: Place | None = None,
        offset: int = 0,
    ) -> tuple[list[StoredManifest], int]:
        """A page of what follows a place, by name, namespace and version id; and how many there are in all.

        Raises:
            Unavailable: the database does not answer.
        """
        arguments = StatementArguments()
        allowed = AllowedVersions(question.constraints, arguments)
        where = " and ".join(
            [
                of_status(question, allowed, arguments),
                *with_words(question, arguments),
                *narrowing(question, arguments).values(),
            ]
        )
        follows = "true"
        if after is not None:
            place = ", ".join(arguments.add(part, "text") for part in after)
            follows = f"(name, namespace, version_id) > ({place})"
        page = f"limit {arguments.add(limit, 'integer')} offset {arguments.add(offset, 'integer')}"

        async def read(connection: Connection) -> tuple[list[StoredManifest], int]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                with listed as materialized (
                    select version_id, name, namespace from workflow_version as version where {where}
                ), page as (
                    select version_id from listed where {follows}
                    order by name, namespace, version_id {page}
                )
                select (select count(*) from listed) as total, {manifest_columns("version", allowed=allowed)}
                from (select) as always left join page on true left join workflow_version as version using (version_id)
                order by version.name, version.namespace, version.version_id
                """,
                *arguments.values,
            )
            return [stored_manifest(row) for row in rows if row["version_id"] is not None], rows[0]["total"]

        return await self._database.read(read)


def of_status(question: ListingQuestion, allowed: AllowedVersions, arguments: StatementArguments) -> str:
    """The condition on rows of `workflow_version as version` of the status that is asked for."""
    if question.status not in (ACTIVE, PENDING):
        return f"status = {arguments.add(question.status, 'text')} and {not_served_shown(question, arguments)}"
    # An action narrows to few: then each is looked up.
    served = allowed.looked_up("version") if question.action_type else allowed.condition("version")
    return f"{served} and {_SEARCHED.format('emb is null')}" if question.status == PENDING else served


def not_served_shown(question: ListingQuestion, arguments: StatementArguments) -> str:
    """The condition on rows of `workflow_version as version` that are not served: which the caller may know of."""
    return not_suspended(arguments, rows="version", but_in=question.suspended_in)


def with_words(question: ListingQuestion, arguments: StatementArguments) -> list[str]:
    """The conditions that the words make: each is in a name, a title, an action or a signal."""
    parts = [arguments.add(word, "text") for word in question.words]
    columns = ("name", "title_key", "action_key")
    # The signals that fit come from an index alone, which takes a fraction of what reading all rows would.
    signals = "select distinct signal_type from workflow_search where strpos(signal_type, {}) > 0"
    return [
        f"({' or '.join(f'strpos({column}, {part}) > 0' for column in columns)} or version_id in "
        f"(select version_id from workflow_search where signal_type = any (array({signals.format(part)}))))"
        for part in parts
    ]


def narrowing(question: ListingQuestion, arguments: StatementArguments) -> dict[str, str]:
    """What else is asked for, by the name of the field that asks."""
    found = {}
    if question.signal_type:
        asked = arguments.add([question.signal_type, WILDCARD], "text[]")
        found["signal_type"] = _SEARCHED.format(f"signal_types && {asked}")
    if question.action_type:
        found["action_type"] = f"action_key = lower({arguments.add(question.action_type, 'text')})"
    if question.namespace:
        found["namespace"] = f"namespace = {arguments.add(question.namespace, 'text')}"
    if question.risk_level:
        found["risk_level"] = f"{RISK} = {arguments.add(question.risk_level, 'text')}"
    return found
