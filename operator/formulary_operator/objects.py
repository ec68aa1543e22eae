"""What the work queue holds: an object of one of the watched kinds, by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from formulary_operator.api.names import ANALYSES, APPROVALS, CONTRACTS, INVOCATIONS, WORKFLOWS, Resource

CATALOG_KINDS = (WORKFLOWS, ANALYSES)
"""What the catalog is made from; without them there is nothing to do."""
RUN_KINDS = (INVOCATIONS, CONTRACTS, APPROVALS)
"""What runs are asked for, governed and approved with."""


class ObjectKey(NamedTuple):
    """One object; `kind` is the plural of its resource."""

    kind: str
    namespace: str
    name: str


def key_of(resource: Resource, document: Mapping[str, Any]) -> ObjectKey:
    """The key of an object as the API server gave it."""
    metadata = document["metadata"]
    return ObjectKey(resource.plural, metadata["namespace"], metadata["name"])
