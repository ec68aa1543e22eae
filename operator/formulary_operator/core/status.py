"""From a finding to the status of the object, and what of it is worth a write or an Event."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from formulary_operator.core.finding import Finding, Reason

Json = dict[str, Any]

_UPSTREAMS = ("workflowId", "contentHash", "catalogStatus")
_CONDITIONS = ("Ready", "Indexed")
_OURS = ("versionId", "embeddingModel", "observedGeneration")
_IDS = ("versionId", "contentHash", "embeddingModel", "indexedAt")
_SETTLED = frozenset(Reason) - {Reason.CATALOG_UNAVAILABLE}
_MAX_MESSAGE = 32_768  # the limit of metav1.Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change that people should see as an Event."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def wanted_status(document: Mapping[str, Any], finding: Finding, *, now: str) -> Json:
    """The whole status that the object should have, conditions of others included. `now` is an RFC 3339 time.

    The ids name what the catalog holds for the object, also while its newest content is refused.
    """
    metadata, current = document["metadata"], _status(document)
    generation = metadata.get("generation", 0)
    status: Json = {
        "workflowId": metadata["name"],
        "catalogStatus": finding.reason.catalog_status,
        "observedGeneration": generation,
        "conditions": [
            _condition(
                "Ready",
                met=finding.reason is Reason.SERVED,
                reason=finding.reason,
                message=finding.message,
                document=document,
                now=now,
            ),
            _indexed(finding, document=document, now=now),
            *_others(current),
        ],
    }
    if not finding.version_id:
        # In a merge patch null removes a field.
        return status | {key: current.get(key) if finding.ids_unknown else None for key in _IDS}
    status |= {
        "versionId": finding.version_id,
        "contentHash": finding.content_hash,
        "embeddingModel": finding.model_id or None,
    }
    unchanged = all(current.get(key) == status[key] for key in ("versionId", "embeddingModel"))
    status["indexedAt"] = current["indexedAt"] if unchanged and current.get("indexedAt") else now
    return status


def differs(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the status has to be written. Upstream's CRD drops our own fields, which is no difference."""
    current = _status(document)
    return (
        any(current.get(key) != wanted.get(key) for key in _UPSTREAMS)
        or any(_find(_conditions(current), type_) != _find(wanted["conditions"], type_) for type_ in _CONDITIONS)
        or any(key in current and current[key] != wanted.get(key) for key in _OURS)
    )


def transition(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> Transition | None:
    """The Event that this change deserves: another standing, or another version served."""
    before, after = _find(_conditions(_status(document)), "Ready"), _find(wanted["conditions"], "Ready")
    same_standing = (before.get("status"), before.get("reason")) == (after["status"], after["reason"])
    if same_standing and _status(document).get("contentHash") == wanted.get("contentHash"):
        return None
    return Transition(
        type="Warning" if Reason(after["reason"]).is_problem else "Normal",
        reason=after["reason"],
        message=after["message"],
    )


def standing(document: Mapping[str, Any]) -> str:
    """The reason of the condition Ready, if it speaks of this generation; else empty."""
    ready = _find(_conditions(_status(document)), "Ready")
    current = ready.get("observedGeneration") == document["metadata"].get("generation")
    return str(ready.get("reason", "")) if current else ""


def is_observed(document: Mapping[str, Any]) -> bool:
    """Whether we have already said how this generation stands, so that an event about the object is our own echo."""
    return "deletionTimestamp" not in document["metadata"] and standing(document) in _SETTLED


def _indexed(finding: Finding, *, document: Mapping[str, Any], now: str) -> Json:
    embedded = finding.reason is Reason.SERVED and bool(finding.model_id)
    if embedded:
        reason, message = "Embedded", f"found by meaning and by words; vectors of {finding.model_id}"
    elif finding.reason is Reason.SERVED:
        reason = "EmbedderUnavailable"
        message = f"found by words alone: {finding.not_embedded} This is retried automatically."
    else:
        reason, message = "NotServed", "this content is not served, so it is not indexed"
    return _condition("Indexed", met=embedded, reason=reason, message=message, document=document, now=now)


def _condition(type_: str, *, met: bool, reason: str, message: str, document: Mapping[str, Any], now: str) -> Json:
    status = "True" if met else "False"
    before = _find(_conditions(_status(document)), type_)
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": type_,
        "status": status,
        "reason": str(reason),
        "message": message[:_MAX_MESSAGE],
        "observedGeneration": document["metadata"].get("generation", 0),
        "lastTransitionTime": since or now,
    }


def _status(document: Mapping[str, Any]) -> Mapping[str, Any]:
    status = document.get("status")
    return status if isinstance(status, Mapping) else {}


def _conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(status.get("conditions") or ())


def _others(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Conditions that somebody else writes: a merge patch replaces the list whole."""
    return [condition for condition in _conditions(status) if condition.get("type") not in _CONDITIONS]


def _find(conditions: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any]:
    return next((condition for condition in conditions if condition.get("type") == type_), {})
