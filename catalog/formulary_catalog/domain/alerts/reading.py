"""From an alert to what it is about: its target, its name and severity, as its source maps them (DESIGN section 15).

`services/incidents` calls it for each body. An alert whose target is not named, or is in a namespace that the
source may not speak for, becomes nothing: nothing is guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from formulary_catalog.domain.alerts.payloads import RawAlert, digest_of, raw_alerts, value_of
from formulary_catalog.domain.alerts.source import (
    EVERYWHERE,
    SourceSpec,
    ValueSource,
    has_preset,
    kind_of_label,
    with_defaults,
)
from formulary_catalog.domain.targets.reference import TargetReference, target_reference
from formulary_catalog.domain.text import storable
from formulary_catalog.domain.visible import visible
from formulary_catalog.errors import InvalidInput

ID_PREFIX = "al-"
_FINGERPRINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_NAME = 253
_SHOWN = 60
_LEFT_OUT = "truncatedAlerts"
"""How many alerts Alertmanager and Grafana did not send, because their webhook has a limit."""
_MAP_IT = "have the sender add it, or map what it does send in"
_EXPORTERS = ("kube-state-metrics", "node-exporter")
"""Their own pod is in the labels of what they report, unless scraping drops it."""
_OBJECTS = ("deployment", "statefulset", "daemonset", "job_name", "persistentvolumeclaim")
_NODE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert with what it is about. `context` has what its source takes from it, by fields of a request context."""

    fingerprint: str
    firing: bool
    starts_at: datetime | None
    ends_at: datetime | None = None
    target: TargetReference
    signal_name: str
    severity: str
    context: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        """The remediation id of its incident."""
        return ID_PREFIX + self.fingerprint

    @property
    def namespace(self) -> str:
        """That of its target, which a Namespace is itself; empty for a target in none."""
        return self.target.name if self.target.kind == "Namespace" else self.target.namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmapped:
    """An alert that became nothing, and why."""

    fingerprint: str
    problem: str


class _Refused(Exception):
    """Says why an alert becomes nothing."""


def is_alert_id(remediation_id: str) -> bool:
    """Whether a remediation id has the form of an alert's."""
    return remediation_id.startswith(ID_PREFIX)


def read_alerts(spec: SourceSpec, body: Mapping[str, Any]) -> tuple[list[Alert], list[Unmapped]]:
    """The alerts of a body, and those that became nothing.

    Raises:
        InvalidInput: it is no body of this type of source.
    """
    mapped = with_defaults(spec)
    is_preset = has_preset(mapped)
    read: list[Alert] = []
    refused: list[Unmapped] = []
    for raw in raw_alerts(mapped, body):
        try:
            read.append(_alert(mapped, _about_objects(raw) if is_preset else raw))
        except (_Refused, InvalidInput) as error:
            shown = _text(raw.fingerprint[:_SHOWN]) or "an alert"
            refused.append(Unmapped(fingerprint=shown, problem=str(error)))
    if spec.type == "alertmanager" and isinstance(left_out := body.get(_LEFT_OUT), int) and left_out > 0:
        problem = f"the sender left out {left_out} alerts of the group; raise max_alerts of its webhook, or group less"
        refused.append(Unmapped(fingerprint=_LEFT_OUT, problem=problem))
    return read, refused


def _alert(spec: SourceSpec, raw: RawAlert) -> Alert:
    if raw.problem:
        raise _Refused(raw.problem)
    target = _target(spec, raw)
    _require_allowed(spec, target)
    signal_name, severity = (_text(value_of(source, raw)) for source in (spec.signal_name, spec.severity))
    if not signal_name:
        raise _Refused(f"it has no name: {_where(spec.signal_name)} is missing; {_MAP_IT} spec.signalName")
    made = digest_of(signal_name, str(target)) if spec.type == "webhook" else ""
    fingerprint = raw.fingerprint or made
    return Alert(
        fingerprint=fingerprint if _FINGERPRINT.fullmatch(fingerprint) else digest_of(fingerprint),
        firing=raw.firing,
        starts_at=raw.starts_at,
        ends_at=raw.ends_at,
        target=target,
        signal_name=signal_name,
        severity=severity,
        context={
            name: value for name, each in spec.context.dimensions.items() if (value := _text(value_of(each, raw)))
        },
        labels=_shown(raw.labels),
        annotations=_shown(raw.annotations),
    )


def _target(spec: SourceSpec, raw: RawAlert) -> TargetReference:
    """What an alert is about. Raises `_Refused` and `InvalidInput` where that is not named."""
    named, kind_source = spec.target, spec.target.kind
    namespace = value_of(named.namespace, raw)
    only = spec.namespaces[0] if len(spec.namespaces) == 1 and spec.namespaces[0] != EVERYWHERE else ""
    if named.namespace is None and spec.type == "pagerduty":
        namespace = only
    if kind_source is None:
        kind, name = "Namespace", namespace
    elif kind_source.first:
        label = next((each for each in kind_source.first if raw.labels.get(each, "").strip()), None)
        known = kind_of_label(label) if label is not None else None
        kind, name = (known.kind, raw.labels[label].strip()) if known and label else ("Namespace", namespace)
        namespace = namespace if known is None or known.namespaced else ""
    else:
        kind, name = value_of(kind_source, raw), value_of(named.name, raw)
    if not name:
        what = f"none of the labels {', '.join(kind_source.first)}" if kind_source and kind_source.first else "no name"
        raise _Refused(f"it names no target: {what}, and {_where(named.namespace)} is missing; {_MAP_IT} spec.target")
    target = target_reference(namespace=namespace, kind=kind, name=name)
    if target is None:
        raise _Refused(f"it names no target: {_where(named.namespace)} is missing; {_MAP_IT} spec.target")
    return target


def _require_allowed(spec: SourceSpec, target: TargetReference) -> None:
    namespace = target.name if target.kind == "Namespace" else target.namespace
    if EVERYWHERE in spec.namespaces or namespace in spec.namespaces:
        return
    where = f"in namespace {namespace}" if namespace else "in no namespace"
    raise _Refused(
        f"its target {str(target)[:_SHOWN]} is {where}, and spec.namespaces of the source names "
        f"{', '.join(spec.namespaces[:5])}; send it to a source that speaks for its target"
    )


def _about_objects(raw: RawAlert) -> RawAlert:
    """The alert without labels that name the exporter that reported it; a node's name may be its instance."""
    labels = dict(raw.labels)
    exporter = next((each for each in _EXPORTERS if each in (labels.get("job"), labels.get("container"))), "")
    if not exporter or exporter not in labels.get("pod", exporter):
        return raw
    is_of_exporter = "pod" in labels or exporter == "node-exporter"
    labels.pop("pod", None)
    instance = labels.get("instance", "")
    if exporter == "node-exporter" and "node" not in labels and _NODE.fullmatch(instance):
        labels["node"] = instance
    if is_of_exporter and not any(labels.get(each) for each in _OBJECTS):
        labels.pop("namespace", None)  # it may be that of the exporter
    return replace(raw, labels=labels)


def _where(source: ValueSource | None) -> str:
    if source is None:
        return "the namespace"
    return f"the label {source.label}" if source.label is not None else f"the value at {source.path}"


def _text(value: str) -> str:
    return visible(value[:_MAX_NAME]) if storable(value) else ""


def _shown(texts: Mapping[str, str]) -> dict[str, str]:
    return {visible(key): visible(value) for key, value in texts.items() if storable(key) and storable(value)}
