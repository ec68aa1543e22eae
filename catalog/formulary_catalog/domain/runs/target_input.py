"""What a run may act on whose context is a target: parameters that name a namespace, a workload or another object.

`services/runs/preparation` calls it before the input is checked, and the operator for what people create and before
each start. Of the target, its owners, its node and its namespace labels were read, so a parameter for such an object
names that one. Another object that a run names in the namespace has owners of its own: what they demand holds, too.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.command_uses import NO_USE, ParameterUse, parameter_uses
from formulary_catalog.domain.targets.reference import KINDS, TargetKind, TargetReference, is_object_name, known_kind
from formulary_catalog.domain.targets.surroundings import ANY_PODS
from formulary_catalog.domain.workflows.manifest import Parameter, WorkflowSpec
from formulary_catalog.errors import InvalidInput

_NAMESPACES, *_ = KINDS
_NAMESPACE = "NAMESPACE"
"""Also the last word of every parameter that names one, such as SOURCE_NAMESPACE."""
_SELECTOR = re.compile(r"(?:.*_)?(?<!NODE_)SELECTOR")
_WORKLOADS = frozenset({"WORKLOAD", "TARGET_WORKLOAD"})
_NAMES = frozenset({"TARGET_NAME", "TARGET_RESOURCE_NAME"})
_ALSO = {"PersistentVolumeClaim": ("PVC", "CLAIM"), "HorizontalPodAutoscaler": ("HPA",)}
_OF_KIND = {
    spelling.upper(): each
    for each in KINDS
    if each.kind != "Namespace"
    for spelling in (each.kind, each.resource, *_ALSO.get(each.kind, ()))
}
"""Parameters that name an object of one kind, and the last word of those that name a further one, as CSI_POD."""
_CONTROLLERS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "Pod")
"""What a workload is, the outermost first."""
_MOST_NAMED = 16
_BETWEEN_NAMES = re.compile(r"[\s,]+")


def bound_input(spec: WorkflowSpec, given: Mapping[str, Any], *, context: RequestContext | None) -> Mapping[str, Any]:
    """The input of a run with what the target says of it.

    Raises:
        InvalidInput: a parameter names something else than the target and its owners.
    """
    if context is None or context.analysis:
        return given
    bound, uses = dict(given), _uses(spec)
    for parameter in spec.parameters:
        use = uses.get(parameter.name, NO_USE)
        allowed = _allowed(parameter, use=use, context=context)
        if allowed is None:
            continue
        value = given.get(parameter.name)
        if value in (None, ""):
            value = parameter.default
            if allowed and (value in (None, "") or not parameter.name.upper().endswith(f"_{_NAMESPACE}")):
                bound[parameter.name] = allowed[0]
                continue
        agrees = _selects_as if _is_selector(parameter, use=use) else _is_same
        if value not in (None, "") and not any(agrees(value, each) for each in allowed):
            raise _another(parameter, context=context, instead=allowed)
    return bound


def named_objects(
    spec: WorkflowSpec, values: Mapping[str, Any], *, context: RequestContext | None
) -> list[TargetReference]:
    """The objects in the namespace of the target that a run names besides: what their owners demand holds for it.

    A parameter names one by its own name, as METRICS_DEPLOYMENT, by its value, as `deployment/metrics`, or as a command
    uses it. Of other kinds than `KINDS` no labels are read.

    Raises:
        InvalidInput: one is a node or a namespace, and not that of the target, or in a namespace where the target is
            in none; a value holds a flag beside a name, or there are too many to read.
    """
    if context is None or context.analysis:
        return []
    uses = _uses(spec)
    known = {*_objects(context), ("Node", context.target_node), ("Namespace", context.target_namespace)}
    found: dict[TargetReference, None] = {}
    for parameter in spec.parameters:
        use = uses.get(parameter.name, NO_USE)
        if _allowed(parameter, use=use, context=context) is not None:
            continue
        for kind, name in _named(parameter, values, kinds=_kinds_of(parameter, use=use)):
            if (kind.kind, name) in known:
                continue
            if not (kind.namespaced and context.target_namespace):
                raise _another(parameter, context=context)
            found[TargetReference(namespace=context.target_namespace, kind=kind.kind, name=name)] = None
            if len(found) > _MOST_NAMED:
                raise _too_many()
    return list(found)


def named_namespaces(spec: WorkflowSpec, values: Mapping[str, Any], *, home: str) -> list[TargetReference]:
    """The namespaces that a run for an AIAnalysis is in or names: what their owners demand holds for it.

    Its parameters are bound to nothing. `home` is the namespace of the run.

    Raises:
        InvalidInput: a value holds a flag beside a name, or there are too many to read.
    """
    uses, names = _uses(spec), {home: None}
    for parameter in spec.parameters:
        kinds = _kinds_of(parameter, use=uses.get(parameter.name, NO_USE))
        named = _named(parameter, values, kinds=kinds)
        names |= {name: None for kind, name in named if kind == _NAMESPACES}
    if len(names) > _MOST_NAMED:
        raise _too_many()
    return [TargetReference(namespace="", kind=_NAMESPACES.kind, name=name) for name in names]


def _allowed(parameter: Parameter, *, use: ParameterUse, context: RequestContext) -> list[str] | None:
    """What a parameter may be, what it is without a value first; None where it names nothing of the target."""
    name, objects = parameter.name.upper(), _objects(context)
    if _is_namespace(parameter):
        return [context.target_namespace] if context.target_namespace else []
    if use.selects_nodes:
        return []
    if _is_selector(parameter, use=use):
        if context.target_selector == ANY_PODS:
            return None
        return [context.target_selector] if context.target_selector else []
    if name in _NAMES:
        return [] if context.target_kind == "Namespace" else [name for _, name in objects]
    # Of what is no workload and has no owner that is one, the workload is another object.
    has_others = context.target_kind not in (*_CONTROLLERS, "Namespace", "Node")
    workloads = [each for kind in _CONTROLLERS for each in objects if each[0] == kind]
    if name in _WORKLOADS:
        of_target = [f"{kind.lower()}/{name}" for kind, name in workloads] + [name for _, name in workloads]
        return of_target if of_target or not has_others else None
    kind = _OF_KIND.get(name.removesuffix("_NAME"))
    if kind is None:
        return None
    if context.target_node:
        objects.append(("Node", context.target_node))
    of_kind = [name for each, name in objects if each == kind.kind]
    is_workload = kind.kind in _CONTROLLERS
    may_be_another = kind.namespaced and (has_others or (bool(workloads) and not is_workload))
    return of_kind if of_kind or not may_be_another else None


def _is_namespace(parameter: Parameter) -> bool:
    name = parameter.name.upper()
    return name == _NAMESPACE or name.endswith(f"_{_NAMESPACE}")


def _is_selector(parameter: Parameter, *, use: ParameterUse) -> bool:
    return use.selects or _SELECTOR.fullmatch(parameter.name.upper()) is not None


def _uses(spec: WorkflowSpec) -> Mapping[str, ParameterUse]:
    return parameter_uses("\n".join(step.command for step in (*spec.steps, *spec.rollback_steps)))


def _objects(context: RequestContext) -> list[tuple[str, str]]:
    """The target and its owners, with their kinds."""
    owners = [owner.partition("/") for owner in context.target_owners]
    return [(context.target_kind, context.target_name), *((kind, name) for kind, _, name in owners)]


def _kinds_of(parameter: Parameter, *, use: ParameterUse) -> list[TargetKind]:
    """The kinds of object that a parameter may name: as it is called, and as commands use it."""
    last = parameter.name.upper().removesuffix("_NAME")
    kinds = [kind for word, kind in _OF_KIND.items() if last == word or last.endswith(f"_{word}")]
    if last.rpartition("_")[2] in (_NAMESPACE, f"{_NAMESPACE}S"):
        kinds.append(_NAMESPACES)
    return list(dict.fromkeys([*kinds, *use.kinds]))


def _named(
    parameter: Parameter, values: Mapping[str, Any], *, kinds: Collection[TargetKind]
) -> list[tuple[TargetKind, str]]:
    """The objects that a parameter names: by their own kind, as `deployment/web`, else each that it may be.

    Raises:
        InvalidInput: the value holds a flag as well, with which a command would reach another object.
    """
    value = values.get(parameter.name)
    value = parameter.default if value in (None, "") else value
    texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    words = [word for text in texts for word in _BETWEEN_NAMES.split(text) if word]
    named = [each for word in words for each in _objects_in(word, kinds=kinds)]
    if (named or kinds) and any(word.startswith("-") for word in words):
        raise InvalidInput(
            f"input.{parameter.name} names an object, and a word in it begins with '-', as a flag does; give the name "
            "alone",
            field="input",
        )
    return named


def _objects_in(word: str, *, kinds: Iterable[TargetKind]) -> Iterator[tuple[TargetKind, str]]:
    kind, slash, name = word.rpartition("/")
    if is_object_name(name):
        own = known_kind(kind.partition(".")[0])
        found = kinds if not slash else [own] if own is not None else []
        yield from ((each, name) for each in found)


def _is_same(value: object, allowed: str) -> bool:
    return _folded(value) == _folded(allowed)


def _folded(value: object) -> str:
    """`deploy/checkout` and `Deployment/checkout` are the same."""
    kind, slash, name = str(value).strip().partition("/")
    known = known_kind(kind) if slash else None
    return f"{known.kind}/{name}" if known is not None else str(value).strip()


def _selects_as(value: object, selector: str) -> bool:
    """Whether a selector demands at least what that of the target does, so that it selects no pods of others.

    A blank inside a term, or a term that begins with `-`, could be a flag with another selector.
    """
    terms = [term.strip() for term in str(value).split(",")]
    if "(" in str(value) or any(term.startswith("-") or len(term.split()) > 1 for term in terms):
        return False
    return set(selector.split(",")) <= {term.replace("==", "=") for term in terms}


def _another(parameter: Parameter, *, context: RequestContext, instead: Iterable[str] = ()) -> InvalidInput:
    search = "name that object as the target, of the search and of the run"
    first = next(iter(instead), "")
    return InvalidInput(
        f"input.{parameter.name} names another object than the target of this call, {context.target}, whose "
        f"constraints were applied; {f'give {first}, or {search}' if first else search}",
        field="input",
    )


def _too_many() -> InvalidInput:
    return InvalidInput(
        f"input names more than {_MOST_NAMED} objects besides the target, and the labels of each are read; ask for "
        "several runs",
        field="input",
    )
