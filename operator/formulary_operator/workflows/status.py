"""From a validation result to the status of the object: what is worth a write, and what an Event.

The reconciler of workflows calls it. Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from formulary_catalog.domain.stored import RefusedWorkflow
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.annotated import annotation_of, suspended_by_annotation
from formulary_operator.api.names import Json
from formulary_operator.kube.conditions import Said, conditions, conditions_of, find, status_of
from formulary_operator.workflows.validation_result import ConditionReason, ValidationResult

_IDS = ("versionId", "contentHash", "embeddingModel", "indexedAt")
_REFUSED = (ConditionReason.INVALID, ConditionReason.VERSION_IMMUTABLE)
_SETTLED = frozenset(ConditionReason) - {ConditionReason.CATALOG_UNAVAILABLE, ConditionReason.SUSPENDED}
"""A suspended one may be so by an annotation, which is of no generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change that people should see as an Event."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def wanted_status(document: Mapping[str, Any], finding: ValidationResult, *, now: str) -> Json:
    """The whole status that the object should have, conditions of others included. `now` is an RFC 3339 time.

    The ids name what the catalog holds for the object, also while its newest content is refused.
    """
    metadata, current = document["metadata"], status_of(document)
    generation = metadata.get("generation", 0)
    status: Json = {
        "workflowId": metadata["name"],
        "catalogStatus": finding.reason.catalog_status,
        "observedGeneration": generation,
        "conditions": conditions([_ready(finding), _indexed(finding), _invocable(finding)], document=document, now=now),
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


def differs(document: Mapping[str, Any], wanted: Mapping[str, Any], *, kept: Collection[str]) -> bool:
    """Whether the status has to be written. `kept` are the fields that the CRD has: it drops others, no difference."""
    current = status_of(document)
    comparable = {*kept, *current} & wanted.keys() - {"conditions"}
    if current.get("indexedAt"):
        comparable.discard("indexedAt")  # it changes with the ids, and always where the CRD drops one of them
    return any(current.get(field) != wanted[field] for field in comparable) or any(
        find(conditions_of(document), condition["type"]) != condition for condition in wanted["conditions"]
    )


def transition(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> Transition | None:
    """The Event that this change deserves: another standing, or another version served."""
    before, after = find(conditions_of(document), "Ready"), find(wanted["conditions"], "Ready")
    same_standing = (before.get("status"), before.get("reason")) == (after["status"], after["reason"])
    if same_standing and status_of(document).get("contentHash") == wanted.get("contentHash"):
        return None
    return Transition(
        type="Warning" if ConditionReason(after["reason"]).is_problem else "Normal",
        reason=after["reason"],
        message=after["message"],
    )


def standing(document: Mapping[str, Any]) -> str:
    """The reason of the condition Ready, if it speaks of this generation; else empty."""
    ready = find(conditions_of(document), "Ready")
    current = ready.get("observedGeneration") == document["metadata"].get("generation")
    return str(ready.get("reason", "")) if current else ""


def refusal_of(document: Mapping[str, Any]) -> RefusedWorkflow | None:
    """The refusal that the status of a RemediationWorkflow reports of this generation; None if it reports none."""
    reason = standing(document)
    if reason not in _REFUSED:
        return None
    metadata, spec = document["metadata"], document.get("spec")
    ready = find(conditions_of(document), "Ready")
    version = spec.get("version") if isinstance(spec, Mapping) else None
    return RefusedWorkflow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        version=visible(version)[:MAX_LABEL_LENGTH] if isinstance(version, str) else "",
        reason=reason,
        message=visible(ready["message"]),
        since=datetime.fromisoformat(ready["lastTransitionTime"]),
    )


def is_observed(document: Mapping[str, Any]) -> bool:
    """Whether we have already said how this generation stands, so that an event about the object is our own echo.

    An annotation may hold part of the content, and is of no generation.
    """
    annotated = annotation_of(document) is not None or suspended_by_annotation(document)
    spoken_of = "deletionTimestamp" not in document["metadata"] and not annotated
    return spoken_of and standing(document) in _SETTLED


def _ready(finding: ValidationResult) -> Said:
    return Said(
        type="Ready", met=finding.reason is ConditionReason.SERVED, reason=finding.reason, message=finding.message
    )


def _indexed(finding: ValidationResult) -> Said:
    embedded = finding.reason is ConditionReason.SERVED and bool(finding.model_id)
    if embedded:
        reason, message = "Embedded", f"found by meaning and by words; vectors of {finding.model_id}"
    elif finding.reason is ConditionReason.SERVED:
        reason = "EmbedderUnavailable"
        message = f"found by words alone: {finding.not_embedded} This is retried automatically."
    else:
        reason, message = "NotServed", "this content is not served, so it is not indexed"
    return Said(type="Indexed", met=embedded, reason=reason, message=message)


def _invocable(finding: ValidationResult) -> Said:
    if finding.reason is not ConditionReason.SERVED:
        reason, message = "NotServed", "this content is not served, so it is not run"
    elif finding.not_invocable:
        reason, message = "NotInvocable", f"agents can read it and not run it: {finding.not_invocable}"
    else:
        reason, message = "Invocable", "agents can have it run, as far as the rules allow"
    return Said(type="Invocable", met=reason == "Invocable", reason=reason, message=message)
