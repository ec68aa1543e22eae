"""What was read of a target and of what surrounds it: the only thing its constraints are made of (DESIGN section 6).

A `TargetReader` reads it: from a cluster in the operator's package, from manifests in `loading/targets`. None says that
something could not be read, which is never the same as that there is nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from formulary_catalog.domain.targets.reference import TargetKind, TargetReference

ANY_PODS = "*"
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMetadata:
    """Labels and annotations of one object, or of the pods that it makes."""

    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.kind, self.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorTerm:
    """One condition of a label selector: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()


Selector = tuple[SelectorTerm, ...]
"""All of its terms must hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A target and what is around it.

    `found` is None for a pod that is gone, and for an object of a kind that is not read. `owners` lead from the object
    to the last controller, `complete` if all of them were read; `pods` is the template of the pods that it makes,
    `selector` how its workload selects them, as of `pod_selector`. `autoscaled` are kind and name of what the
    HorizontalPodAutoscalers of its namespace scale, `budgets` the selectors of its PodDisruptionBudgets.
    """

    reference: TargetReference
    api_version: str
    found: ObjectMetadata | None
    owners: tuple[ObjectMetadata, ...] = ()
    complete: bool = True
    namespace: ObjectMetadata | None = None
    node: ObjectMetadata | None = None
    pods: ObjectMetadata | None = None
    selector: str = ""
    autoscaled: frozenset[tuple[str, str]] | None = None
    budgets: tuple[Selector, ...] | None = None
    note: str = ""

    @property
    def workload(self) -> tuple[ObjectMetadata, ...]:
        """The object and those that own it, as far as they are known."""
        return (*((self.found,) if self.found is not None else ()), *self.owners)


class TargetReader(Protocol):
    """Reads what surrounds a target."""

    def workloads(self) -> Sequence[TargetReference]:
        """Those that are known without being named, to show what a target changes; a cluster has too many."""

    async def kind_of(self, reference: TargetReference) -> TargetKind:
        """The kind of a target, by which the right to have it is checked.

        Raises:
            ContextError: there is no such kind.
            Unavailable: it cannot be found out now.
        """

    async def read(self, reference: TargetReference, *, kind: TargetKind) -> Surroundings:
        """What surrounds the target now.

        Raises:
            ContextError: it does not exist, or something that counts may not be read.
            Unavailable: it cannot be found out now.
        """


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels; an empty one matches all."""
    return all(_holds(term, labels) for term in selector)


def _holds(term: SelectorTerm, labels: Mapping[str, str]) -> bool:
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return labels.get(term.key) not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels
    raise ValueError(term.operator)


def metadata_of(manifest: Mapping[str, object], *, kind: str) -> ObjectMetadata:
    """Of an object as Kubernetes has it, whole or its metadata alone."""
    metadata = _mapping(manifest.get("metadata"))
    return ObjectMetadata(
        kind=kind,
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace") or ""),
        labels=_texts(metadata.get("labels")),
        annotations=_texts(metadata.get("annotations")),
    )


def selector_of(manifest: Mapping[str, object]) -> Selector | None:
    """The `spec.selector` of an object; None where it has none, which selects nothing."""
    selector = _mapping(manifest.get("spec")).get("selector")
    if not isinstance(selector, Mapping):
        return None
    equal = [
        SelectorTerm(key=key, operator="In", values=frozenset({value}))
        for key, value in _texts(selector.get("matchLabels")).items()
    ]
    expressions = selector.get("matchExpressions")
    further = [
        SelectorTerm(key=str(each["key"]), operator=str(each["operator"]), values=frozenset(each.get("values") or ()))
        for each in (expressions if isinstance(expressions, list) else [])
    ]
    return (*equal, *further)


def pod_selector(manifest: Mapping[str, object]) -> str:
    """The labels by which a workload selects its pods, as kubectl takes them; empty if it selects by more than these.

    `ANY_PODS` of a manifest that does not say it, as of no workload in a cluster.
    """
    selector = _mapping(manifest.get("spec")).get("selector")
    if selector is None:
        return ANY_PODS
    if _mapping(selector).get("matchExpressions"):
        return ""
    labels = _texts(_mapping(selector).get("matchLabels"))
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def scaled_by(manifest: Mapping[str, object]) -> tuple[str, str]:
    """Kind and name of what a HorizontalPodAutoscaler scales."""
    scaled = _mapping(_mapping(manifest.get("spec")).get("scaleTargetRef"))
    return str(scaled.get("kind", "")), str(scaled.get("name", ""))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> Mapping[str, str]:
    return {str(key): str(text) for key, text in _mapping(value).items()} if value else _NOTHING
