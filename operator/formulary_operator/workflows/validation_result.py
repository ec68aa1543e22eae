"""What looking at a RemediationWorkflow found, in the words that its conditions use (DESIGN section 3)."""

from dataclasses import dataclass
from enum import StrEnum

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.domain.workflows.invocable import not_invocable_because
from formulary_catalog.errors import EmbedderUnavailable, FormularyError, InvalidManifest, VersionImmutable


class Reason(StrEnum):
    """Why the condition Ready is what it is."""

    SERVED = "Served"
    SUSPENDED = "Suspended"
    INVALID = "Invalid"
    VERSION_IMMUTABLE = "VersionImmutable"
    CATALOG_UNAVAILABLE = "CatalogUnavailable"

    @property
    def is_problem(self) -> bool:
        return self not in (Reason.SERVED, Reason.SUSPENDED)

    @property
    def catalog_status(self) -> str:
        return _CATALOG_STATUS[self]


_CATALOG_STATUS = {
    Reason.SERVED: "Active",
    Reason.SUSPENDED: "Disabled",
    Reason.INVALID: "Invalid",
    Reason.VERSION_IMMUTABLE: "Invalid",
    Reason.CATALOG_UNAVAILABLE: "Pending",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one object stands.

    `version_id`, `content_hash` and `model_id` are those of what the catalog holds for the object, which may be an
    earlier content; empty where it holds none, or has no vector. `ids_unknown`: it could not be asked.
    `not_invocable` says why what is served can be read and not run; empty if it can be run.
    """

    reason: Reason
    message: str
    version_id: str = ""
    content_hash: str = ""
    model_id: str = ""
    not_embedded: str = ""
    not_invocable: str = ""
    ids_unknown: bool = False


def stored(entry: CatalogEntry, *, model_id: str, problem: EmbedderUnavailable | None) -> Finding:
    """The catalog took the object; `model_id` is that of its vector, `problem` says why there is none."""
    suspended = entry.workflow.spec.suspend
    return Finding(
        reason=Reason.SUSPENDED if suspended else Reason.SERVED,
        message=(
            f"version {entry.version} is kept and not served, because spec.suspend is true; set it to false to serve it"
            if suspended
            else f"version {entry.version} is served as {entry.version_id}"
        ),
        version_id=entry.version_id,
        content_hash=entry.content_hash,
        model_id="" if suspended else model_id,
        not_embedded=str(problem) if problem is not None and not suspended else "",
        not_invocable=not_invocable_because(entry.workflow.spec),
    )


def refused(error: InvalidManifest, *, current: StoredWorkflow | None) -> Finding:
    """The catalog cannot take the object; `current` is what it holds for it from before."""
    reason = Reason.VERSION_IMMUTABLE if isinstance(error, VersionImmutable) else Reason.INVALID
    if current is None:
        return Finding(reason=reason, message=error.detail)
    fate = "stays served" if current.status == "Active" else "stays suspended"
    return Finding(
        reason=reason,
        message=f"{error.detail}; version {current.version} {fate}",
        version_id=current.version_id,
        content_hash=current.content_hash,
        model_id=current.model_id,
    )


def postponed(error: FormularyError) -> Finding:
    """The catalog could not be asked; whatever it served before, it still does."""
    return Finding(
        reason=Reason.CATALOG_UNAVAILABLE, message=f"{error}; this is retried automatically", ids_unknown=True
    )
