"""From the body of a webhook to the alerts in it, as its sender wrote them (DESIGN section 15).

`domain/alerts/reading` makes of each what a source says it is about. Nothing in here is trusted: sizes are bounded, and
what has another form than the sender's documentation says is refused.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.alerts.json_path import parse_path, values_at
from formulary_catalog.domain.alerts.source import SourceSpec, ValueSource
from formulary_catalog.errors import InvalidInput

MAX_ALERTS = 1000
_MAX_MEMBERS = 100
"""Labels, and annotations, of one alert."""
_MAX_KEY = 256
_MAX_VALUE = 4000
_OVER = frozenset({"resolved", "ok", "closed", "recovered", "inactive"})
_PAGERDUTY_FIRING = frozenset({"incident.triggered", "incident.reopened"})
_PAGERDUTY_OVER = frozenset({"incident.resolved"})
_PAGERDUTY_SHOWN = ("title", "urgency", "html_url", "incident_key")
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAlert:
    """One alert of a body. `document` is what paths lead into; `problem` says why it cannot be read."""

    fingerprint: str
    firing: bool
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    document: Any = field(default=None, repr=False)
    problem: str = ""


def raw_alerts(spec: SourceSpec, body: Mapping[str, Any]) -> list[RawAlert]:
    """The alerts of a body; none where it is about something else, such as an acknowledgement.

    Raises:
        InvalidInput: it is no body of this type of source.
    """
    if spec.type == "alertmanager":
        return [_of_alertmanager(each) for each in _list(body.get("alerts"), field="alerts")]
    if spec.type == "pagerduty":
        return _of_pagerduty(body)
    found = values_at(parse_path(spec.alerts), body) if spec.alerts else [body]
    return [_of_webhook(spec, each) for each in _list(found, field="alerts")]


def value_of(source: ValueSource | None, alert: RawAlert) -> str:
    """The value that an alert has there; empty for none."""
    if source is None:
        return ""
    if source.value is not None:
        return source.value
    if source.label is not None:
        return alert.labels.get(source.label, "").strip()
    found = next(iter(values_at(parse_path(source.path or "$"), alert.document)), None)
    return _plain(found).strip()


def digest_of(*parts: str) -> str:
    """A fingerprint made of what is the same in all messages about one alert."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def _of_alertmanager(alert: Mapping[str, Any]) -> RawAlert:
    labels, annotations = alert.get("labels"), _cut(alert.get("annotations") or _NOTHING)
    fingerprint, status = alert.get("fingerprint"), alert.get("status")
    problem = _problem(labels, name="labels") or _problem(annotations, name="annotations")
    if not problem and status not in ("firing", "resolved"):
        problem = "status is neither firing nor resolved"
    if problem or not isinstance(labels, Mapping) or not isinstance(annotations, Mapping):
        return RawAlert(fingerprint=_plain(fingerprint), firing=False, problem=problem)
    made = digest_of(*(f"{name}\0{value}" for name, value in sorted(labels.items())))
    return RawAlert(
        fingerprint=_plain(fingerprint) or made,
        firing=status == "firing",
        starts_at=moment_in(alert.get("startsAt")),
        ends_at=moment_in(alert.get("endsAt")),
        labels=dict(labels),
        annotations=dict(annotations),
    )


def _of_pagerduty(body: Mapping[str, Any]) -> list[RawAlert]:
    event = body.get("event")
    data = event.get("data") if isinstance(event, Mapping) else None
    if not isinstance(event, Mapping) or not isinstance(data, Mapping):
        raise InvalidInput("event.data is missing; send webhooks of PagerDuty version 3", field="event")
    kind = event.get("event_type")
    if not isinstance(kind, str) or kind not in _PAGERDUTY_FIRING | _PAGERDUTY_OVER:
        return []
    if not isinstance(data.get("id"), str) or not data["id"]:
        raise InvalidInput("event.data.id is missing; send webhooks of PagerDuty version 3", field="event")
    shown = {name: value for name in _PAGERDUTY_SHOWN if isinstance(value := data.get(name), str)}
    return [
        RawAlert(
            fingerprint=data["id"],
            firing=kind in _PAGERDUTY_FIRING,
            starts_at=moment_in(event.get("occurred_at")),  # so that the end of an earlier episode is late
            ends_at=moment_in(event.get("occurred_at")),
            annotations=_cut(shown),
            document=body,
        )
    ]


def _of_webhook(spec: SourceSpec, alert: Mapping[str, Any]) -> RawAlert:
    raw = RawAlert(fingerprint="", firing=True, document=alert)
    status = value_of(spec.status, raw).casefold()
    return RawAlert(fingerprint=value_of(spec.fingerprint, raw), firing=status not in _OVER, document=alert)


def _list(value: Any, *, field: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise InvalidInput(f"{field} is not a list of objects; send the body of a webhook of this type", field=field)
    if len(value) > MAX_ALERTS:
        raise InvalidInput(f"{field} has {len(value)} items; send at most {MAX_ALERTS} at once", field=field)
    return value


def _cut(annotations: Any) -> Any:
    """Annotations as far as they are kept. They map nothing, so that a long one costs nobody the incident."""
    if not isinstance(annotations, Mapping):
        return annotations
    kept = [(key, value) for key, value in annotations.items() if len(key) <= _MAX_KEY][:_MAX_MEMBERS]
    return {key: value[:_MAX_VALUE] if isinstance(value, str) else value for key, value in kept}


def _problem(members: Any, *, name: str) -> str:
    """What is wrong with the labels or annotations of an alert; nothing of them is repeated."""
    if not isinstance(members, Mapping) or not all(isinstance(each, str) for each in members.values()):
        return f"{name} is not a map of texts"
    if len(members) > _MAX_MEMBERS:
        return f"it has {len(members)} {name}; at most {_MAX_MEMBERS} are read"
    if any(len(key) > _MAX_KEY or len(value) > _MAX_VALUE for key, value in members.items()):
        return f"one of its {name} has a key over {_MAX_KEY} or a value over {_MAX_VALUE} characters"
    return ""


def moment_in(value: Any) -> datetime | None:
    """The time that a text of RFC 3339 gives; None for another one, and for one before 1970, which stands for none."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        found = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if found.year >= 1970 else None


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:_MAX_VALUE] if isinstance(value, str | int | float) else ""
