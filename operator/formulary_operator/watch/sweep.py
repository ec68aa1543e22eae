"""Which stored workflows a complete list of the cluster's objects no longer holds, and when not to believe it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from formulary_catalog.domain.stored import Missing, StoredWorkflow

ALWAYS_REMOVED = 20
Key = tuple[str, str]


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
