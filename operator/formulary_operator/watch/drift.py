"""How a complete list of the cluster's objects and the catalog differ: what to reconcile again, and what to remove.

`resync` asks it about every object, and `watch/sweep_guard` about the workflows that the list no longer holds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import Missing, RefusedWorkflow, StoredWorkflow
from formulary_catalog.errors import EmbedderUnavailable, InvalidManifest
from formulary_operator.kube.conditions import conditions_of, find
from formulary_operator.workflows.status import differs, refusal_of, standing, wanted_status
from formulary_operator.workflows.translate import entry_of, is_suspended
from formulary_operator.workflows.validation_result import ConditionReason, ValidationResult, refused, stored

ALWAYS_REMOVED = 20
Key = tuple[str, str]


def is_adrift(
    document: Mapping[str, Any],
    current: StoredWorkflow | None,
    *,
    noted: RefusedWorkflow | None,
    kept: Collection[str],
    model_id: str,
    problem: EmbedderUnavailable | None,
) -> bool:
    """Whether a RemediationWorkflow has to be reconciled; `current` is what the catalog holds for it.

    `noted` is the refusal of it that people can read, `kept` are the fields that the CRD has in its status. `model_id`
    is that of the embedder, empty while there is none, and `problem` says why. One that waits for its deletion is gone:
    there may only be something left to end.
    """
    if "deletionTimestamp" in document["metadata"]:
        return current is not None or noted is not None
    if noted != refusal_of(document):
        return True
    uid = document["metadata"]["uid"]
    if current is not None and current.owner not in ("", uid):
        return True
    if current is not None and current.status == "Active" and is_suspended(document):
        return True
    try:
        entry = entry_of(document)
    except InvalidManifest as error:
        return differs(document, wanted_status(document, refused(error, current=current), now=""), kept=kept)
    if current is None or not is_current(entry, current, uid=uid, model_id=model_id):
        return not _is_known_refusal(document, current, kept=kept)
    finding = stored(entry, model_id=model_id or current.model_id, problem=problem)
    return differs(document, wanted_status(document, finding, now=""), kept=kept)


def is_current(entry: CatalogEntry, stored: StoredWorkflow, *, uid: str, model_id: str) -> bool:
    """Whether the catalog holds the object as it is."""
    if (stored.version_id, stored.source, stored.owner) != (entry.version_id, entry.source, uid):
        return False
    if stored.index_hash != entry.index_hash:
        return False
    if entry.workflow.spec.suspend:
        return stored.status == "Disabled"
    return stored.status == "Active" and model_id in ("", stored.model_id)


def _is_known_refusal(document: Mapping[str, Any], current: StoredWorkflow | None, *, kept: Collection[str]) -> bool:
    """Whether this content was refused as VersionImmutable, and nothing has changed since.

    Only the catalog knows whether it would refuse it again; as long as it holds the same, it would.
    """
    if current is None or standing(document) != ConditionReason.VERSION_IMMUTABLE:
        return False
    finding = ValidationResult(
        reason=ConditionReason.VERSION_IMMUTABLE,
        message=find(conditions_of(document), "Ready")["message"],
        version_id=current.version_id,
        content_hash=current.content_hash,
        model_id=current.model_id,
    )
    return not differs(document, wanted_status(document, finding, now=""), kept=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What to remove, and what was refused to be removed. One of them is empty."""

    orphans: frozenset[Key] = frozenset()
    refused: frozenset[Missing] = frozenset()


def sweep(
    stored: Collection[Missing], *, seen: Collection[Key], max_fraction: float, allowed: Collection[Missing] = ()
) -> Sweep:
    """The orphans of a complete list. More than 20, and more than `max_fraction` of all, are not believed.

    A catalog that is gone from a list is more often a restored etcd or a wrong cluster than a decision. `allowed` are
    those objects of which somebody said that it was one.
    """
    listed = frozenset(seen)
    missing = frozenset(each for each in stored if each[:2] not in listed)
    if len(missing) > max(ALWAYS_REMOVED, max_fraction * len(stored)) and not missing.issubset(allowed):
        return Sweep(refused=missing)
    return Sweep(orphans=frozenset((namespace, name) for namespace, name, _ in missing))


def by_key(
    workflows: Collection[StoredWorkflow], *, source: str, namespaces: Collection[str]
) -> Mapping[Key, StoredWorkflow]:
    """The workflows that came from this source, in these namespaces; none named are all."""
    return {
        (workflow.namespace, workflow.name): workflow
        for workflow in workflows
        if workflow.source == source and (not namespaces or workflow.namespace in namespaces)
    }
