"""Whether an object, its status and what the catalog holds for it still agree."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.errors import EmbedderUnavailable, InvalidManifest
from formulary_operator.workflows.status import differs, standing, wanted_status
from formulary_operator.workflows.translate import entry_of, is_suspended
from formulary_operator.workflows.validation_result import ConditionReason, refused, stored


def is_adrift(
    document: Mapping[str, Any],
    current: StoredWorkflow | None,
    *,
    model_id: str,
    problem: EmbedderUnavailable | None,
) -> bool:
    """Whether a RemediationWorkflow has to be reconciled; `current` is what the catalog holds for it.

    `model_id` is that of the embedder, empty while there is none, and `problem` says why.
    """
    uid = document["metadata"]["uid"]
    if current is not None and current.owner not in ("", uid):
        return True
    if current is not None and current.status == "Active" and is_suspended(document):
        return True
    try:
        entry = entry_of(document)
    except InvalidManifest as error:
        return differs(document, wanted_status(document, refused(error, current=current), now=""))
    if current is None or not is_current(entry, current, uid=uid, model_id=model_id):
        return not _is_known_refusal(document, current)
    finding = stored(entry, model_id=model_id or current.model_id, problem=problem)
    return differs(document, wanted_status(document, finding, now=""))


def is_current(entry: CatalogEntry, stored: StoredWorkflow, *, uid: str, model_id: str) -> bool:
    """Whether the catalog holds the object as it is."""
    if (stored.version_id, stored.source, stored.owner) != (entry.version_id, entry.source, uid):
        return False
    if stored.index_hash != entry.index_hash:
        return False
    if entry.workflow.spec.suspend:
        return stored.status == "Disabled"
    return stored.status == "Active" and model_id in ("", stored.model_id)


def _is_known_refusal(document: Mapping[str, Any], current: StoredWorkflow | None) -> bool:
    """Whether this content was refused as VersionImmutable, and nothing has changed since.

    Only the catalog knows whether it would refuse it again; as long as it holds the same, it would.
    """
    if current is None or standing(document) != ConditionReason.VERSION_IMMUTABLE:
        return False
    return bool(document["status"].get("contentHash") == current.content_hash)
