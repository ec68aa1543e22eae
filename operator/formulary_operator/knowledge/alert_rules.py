"""Keeps the alerts of PrometheusRule objects in step with the cluster, so that they can be compared with the catalog.

`knowledge/documents` runs it. It lists instead of watching: rules change rarely, and a kind that is not there could not
be watched. Only one object is held at a time, and only if it changed. Expressions are not kept. Where there are more
alerts than may be kept, namespaces share the room (`domain/coverage/alerts`).
"""

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

import structlog

from formulary_catalog.domain.coverage.alerts import MAX_ALERTS, Alert, alerts_of, by_namespace, distinct, shared_room
from formulary_catalog.domain.text import storable
from formulary_catalog.store.alert_rules import AlertRuleWriter, RuleObject
from formulary_operator.api.names import PROMETHEUS_RULES, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused

EVERYWHERE = ("",)
"""All namespaces, as one list."""
MAX_BYTES = 1024**2
"""Of the rules of an object, as JSON."""
_log = structlog.get_logger(__name__)


class _Read(NamedTuple):
    """An object as it was read last: its resource version, how many alerts it has, how many of them are kept."""

    version: str
    size: int
    kept: int


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
        self._crowded: dict[str, tuple[int, int]] = {}
        """The namespaces of which alerts are left out: how many there are, and how many are kept."""

    async def compare(self) -> None:
        """Bring the alerts in step with what is there now; those of objects that are gone go.

        Raises:
            Unavailable: the API server or the database does not answer; what was done stays.
        """
        seen: set[RuleObject] = set()
        unknown: set[str] = set()
        for namespace in self._namespaces:
            try:
                await self._compare_namespace(namespace, seen=seen)
            except KubernetesRefused as error:
                if error.status != 404:  # absence must be seen, not guessed
                    unknown.add(namespace)
                self._note(namespace, error)
            else:
                self._problems.pop(namespace, None)
        for rule in (await self._writer.objects() | self._read.keys()) - seen:
            if not unknown & {rule.namespace, *EVERYWHERE}:
                await self._forget(rule)
        await self._share_room(seen)

    async def _compare_namespace(self, namespace: str, *, seen: set[RuleObject]) -> None:
        """Read what changed in a namespace, and keep of it what there is room for. `seen` takes the objects there."""
        async for page in self._client.metadata_pages(PROMETHEUS_RULES.path(namespace=namespace), labels={}):
            for each in page:
                metadata = each["metadata"]
                rule = RuleObject(metadata["namespace"], metadata["name"])
                known = self._read.get(rule)
                if known is None or known.version != metadata["resourceVersion"]:
                    own = known.kept if known is not None else 0
                    known = await self._read_again(rule, at_most=own + self._room())
                if known is not None:
                    seen.add(rule)

    def _room(self) -> int:
        """For how many more alerts there is room."""
        return max(0, self._max_alerts - sum(each.kept for each in self._read.values()))

    async def _share_room(self, rules: Collection[RuleObject]) -> None:
        """Keep of each namespace what is its share; which that is, is known once all objects were read."""
        sizes = {rule: self._read[rule].size for rule in rules}
        kept = shared_room(sizes, room=self._room() + sum(self._read[rule].kept for rule in rules))
        # Those first that give room to others.
        for rule in sorted(rules, key=lambda rule: kept[rule] - self._read[rule].kept):
            if kept[rule] != self._read[rule].kept:
                await self._read_again(rule, at_most=kept[rule])
        self._say_what_is_left_out(sizes, kept=kept)

    async def _read_again(self, rule: RuleObject, *, at_most: int) -> _Read | None:
        """Read an object and write its first alerts; None if it has gone meanwhile."""
        document = await self._client.listed(PROMETHEUS_RULES.path(namespace=rule.namespace), name=rule.name)
        if document is None:
            return None
        alerts = _alerts(rule, document)
        kept = alerts[:at_most]
        await self._writer.replace(rule, kept)
        self._read[rule] = _Read(document["metadata"]["resourceVersion"], len(alerts), len(kept))
        return self._read[rule]

    async def _forget(self, rule: RuleObject) -> None:
        await self._writer.replace(rule, [])
        self._read.pop(rule, None)
        _log.info("alert_rules_removed", object=str(rule))

    def _say_what_is_left_out(self, sizes: Mapping[RuleObject, int], *, kept: Mapping[RuleObject, int]) -> None:
        """Log it for each namespace in which it is another number than before."""
        alerts, stored = by_namespace(sizes), by_namespace(kept)
        crowded = {name: (alerts[name], stored[name]) for name in sorted(alerts) if stored[name] < alerts[name]}
        for namespace, (there, here) in crowded.items():
            if self._crowded.get(namespace) != (there, here):
                _log.warning(
                    "alert_rules_too_many", namespace=namespace, alerts=there, kept=here, limit=self._max_alerts
                )
        self._crowded = crowded

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
