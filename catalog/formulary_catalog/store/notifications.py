"""The outbox: notices, kept in the transaction of what they report and handed to the sender until they are delivered.

Each change of a run calls `add_notices`, also in the server's role: a function of the database gives each receiver
that wants it one row, and none for what is no run. The operator's `notifying` announces the receivers and sends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import ValidationError

from formulary_catalog.domain.notifications.notices import Notice
from formulary_catalog.domain.notifications.receivers import Receiver
from formulary_catalog.store.database.connection import Connection, Database

LEASE_SECONDS = 60.0
"""A claimed notice is due again after that: the sender may be gone. Longer than an attempt takes."""
RETRY_HOURS = 25.0
"""So long a notice is tried again."""
_RETENTION_DAYS = 7
_DUE = "from notification where sender = $1 and receiver = $2 and done_at is null and due_at <= clock_timestamp()"
_FIRST_RETRY, _LONGEST_RETRY = 5.0, 300.0


class Delivery(StrEnum):
    """What became of a notice. `OVERTAKEN`: it asked for a decision that there is by now."""

    DELIVERED = "delivered"
    OVERTAKEN = "overtaken"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A notice that is due; None if this release does not know its kind.

    `at` is when it first was due, `attempts` counts this one; `late`: there is no next one.
    """

    id: str
    notice: Notice | None
    at: datetime
    attempts: int
    overtaken: bool
    late: bool


async def add_notices(connection: Connection, notices: Iterable[Notice]) -> None:
    """Keep notices for all receivers that want them, once each; they stay if, and only if, the transaction does."""
    for notice in notices:
        await connection.execute(
            "select formulary.add_notice($1, $2, $3, $4, $5)",
            notice.id,
            notice.event,
            notice.subject,
            notice.due_at,
            notice.model_dump(mode="json", exclude_defaults=True),
        )


class Outbox:
    """The notices of one sender, as the writer's role. All methods raise `Unavailable` if the database is not there."""

    def __init__(self, database: Database, *, sender: str) -> None:
        self._database = database
        self._sender = sender

    async def announce(self, receivers: Sequence[Receiver]) -> None:
        """Have notices kept for these receivers and no others of this sender, and forget old ones.

        To be repeated: for receivers that nobody has announced for days nothing is kept.
        """

        async def write(connection: Connection) -> None:
            await connection.execute(
                """
                delete from notification_receiver
                where sender = $1 and name <> all ($2::text[])
                   or seen_at < clock_timestamp() - make_interval(days => $3)
                """,
                self._sender,
                [receiver.name for receiver in receivers],
                _RETENTION_DAYS,
            )
            await connection.execute(
                "delete from notification where done_at < clock_timestamp() - make_interval(days => $1)",
                _RETENTION_DAYS,
            )
            for receiver in receivers:
                await connection.execute(
                    """
                    insert into notification_receiver (sender, name, events, namespaces) values ($1, $2, $3, $4)
                    on conflict (sender, name) do update
                    set events = excluded.events, namespaces = excluded.namespaces, seen_at = clock_timestamp()
                    """,
                    self._sender,
                    receiver.name,
                    list(receiver.events),
                    list(receiver.namespaces),
                )

        await self._database.write(write)

    async def claim(self, receiver: str) -> Claimed | None:
        """The notice that is due for the longest time, for `LEASE_SECONDS`; None if none is."""
        looked = await self._database.fetch(f"select {_DUE} limit 1", self._sender, receiver)
        if not looked:
            return None  # nothing is written while there is nothing to send

        async def write(connection: Connection) -> Claimed | None:
            row = await connection.fetchrow(
                f"""
                with due as (select id {_DUE} order by due_at, id limit 1 for update skip locked)
                update notification as claimed
                set attempts = attempts + 1, due_at = clock_timestamp() + make_interval(secs => $3)
                from due where sender = $1 and receiver = $2 and claimed.id = due.id
                returning claimed.id, notice, at, attempts,
                    event in ('waiting', 'reminder') and not awaits_decision(subject) as overtaken,
                    at < clock_timestamp() - make_interval(hours => $4) as late
                """,
                self._sender,
                receiver,
                LEASE_SECONDS,
                int(RETRY_HOURS),
            )
            return Claimed(**{**row, "notice": _notice(row["notice"])}) if row is not None else None

        return await self._database.write(write)

    async def settle(self, receiver: str, claimed: Claimed, delivery: Delivery) -> None:
        """Note what became of a notice; it is not claimed again."""
        await self._database.execute(
            "update notification set done_at = clock_timestamp(), result = $4 "
            "where sender = $1 and receiver = $2 and id = $3",
            self._sender,
            receiver,
            claimed.id,
            delivery,
        )

    async def postpone(self, receiver: str, claimed: Claimed) -> None:
        """Have a notice that was not delivered claimed again, later after each attempt."""
        await self._database.execute(
            "update notification set due_at = clock_timestamp() + make_interval(secs => $4) "
            "where sender = $1 and receiver = $2 and id = $3",
            self._sender,
            receiver,
            claimed.id,
            min(_FIRST_RETRY * 2.0 ** min(claimed.attempts - 1, 10), _LONGEST_RETRY),
        )


def _notice(stored: object) -> Notice | None:
    try:
        return Notice.model_validate(stored)
    except ValidationError:
        return None
