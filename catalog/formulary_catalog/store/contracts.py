"""The rules in force, as GovernanceContract objects state them."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.governance.contract import contract
from formulary_catalog.store.database import Connection, Database


class ContractWriter:
    """Keeps the stored contracts in step with their objects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, spec: Mapping[str, Any], *, namespace: str, name: str, uid: str) -> None:
        """Put the rules of one object in force, in place of those it had.

        Raises:
            InvalidInput: they are no rules; those it had stay in force.
            Unavailable: the database does not answer.
        """
        contract(spec, name=name, namespace=namespace)
        await self._database.execute(
            """
            insert into governance_contract (namespace, name, uid, spec) values ($1, $2, $3, $4)
            on conflict (namespace, name) do update
            set uid = excluded.uid, spec = excluded.spec, changed_at = now()
            where (governance_contract.uid, governance_contract.spec) <> (excluded.uid, excluded.spec)
            """,
            namespace,
            name,
            uid,
            dict(spec),
        )

    async def remove(self, *, namespace: str, name: str, unless_owned_by: str = "") -> None:
        """End the rules of an object that is gone; `unless_owned_by` spares those of the object with this uid."""
        await self._database.execute(
            "delete from governance_contract where namespace = $1 and name = $2 and ($3 = '' or uid <> $3)",
            namespace,
            name,
            unless_owned_by,
        )

    async def stored(self) -> dict[tuple[str, str], str]:
        """The uids of the objects whose rules are in force, by (namespace, name)."""

        async def read(connection: Connection) -> dict[tuple[str, str], str]:
            rows = await connection.fetch("select namespace, name, uid from governance_contract")
            return {(row["namespace"], row["name"]): row["uid"] for row in rows}

        return await self._database.read(read)
