"""The result of looking at a RemediationWorkflow, in the words of its conditions (DESIGN section 3).

The reconciler and the webhook make it, `workflows/status` shows it. Each reason is one that a person can act on.
"""

from dataclasses import dataclass
from enum import StrEnum

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.domain.workflows.invocable import not_invocable_because
from formulary_catalog.errors import EmbedderUnavailable, FormularyError, InvalidManifest, VersionImmutable


class ConditionReason(StrEnum):
    """Why the condition Ready is what it is."""

    SERVED = "Served"
    SUSPENDED = "Suspended"
    INVALID = "Invalid"
    VERSION_IMMUTABLE = "VersionImmutable"
    CATALOG_UNAVAILABLE = "CatalogUnavailable"

    @property
    def is_problem(self) -> bool:
        return self not in (ConditionReason.SERVED, ConditionReason.SUSPENDED)

    @property
    def catalog_status(self) -> str:
        return _CATALOG_STATUS[self]


_CATALOG_STATUS = {
    ConditionReason.SERVED: "Active",
    ConditionReason.SUSPENDED: "Disabled",
    ConditionReason.INVALID: "Invalid",
    ConditionReason.VERSION_IMMUTABLE: "Invalid",
    ConditionReason.CATALOG_UNAVAILABLE: "Pending",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """How one object stands.

    `version_id`, `content_hash` and `model_id` are those of what the catalog holds for the object, which may be an
    earlier content; empty where it holds none, or has no vector. `ids_unknown`: it could not be asked.
    `not_invocable` says why what is served can be read and not run; empty if it can be run.
    """

    reason: ConditionReason
    message: str
    version_id: str = ""
    content_hash: str = ""
    model_id: str = ""
    not_embedded: str = ""
    not_invocable: str = ""
    ids_unknown: bool = False


def stored(entry: CatalogEntry, *, model_id: str, problem: EmbedderUnavailable | None) -> ValidationResult:
    """The catalog took the object; `model_id` is that of its vector, `problem` says why there is none."""
    suspended = entry.workflow.spec.suspend
    return ValidationResult(
        reason=ConditionReason.SUSPENDED if suspended else ConditionReason.SERVED,
        message=(
            f"version {entry.version} is kept and not served, because spec.suspend or the annotation "
            "formulary.dev/suspend is true; set it to false to serve it"
            if suspended
            else f"version {entry.version} is served as {entry.version_id}"
        ),
        version_id=entry.version_id,
        content_hash=entry.content_hash,
        model_id="" if suspended else model_id,
        not_embedded=str(problem) if problem is not None and not suspended else "",
        not_invocable=not_invocable_because(entry.workflow.spec),
    )


def refused(error: InvalidManifest, *, current: StoredWorkflow | None) -> ValidationResult:
    """The catalog cannot take the object; `current` is what it holds for it from before."""
    reason = ConditionReason.VERSION_IMMUTABLE if isinstance(error, VersionImmutable) else ConditionReason.INVALID
    if current is None:
        return ValidationResult(reason=reason, message=error.detail)
    fate = "stays served" if current.status == "Active" else "stays suspended"
    return ValidationResult(
        reason=reason,
        message=f"{error.detail}; version {current.version} {fate}",
        version_id=current.version_id,
        content_hash=current.content_hash,
        model_id=current.model_id,
    )


def postponed(error: FormularyError) -> ValidationResult:
    """The catalog could not be asked; whatever it served before, it still does."""
    return ValidationResult(
        reason=ConditionReason.CATALOG_UNAVAILABLE, message=f"{error}; this is retried automatically", ids_unknown=True
    )
