"""Sessions of the console that people ended, for all replicas of a server: noted by one, refused by every one.

`edges/console/sessions` asks here with each request that brings a session, so a sign-out counts at once. Rows that are
over go with the next sign-out, in the same function of the database.
"""

import hashlib

from formulary_catalog.store.database.connection import Database


class EndedSessions:
    """Sessions by their ids, of which digests are kept.

    Operations raise `Unavailable` if the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, session_id: str, *, kept_seconds: int) -> None:
        """Note that a session has ended; forgotten after that time, when nobody would take it anyway."""
        await self._database.execute("select formulary.end_session($1, $2)", _digest(session_id), kept_seconds)

    async def has(self, session_id: str) -> bool:
        """Whether the session was ended."""
        rows = await self._database.fetch("select from ended_session where digest = $1", _digest(session_id))
        return bool(rows)


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()
