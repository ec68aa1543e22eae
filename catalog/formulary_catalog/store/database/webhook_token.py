"""The token by which the API server proves itself to the admission webhook: the same for all replicas."""

import secrets

from formulary_catalog.store.database.connection import Database

_BYTES = 32
_SELECT = "select token from webhook_token"
_INSERT = "insert into webhook_token (token) values ($1) on conflict do nothing"


async def webhook_token(database: Database) -> str:
    """The token of this database, 256 bits in hex; made by the replica that comes first.

    Raises:
        Unavailable: the database does not answer.
    """
    rows = await database.fetch(_SELECT)
    if not rows:
        await database.execute(_INSERT, secrets.token_hex(_BYTES))
        rows = await database.fetch(_SELECT)
    return str(rows[0]["token"])
