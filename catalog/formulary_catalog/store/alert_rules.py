"""Alerting rules of a cluster: written from PrometheusRule objects, read to be compared with the catalog.

The operator writes, `services/workflows/coverage` reads. Row-level security hides the rules of namespaces that are not
named.
"""

from collections.abc import Sequence
from typing import NamedTuple

from formulary_catalog.domain.coverage.alerts import Alert, distinct
from formulary_catalog.store.database.connection import Connection, Database


class RuleObject(NamedTuple):
    """A PrometheusRule object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class AlertRuleWriter:
    """Keeps the alerts of each object. Operations raise `Unavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace(self, rule: RuleObject, alerts: Sequence[Alert]) -> None:
        """Make these the alerts of an object; without any it is forgotten."""

        async def write(connection: Connection) -> None:
            await connection.execute(
                "delete from alert_rule where namespace = $1 and object = $2 and name <> all ($3::text[])",
                *rule,
                [alert.name for alert in alerts],
            )
            await connection.executemany(
                """
                insert into alert_rule (namespace, object, name, severity, summary, ignored)
                values ($1, $2, $3, $4, $5, $6)
                on conflict (namespace, object, name) do update
                set severity = excluded.severity, summary = excluded.summary, ignored = excluded.ignored
                where (alert_rule.severity, alert_rule.summary, alert_rule.ignored)
                      <> (excluded.severity, excluded.summary, excluded.ignored)
                """,
                [(*rule, alert.name, alert.severity, alert.summary, alert.ignored) for alert in alerts],
            )

        await self._database.write(write)

    async def objects(self) -> set[RuleObject]:
        """The objects of which alerts are stored."""
        rows = await self._database.fetch("select distinct namespace, object from alert_rule")
        return {RuleObject(row["namespace"], row["object"]) for row in rows}


class AlertRuleReader:
    """Reads them under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def alerts(self, *, namespaces: frozenset[str] | None) -> list[Alert]:
        """Each alert of these namespaces once, with the objects that define it, by name; None stands for all.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[Alert]:
            readable = "*" if namespaces is None else ",".join(sorted(namespaces))
            await connection.execute("select set_config('formulary.rules_read', $1, true)", readable)
            rows = await connection.fetch(
                "select name, severity, summary, ignored, namespace, object from alert_rule "
                "order by name, namespace, object"
            )
            return distinct(
                Alert(
                    name=row["name"],
                    severity=row["severity"],
                    summary=row["summary"],
                    ignored=row["ignored"],
                    sources=(str(RuleObject(row["namespace"], row["object"])),),
                )
                for row in rows
            )

        return await self._database.read(read)
