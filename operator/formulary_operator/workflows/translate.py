"""From objects of the cluster to what the catalog stores.

The reconcilers and the resync call it, so that both see the same object in the same way. Pure.
"""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.entry import (
    CatalogEntry,
    catalog_entry,
    incident_context,
    require_constraints,
    require_distinct_parameters,
    require_visible,
)
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows.annotated import (
    SPEC_ANNOTATION,
    SUSPEND_ANNOTATION,
    annotation_of,
    suspended_by_annotation,
)

SOURCE = "cluster"
"""The stored source of what came from Kubernetes objects."""


def entry_of(document: Mapping[str, Any]) -> CatalogEntry:
    """The entry that a RemediationWorkflow describes.

    What a suspended one hides is no reason to refuse it: nobody is served it, and suspending must not fail.

    Raises:
        InvalidManifest: a field breaks a rule.
    """
    # Only what identifies the content is kept: managed fields and statuses of clusters are nobody's to read.
    metadata = document["metadata"]
    manifest = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": document.get("spec"),
    }
    annotations: dict[str, object] = {SUSPEND_ANNOTATION: "true"} if suspended_by_annotation(document) else {}
    if (annotation := annotation_of(document)) is not None:
        annotations[SPEC_ANNOTATION] = annotation
    if annotations:
        manifest["metadata"]["annotations"] = annotations
    entry = catalog_entry(manifest, source=SOURCE, default_namespace=metadata["namespace"])
    if not entry.workflow.spec.suspend:
        require_visible(entry)
        require_constraints(entry)
        require_distinct_parameters(entry)
    return entry


def is_suspended(document: Mapping[str, Any]) -> bool:
    """Whether a RemediationWorkflow asks not to be served, even if nothing else in it is right."""
    spec = document.get("spec")
    return suspended_by_annotation(document) or (isinstance(spec, Mapping) and spec.get("suspend") is True)


def context_of(document: Mapping[str, Any]) -> RequestContext:
    """The context that an AIAnalysis describes.

    Raises:
        InvalidManifest: a field breaks a rule; values of custom labels are never shown.
    """
    return incident_context(document, source=SOURCE, default_namespace=document["metadata"]["namespace"])
