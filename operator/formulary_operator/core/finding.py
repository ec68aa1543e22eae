"""What looking at a RemediationWorkflow found, in the words that its conditions use (DESIGN section 3)."""

from dataclasses import dataclass
from enum import StrEnum

from formulary_catalog.domain.entry import CatalogEntry
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

    `model_id` is that of the vector in use; empty where there is none. `serves_earlier`: this content is not in the
    catalog, an earlier one of the object is.
    """

    reason: Reason
    message: str
    serves_earlier: bool = False
    version_id: str = ""
    content_hash: str = ""
    model_id: str = ""
    not_embedded: str = ""


def stored(entry: CatalogEntry, *, model_id: str, problem: EmbedderUnavailable | None) -> Finding:
    """The catalog took the object."""
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
    )


def refused(error: InvalidManifest, *, still_served: str) -> Finding:
    """The catalog cannot take the object; `still_served` is the version that it serves for it, if any."""
    immutable = isinstance(error, VersionImmutable)
    kept = f"; version {still_served} stays served" if still_served and not immutable else ""
    return Finding(
        reason=Reason.VERSION_IMMUTABLE if immutable else Reason.INVALID,
        message=f"{error.detail}{kept}",
        serves_earlier=bool(still_served),
    )


def postponed(error: FormularyError) -> Finding:
    """The catalog could not be asked; whatever it served before, it still does."""
    return Finding(
        reason=Reason.CATALOG_UNAVAILABLE, message=f"{error}; this is retried automatically", serves_earlier=True
    )
