"""Keeps the alerts of PrometheusRule objects in step with the cluster, so that they can be compared with the catalog.

`knowledge/documents` runs it. It lists instead of watching: rules change rarely, and a kind that is not there could not
be watched. Only one object is held at a time, and only if it changed. Expressions are not kept.
"""

import json
from typing import NamedTuple

import structlog

from formulary_catalog.domain.coverage.alerts import MAX_ALERTS, Alert, alerts_of, distinct
from formulary_catalog.domain.text import storable
from formulary_catalog.store.alert_rules import AlertRuleWriter, RuleObject
from formulary_operator.api.names import PROMETHEUS_RULES
from formulary_operator.kube.client import Json, KubeClient, KubernetesRefused

EVERYWHERE = ("",)
"""All namespaces, as one list."""
MAX_BYTES = 1024**2
"""Of the rules of an object, as JSON."""
_log = structlog.get_logger(__name__)


class _Read(NamedTuple):
    """An object as it was read last: its resource version, how many alerts it has, whether there was room for them."""

    version: str
    size: int
    written: bool

    def stands(self, version: str, *, room: int) -> bool:
        """Whether reading it again would change nothing."""
        return self.version == version and self.written == (self.size <= room)


class AlertRules:
    """The alerts of the objects in some namespaces. Those of no other namespace are kept."""

    def __init__(
        self, *, namespaces: tuple[str, ...], client: KubeClient, writer: AlertRuleWriter, max_alerts: int = MAX_ALERTS
    ) -> None:
        self._namespaces = namespaces
        self._client = client
        self._writer = writer
        self._max_alerts = max_alerts
        self._read: dict[RuleObject, _Read] = {}
        self._problems: dict[str, int] = {}
        """The status with which a namespace was refused, as far as that was logged."""

    async def compare(self) -> None:
        """Bring the alerts in step with what is there now; those of objects that are gone go.

        Raises:
            Unavailable: the API server or the database does not answer; what was done stays.
        """
        seen: set[RuleObject] = set()
        unknown: set[str] = set()
        room = self._max_alerts
        for namespace in self._namespaces:
            try:
                room = await self._compare_namespace(namespace, seen=seen, room=room)
            except KubernetesRefused as error:
                if error.status != 404:  # absence must be seen, not guessed
                    unknown.add(namespace)
                self._note(namespace, error)
            else:
                self._problems.pop(namespace, None)
        for rule in (await self._writer.objects() | self._read.keys()) - seen:
            if not unknown & {rule.namespace, *EVERYWHERE}:
                await self._forget(rule)

    async def _compare_namespace(self, namespace: str, *, seen: set[RuleObject], room: int) -> int:
        """How many alerts there is room for after those of a namespace. `seen` takes the objects that are there."""
        async for page in self._client.metadata_pages(PROMETHEUS_RULES.path(namespace=namespace), labels={}):
            for each in page:
                metadata = each["metadata"]
                rule = RuleObject(metadata["namespace"], metadata["name"])
                known = self._read.get(rule)
                if known is None or not known.stands(metadata["resourceVersion"], room=room):
                    known = await self._read_again(rule, room=room)
                if known is not None:
                    seen.add(rule)
                    room -= known.size if known.written else 0
        return room

    async def _read_again(self, rule: RuleObject, *, room: int) -> _Read | None:
        """Read an object and write its alerts if there is room for them; None if it has gone meanwhile."""
        document = await self._client.listed(PROMETHEUS_RULES.path(namespace=rule.namespace), name=rule.name)
        if document is None:
            return None
        alerts = _alerts(rule, document)
        fits = len(alerts) <= room
        if not fits:
            _log.warning("alert_rules_too_many", object=str(rule), alerts=len(alerts), limit=self._max_alerts)
        await self._writer.replace(rule, alerts if fits else [])
        self._read[rule] = _Read(document["metadata"]["resourceVersion"], len(alerts), fits)
        return self._read[rule]

    async def _forget(self, rule: RuleObject) -> None:
        await self._writer.replace(rule, [])
        self._read.pop(rule, None)
        _log.info("alert_rules_removed", object=str(rule))

    def _note(self, namespace: str, error: KubernetesRefused) -> None:
        """Say once why nothing is listed."""
        if self._problems.get(namespace) != error.status:
            self._problems[namespace] = error.status
            _log.warning("alert_rules_not_listed", namespace=namespace or "all", reason=str(error))


def _alerts(rule: RuleObject, document: Json) -> list[Alert]:
    """The alerts of an object; none of one that is too large, or that no database can hold."""
    size = len(json.dumps(document.get("spec")))
    if size > MAX_BYTES:
        _log.warning("alert_rules_too_large", object=str(rule), size=size, limit=MAX_BYTES)
        return []
    alerts = distinct(alerts_of({**document, "kind": PROMETHEUS_RULES.kind}) or ())
    if not all(storable(f"{alert.query}{alert.ignored}") for alert in alerts):
        _log.warning("alert_rules_rejected", object=str(rule), reason="a text holds a NUL or an unpaired surrogate")
        return []
    return alerts
