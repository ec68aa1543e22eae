"""The rules in force, as GovernanceContract objects state them.

The operator's `ContractReconciler` keeps them in step with the cluster, `loading.contracts` with files. A contract with
a HALT rule begins its halt in the same transaction, so that no run starts between the two.
"""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.governance.contract import Contract, contract
from formulary_catalog.domain.governance.halting import Halt, halt_reason
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.halting import begin_halt, halts_of, lift_halt


class ContractWriter:
    """Keeps the stored contracts, and the halts that they say, in step with their objects."""

    def __init__(self, database: Database, *, shared_namespace: str) -> None:
        self._database = database
        self._shared_namespace = shared_namespace

    async def save(self, spec: Mapping[str, Any], *, namespace: str, name: str, uid: str, by: str = "") -> Halt | None:
        """Put the rules of one object in force, in place of those it had. `by` wrote them, if that is known.

        The halt that they say, if they say one.

        Raises:
            InvalidInput: they are no rules; those it had stay in force.
            Unavailable: the database does not answer.
        """
        read = contract(spec, name=name, namespace=namespace)

        async def write(connection: Connection) -> Halt | None:
            # The halt first: it takes its lock before any other.
            halt = await self._halt(connection, read, by=by or f"contract {read}")
            await connection.execute(
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
            return halt

        return await self._database.write(write)

    async def remove(self, *, namespace: str, name: str, unless_owned_by: str = "") -> None:
        """End the rules of an object that is gone; `unless_owned_by` spares those of the object with this uid."""

        async def write(connection: Connection) -> None:
            gone = await connection.fetchval(
                "delete from governance_contract where namespace = $1 and name = $2 and ($3 = '' or uid <> $3) "
                "returning true",
                namespace,
                name,
                unless_owned_by,
            )
            if gone:
                await self._lift(connection, f"{namespace}/{name}", namespace=namespace, why="the contract is gone")

        await self._database.write(write)

    async def in_force(self) -> list[Contract]:
        """The contracts whose rules are in force.

        Raises:
            InvalidInput: a newer release wrote one, and this one does not know its rules.
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[Contract]:
            rows = await connection.fetch("select namespace, name, spec from governance_contract order by 1, 2")
            return [contract(row["spec"], name=row["name"], namespace=row["namespace"]) for row in rows]

        return await self._database.read(read)

    async def stored(self) -> dict[tuple[str, str], str]:
        """The uids of the objects whose rules are in force, by (namespace, name)."""

        async def read(connection: Connection) -> dict[tuple[str, str], str]:
            rows = await connection.fetch("select namespace, name, uid from governance_contract")
            return {(row["namespace"], row["name"]): row["uid"] for row in rows}

        return await self._database.read(read)

    async def _halt(self, connection: Connection, contract: Contract, *, by: str) -> Halt | None:
        """Begin or lift the halt that a contract says or says no more; the one in force."""
        namespace, reason = self._halted(contract.namespace), halt_reason(contract)
        if not reason:
            await self._lift(
                connection, str(contract), namespace=contract.namespace, why="it has no HALT rule any more", by=by
            )
            return None
        for halt in await halts_of(connection, contract.namespace):
            if (halt.namespace, halt.contract, halt.reason) == (namespace, str(contract), reason):
                return halt
        halt, _ = await begin_halt(connection, namespace, contract=str(contract), reason=reason, by=by)
        return halt

    async def _lift(self, connection: Connection, contract: str, *, namespace: str, why: str, by: str = "") -> None:
        by = by or f"contract {contract}"
        await lift_halt(connection, self._halted(namespace), contract=contract, reason=why, by=by)

    def _halted(self, namespace: str) -> str:
        """What a contract halts: its namespace, or everything where that is the shared one."""
        return "" if namespace == self._shared_namespace else namespace
