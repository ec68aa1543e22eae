"""What a call says is broken: the kind, the name and the namespace of one object (DESIGN section 6).

`edges/calls` reads it from the arguments of a call, commands from `--target`. Nothing in it has been looked up yet.
"""

import re
from dataclasses import dataclass

from formulary_catalog.domain.access import Right
from formulary_catalog.errors import InvalidInput

FORM = "[NAMESPACE/]KIND/NAME"
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_ABSENT = frozenset({"", "null", "none", "undefined"})
"""What models write where they have nothing to say."""
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKind:
    """A kind of Kubernetes object. `resource` is its name in addresses and rights, `short` that of kubectl."""

    kind: str
    api_version: str
    resource: str
    namespaced: bool = True
    short: str = ""

    @property
    def group(self) -> str:
        """Its API group; empty for the first one of Kubernetes."""
        return self.api_version.rpartition("/")[0]

    @property
    def get(self) -> Right:
        """What a caller needs to have it as a target."""
        return Right(verb="get", resource=self.resource, group=self.group)


KINDS = (
    TargetKind(kind="Namespace", api_version="v1", resource="namespaces", namespaced=False, short="ns"),
    TargetKind(kind="Node", api_version="v1", resource="nodes", namespaced=False, short="no"),
    TargetKind(kind="Pod", api_version="v1", resource="pods", short="po"),
    TargetKind(kind="PersistentVolumeClaim", api_version="v1", resource="persistentvolumeclaims", short="pvc"),
    TargetKind(kind="Service", api_version="v1", resource="services", short="svc"),
    TargetKind(kind="Deployment", api_version="apps/v1", resource="deployments", short="deploy"),
    TargetKind(kind="StatefulSet", api_version="apps/v1", resource="statefulsets", short="sts"),
    TargetKind(kind="DaemonSet", api_version="apps/v1", resource="daemonsets", short="ds"),
    TargetKind(kind="ReplicaSet", api_version="apps/v1", resource="replicasets", short="rs"),
    TargetKind(kind="Job", api_version="batch/v1", resource="jobs"),
    TargetKind(kind="CronJob", api_version="batch/v1", resource="cronjobs", short="cj"),
    TargetKind(kind="Ingress", api_version="networking.k8s.io/v1", resource="ingresses", short="ing"),
    TargetKind(
        kind="HorizontalPodAutoscaler", api_version="autoscaling/v1", resource="horizontalpodautoscalers", short="hpa"
    ),
)
"""The kinds whose own labels are read. Of every other kind, only the namespace's labels count."""
_BY_SPELLING = {
    spelling.casefold(): each for each in KINDS for spelling in (each.kind, each.resource, each.short) if spelling
}


def known_kind(kind: str) -> TargetKind | None:
    """The kind whose own labels are read, however it is spelled; None for any other."""
    return _BY_SPELLING.get(kind.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReference:
    """The object that a call is about; the namespace is empty for one that has none."""

    namespace: str
    kind: str
    name: str

    @property
    def home(self) -> str | None:
        """The namespace that it is in, or is itself; None for what is in none."""
        return self.namespace or (self.name if self.kind == "Namespace" else None)

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.kind, self.name)))


def target_reference(*, namespace: str, kind: str, name: str) -> TargetReference | None:
    """The target of these arguments, None where all are absent. Kinds are spelled as Kubernetes does.

    Raises:
        InvalidInput: one of them is missing or malformed, or a namespace is given for what has none.
    """
    namespace, kind, name = (_given(each) for each in (namespace, kind, name))
    if not (namespace or kind or name):
        return None
    if not kind:
        raise _refused("kind", "is missing; give the kind of what is broken, such as Deployment, or Namespace")
    known = known_kind(kind)
    kind = known.kind if known is not None else kind
    if not name:
        if kind != "Namespace" or not namespace:
            raise _refused("name", f"is missing; give the name of the {kind[:_SHOWN]}")
        name = namespace
    if kind == "Namespace" and namespace == name:
        namespace = ""
    if not _KIND.fullmatch(kind):
        raise _refused("kind", f"{kind[:_SHOWN]!r} is no kind of Kubernetes; give one such as Deployment")
    if not _NAME.fullmatch(name):
        raise _refused("name", f"{name[:_SHOWN]!r} is no name of an object; copy it from the cluster")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise _refused("namespace", f"{namespace[:_SHOWN]!r} is no name of a namespace; copy it from the cluster")
    if known is not None and known.namespaced and not namespace:
        raise _refused("namespace", f"is missing; give the namespace of the {kind} {name[:_SHOWN]}")
    if known is not None and not known.namespaced and namespace:
        raise _refused("namespace", f"is given, and a {kind} is in none; leave it out")
    return TargetReference(namespace=namespace, kind=kind, name=name)


def is_object_name(text: str) -> bool:
    """Whether an object can have this name."""
    return _NAME.fullmatch(text) is not None


def parse_target(text: str) -> TargetReference:
    """The target that `[NAMESPACE/]KIND/NAME` names.

    Raises:
        InvalidInput: it names none.
    """
    parts = text.strip().split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InvalidInput(
            f"target {text[:_SHOWN]!r} is not of the form {FORM}; give one such as shop/Deployment/checkout",
            field="target",
        )
    *namespace, kind, name = parts
    target = target_reference(namespace="".join(namespace), kind=kind, name=name)
    assert target is not None
    return target


def _given(text: str) -> str:
    text = text.strip()
    return "" if text.casefold() in _ABSENT else text


def _refused(part: str, problem: str) -> InvalidInput:
    return InvalidInput(f"target_{part} {problem}", field=f"target_{part}")
