"""Which stored workflows a complete list of the cluster's objects no longer holds, and when not to believe it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from formulary_catalog.store.catalog import StoredWorkflow

ALWAYS_REMOVED = 20
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What to remove, and how much of it was refused."""

    orphans: frozenset[Key]
    refused: int


def sweep(stored: Collection[Key], *, seen: Collection[Key], max_fraction: float) -> Sweep:
    """The orphans of a complete list. More than 20, and more than `max_fraction` of all, are not believed.

    A catalog that is gone from a list is more often a restored etcd or a wrong cluster than a decision.
    """
    orphans = frozenset(stored) - frozenset(seen)
    if len(orphans) > max(ALWAYS_REMOVED, max_fraction * len(stored)):
        return Sweep(orphans=frozenset(), refused=len(orphans))
    return Sweep(orphans=orphans, refused=0)


def by_key(
    workflows: Collection[StoredWorkflow], *, source: str, namespaces: Collection[str]
) -> Mapping[Key, StoredWorkflow]:
    """The workflows that came from this source, in these namespaces; none named are all."""
    return {
        (workflow.namespace, workflow.name): workflow
        for workflow in workflows
        if workflow.source == source and (not namespaces or workflow.namespace in namespaces)
    }
