"""What sweeps refused to remove: kept so that people see it, and can allow it once."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg

from formulary_catalog.domain.stored import Missing
from formulary_catalog.errors import NotFound
from formulary_catalog.store.database.connection import Connection, Database

_COLUMNS = "operator, id, served, missing, refused_at, allowed_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRefusal:
    """`missing` objects of `served` ones were not removed. `id` is what an allowance names."""

    operator: str
    id: str
    served: int
    missing: frozenset[Missing] = field(repr=False)
    refused_at: datetime
    allowed: bool

    def __str__(self) -> str:
        count = len(self.missing)
        return f"{count} of {self.served} served workflows are missing from the cluster since {self.refused_at:%F %R}"


class SweepRefusals:
    """Writes and reads the refusals, one for each operator, named by its Lease."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, operator: str) -> SweepRefusal | None:
        """What this operator refused last, if that is not settled.

        Raises:
            Unavailable: the database does not answer.
        """
        return next((refusal for refusal in await self.all() if refusal.operator == operator), None)

    async def all(self) -> list[SweepRefusal]:
        """The refusals of all operators.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[SweepRefusal]:
            rows = await connection.fetch(f"select {_COLUMNS} from sweep_refusal order by operator")
            return [_refusal(row) for row in rows]

        return await self._database.read(read)

    async def keep(self, operator: str, *, missing: Collection[Missing], served: int) -> SweepRefusal:
        """Note a refusal. Other objects than those refused before make another one, which nobody has allowed.

        Raises:
            Unavailable: the database does not answer.
        """
        listed = sorted(map(list, missing))

        async def write(connection: Connection) -> SweepRefusal:
            rows = await connection.fetch(
                f"""
                insert into sweep_refusal as known (operator, id, served, missing) values ($1, $2, $3, $4)
                on conflict (operator) do update
                set id = excluded.id, served = excluded.served, missing = excluded.missing, refused_at = now(),
                    allowed_at = null
                where known.missing <> excluded.missing
                returning {_COLUMNS}
                """,
                operator,
                f"sweep-{secrets.token_hex(4)}",
                served,
                listed,
            )
            unchanged = f"select {_COLUMNS} from sweep_refusal where operator = $1"
            return _refusal((rows or await connection.fetch(unchanged, operator))[0])

        return await self._database.write(write)

    async def end(self, operator: str) -> None:
        """Forget what this operator refused: nothing is missing any more, or it was removed.

        Raises:
            Unavailable: the database does not answer.
        """
        await self._database.execute("delete from sweep_refusal where operator = $1", operator)

    async def allow(self, id_: str) -> SweepRefusal:
        """Allow the refused removal once, of those very objects.

        Raises:
            NotFound: nothing is refused under this id.
            Unavailable: the database does not answer.
        """

        async def write(connection: Connection) -> SweepRefusal:
            row = await connection.fetchrow(
                f"update sweep_refusal set allowed_at = now() where id = $1 returning {_COLUMNS}", id_
            )
            if row is None:
                raise NotFound(
                    f"no refused sweep has the id {id_!r}; `formulary-operator sweep` shows what is refused now",
                    reference=id_,
                )
            return _refusal(row)

        return await self._database.write(write)


def _refusal(row: asyncpg.Record) -> SweepRefusal:
    return SweepRefusal(
        operator=row["operator"],
        id=row["id"],
        served=row["served"],
        missing=frozenset((namespace, name, uid) for namespace, name, uid in row["missing"]),
        refused_at=row["refused_at"],
        allowed=row["allowed_at"] is not None,
    )
