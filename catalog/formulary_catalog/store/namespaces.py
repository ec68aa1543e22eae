"""The namespaces that the catalog knows of: in each of them the rights of a caller can be asked for."""

from formulary_catalog.store.database.connection import Database


class NamespaceReader:
    """Names them to the server alone: which exist is nobody's to read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, *, at_most: int) -> list[str]:
        """The namespaces of workflows, incidents, traces, runs and contracts, in name order.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch("select formulary.known_namespaces($1) as namespace", at_most)
        return [row["namespace"] for row in rows]

    async def knows(self, namespace: str) -> bool:
        """Whether a namespace is among the known ones.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch(
            "select from formulary.known_namespaces(null) as known (namespace) where namespace = $1", namespace
        )
        return bool(rows)

    async def of_workflows(self, *, at_most: int) -> list[str]:
        """The namespaces that have or had workflows, in name order.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch("select formulary.namespaces_with_workflows($1) as namespace", at_most)
        return [row["namespace"] for row in rows]

    async def with_rules(self, *, at_most: int) -> list[str]:
        """The namespaces of the alerting rules that are known, in name order.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch("select formulary.namespaces_with_rules($1) as namespace", at_most)
        return [row["namespace"] for row in rows]
