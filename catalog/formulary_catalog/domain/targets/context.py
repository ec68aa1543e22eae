"""From what was read of a target to the context of a call: what the owners of the target demand (DESIGN section 6).

The namespace's word counts most. A label of the object, its owners or its node adds keys that the namespace does not
have, and never changes one: owners of workloads can narrow, not widen. In doubt there is no context, but an error.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from formulary_catalog.domain.incidents import CONTEXT_DIMENSIONS, RequestContext
from formulary_catalog.domain.targets.detected import GITOPS_MANAGED, NO, UNKNOWN, detected_facts
from formulary_catalog.domain.targets.mapping import ContextMapping, first_label
from formulary_catalog.domain.targets.surroundings import ObjectMetadata, Surroundings
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS, YES, wire_name
from formulary_catalog.errors import ContextError


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One constraint, and which label of which object says so.

    `name` is a field of `RequestContext`, or the key of a custom label.
    """

    name: str
    value: str = field(repr=False)
    custom: bool
    source: ObjectMetadata
    label: str


def demands_on(around: Surroundings, *, mapping: ContextMapping, known: Collection[str] = frozenset()) -> list[Demand]:
    """What the labels around a target demand, one demand for each constraint.

    `known` are the dimensions that the alert of a call gives, which no label has to.

    Raises:
        ContextError: the namespace, or an object in none, has no label that is required.
    """
    sources = list(_sources(around))
    found: dict[tuple[bool, str], Demand] = {}
    for source in sources:
        for demand in _demands_of(source, mapping=mapping):
            earlier = found.get(key := (demand.custom, demand.name))
            # `yes` demands nothing, so what the other objects say narrows what it leaves open.
            if earlier is None or (_demands_nothing(earlier) and not _demands_nothing(demand)):
                found[key] = demand
    first = sources[0]
    for name, wanted in mapping.dimensions.items():
        if wanted.required and name not in known and first_label(wanted, first.labels) is None:
            raise ContextError(_unlabelled(first, name=name, label=wanted.labels[0], others=wanted.labels[1:]))
    return list(found.values())


def target_context(
    around: Surroundings, *, mapping: ContextMapping, known: Collection[str] = frozenset()
) -> RequestContext:
    """The context of a call about this target; `known` as of `demands_on`.

    Raises:
        ContextError: as `demands_on`.
    """
    demands = demands_on(around, mapping=mapping, known=known)
    reference = around.reference
    namespace = reference.home or ""
    return RequestContext(
        namespace=namespace,
        name="",
        remediation_id="",
        **{demand.name: demand.value for demand in demands if not demand.custom},
        target_namespace=namespace,
        target_api_version=around.api_version,
        target_kind=reference.kind,
        target_name=reference.name,
        target_owners=tuple(f"{owner.kind}/{owner.name}" for owner in around.owners),
        target_node=around.node.name if around.node is not None else "",
        target_selector=around.selector,
        custom_labels={demand.name: (demand.value,) for demand in demands if demand.custom},
        strict_keys=frozenset(mapping.strict),
        detected_labels=detected_facts(around),
        note=around.note,
    )


def further_context(around: Surroundings, *, mapping: ContextMapping) -> RequestContext:
    """What the owners of an object demand that a run names besides what it is about: it holds for the run, too.

    No label is required of it. Of what was detected, only that GitOps manages it, or may do so, counts. Of a pod that
    is gone, nobody says that it may.
    """
    context = target_context(around, mapping=mapping, known=CONTEXT_DIMENSIONS)
    managed = context.detected_labels[GITOPS_MANAGED]
    demands_nothing = managed == NO or (managed == UNKNOWN and around.found is None)
    return replace(context, detected_labels={} if demands_nothing else {GITOPS_MANAGED: managed})


def _sources(around: Surroundings) -> Iterator[ObjectMetadata]:
    """The objects whose labels count, the one that binds first."""
    if around.namespace is not None:
        yield around.namespace
    yield from around.workload
    if around.node is not None:
        yield around.node


def _demands_of(source: ObjectMetadata, *, mapping: ContextMapping) -> Iterator[Demand]:
    for name, labels in mapping.dimensions.items():
        if (label := first_label(labels, source.labels)) is not None:
            yield Demand(name=name, value=source.labels[label], custom=False, source=source, label=label)
    for key, value, label in mapping.custom(source.labels):
        # Owners write `No` and mean no; every other custom label counts exactly as it is written.
        value = value.lower() if key in STANDARD_KEYS else value
        yield Demand(name=key, value=value, custom=True, source=source, label=label)


def _demands_nothing(demand: Demand) -> bool:
    return demand.custom and demand.name in STANDARD_KEYS and demand.value == YES


def _unlabelled(source: ObjectMetadata, *, name: str, label: str, others: list[str]) -> str:
    what = f"{source.kind.lower()} {source.name}"
    labels = " or ".join((label, *others))
    return (
        f"{what} has no label {labels}, so its {wire_name(name)} is not known and nothing is returned; its owners "
        f"repair that with: kubectl label {what} {label}=VALUE"
    )
