"""What a run may act on whose context is a target: parameters that name a namespace, a workload or another object.

`services/runs/preparation` calls it before the input is checked, and the operator for what people create and before
each start. Of the target, its owners, its node and its namespace labels were read, so a parameter for such an object
names that one. Another object that a run names in the namespace has owners of its own: what they demand holds, too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from formulary_catalog.domain.incidents import RequestContext
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
_ON_PODS = frozenset({"exec", "logs", "debug", "attach"})
"""What kubectl does with a pod where no kind is named."""
_BEFORE_NAME = r"(?<![\w.$/{-])([A-Za-z]+)(?:\.[\w.]+)?(?:/|\s+(?:(?:-[it]+|--[\w-]+(?:=\S+)?)\s+)*)"
"""A kind, or what is done with a pod, right before the name, as in `deployment/web` and `exec -i web`."""
_BEFORE_NAMESPACE = r"\s(?:-n|--namespace)(?:=|\s+)"
_BETWEEN_NAMES = re.compile(r"[\s,]+")
_BETWEEN_COMMANDS = re.compile(r"[\n|;&]")
_KUBECTL = re.compile(r"\b(?:kubectl|oc|helm)\s")


def bound_input(spec: WorkflowSpec, given: Mapping[str, Any], *, context: RequestContext | None) -> Mapping[str, Any]:
    """The input of a run with what the target says of it.

    Raises:
        InvalidInput: a parameter names something else than the target and its owners.
    """
    if context is None or context.analysis:
        return given
    bound = dict(given)
    for parameter in spec.parameters:
        allowed = _allowed(parameter, context=context)
        if allowed is None:
            continue
        value = given.get(parameter.name)
        if value in (None, ""):
            value = parameter.default
            if allowed and (value in (None, "") or not parameter.name.upper().endswith(f"_{_NAMESPACE}")):
                bound[parameter.name] = allowed[0]
                continue
        agrees = _selects_as if _SELECTOR.fullmatch(parameter.name.upper()) else _is_same
        if value not in (None, "") and not any(agrees(value, each) for each in allowed):
            raise _another(parameter, context=context, instead=allowed)
    return bound


def named_objects(
    spec: WorkflowSpec, values: Mapping[str, Any], *, context: RequestContext | None
) -> list[TargetReference]:
    """The objects in the namespace of the target that a run names besides: what their owners demand holds for it.

    A parameter names one by its own name, as METRICS_DEPLOYMENT, by its value, as `deployment/metrics`, or as a command
    uses it. Of other kinds than `KINDS`, and outside a namespace, no labels are read.

    Raises:
        InvalidInput: one is a node or a namespace, and not that of the target, or there are too many to read.
    """
    if context is None or context.analysis or not context.target_namespace:
        return []
    commands = _commands(spec)
    known = {*_objects(context), ("Node", context.target_node), ("Namespace", context.target_namespace)}
    found: dict[TargetReference, None] = {}
    for parameter in spec.parameters:
        if _allowed(parameter, context=context) is not None:
            continue
        value = values.get(parameter.name)
        value = parameter.default if value in (None, "") else value
        kinds = _kinds_of(parameter.name, commands=commands)
        for kind, name in _named(value, kinds=kinds):
            if (kind.kind, name) in known:
                continue
            if not kind.namespaced:
                raise _another(parameter, context=context)
            found[TargetReference(namespace=context.target_namespace, kind=kind.kind, name=name)] = None
            if len(found) > _MOST_NAMED:
                raise _too_many()
    return list(found)


def named_namespaces(spec: WorkflowSpec, values: Mapping[str, Any], *, home: str) -> list[TargetReference]:
    """The namespaces that a run for an AIAnalysis is in or names: what their owners demand holds for it.

    Its parameters are bound to nothing. `home` is the namespace of the run.

    Raises:
        InvalidInput: there are too many to read.
    """
    commands, names = _commands(spec), {home: None}
    for parameter in spec.parameters:
        if _is_namespace(parameter) or _NAMESPACES in _kinds_of(parameter.name, commands=commands):
            value = values.get(parameter.name)
            value = parameter.default if value in (None, "") else value
            names |= dict.fromkeys(name for _, name in _named(value, kinds=[_NAMESPACES]))
    if len(names) > _MOST_NAMED:
        raise _too_many()
    return [TargetReference(namespace="", kind=_NAMESPACES.kind, name=name) for name in names]


def _allowed(parameter: Parameter, *, context: RequestContext) -> list[str] | None:
    """What a parameter may be, what it is without a value first; None where it names nothing of the target."""
    name, objects = parameter.name.upper(), _objects(context)
    if _is_namespace(parameter):
        return [context.target_namespace] if context.target_namespace else []
    if _SELECTOR.fullmatch(name):
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


def _commands(spec: WorkflowSpec) -> str:
    return "\n".join(step.command for step in (*spec.steps, *spec.rollback_steps)).replace("\\\n", " ")


def _objects(context: RequestContext) -> list[tuple[str, str]]:
    """The target and its owners, with their kinds."""
    owners = [owner.partition("/") for owner in context.target_owners]
    return [(context.target_kind, context.target_name), *((kind, name) for kind, _, name in owners)]


def _kinds_of(parameter: str, *, commands: str) -> list[TargetKind]:
    """The kinds of object that a parameter may name: as it is called, and as commands use it."""
    last = parameter.upper().removesuffix("_NAME")
    kinds = [kind for word, kind in _OF_KIND.items() if last == word or last.endswith(f"_{word}")]
    variable = rf"[\"']?\$(?:{re.escape(parameter)}\b|\{{{re.escape(parameter)}\b)"
    used = [known_kind("Pod" if word in _ON_PODS else word) for word in re.findall(_BEFORE_NAME + variable, commands)]
    parts = [part for part in _BETWEEN_COMMANDS.split(commands) if _KUBECTL.search(part)]
    if any(re.search(_BEFORE_NAMESPACE + variable, part) for part in parts):
        used.append(_NAMESPACES)
    return list(dict.fromkeys([*kinds, *(each for each in used if each is not None)]))


def _named(value: object, *, kinds: Iterable[TargetKind]) -> Iterator[tuple[TargetKind, str]]:
    """The objects that a value names: by its own kind, as `deployment/web`, else each that it may be."""
    texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    for word in (word for text in texts for word in _BETWEEN_NAMES.split(text)):
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
    """Whether a selector demands at least what that of the target does, so that it selects no pods of others."""
    terms = {term.strip().replace("==", "=") for term in str(value).split(",")}
    return "(" not in str(value) and set(selector.split(",")) <= terms


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
