"""IncidentSource: which system sends alerts, for which namespaces, and how an alert names its target.

The operator and the loader read objects and files into these models; the CRD derives from them. The constraints of an
alert are those of its target. Only what `context` names is taken from the alert, where the target says nothing.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from formulary_catalog.domain.alerts.json_path import MAX_PATH, parse_path
from formulary_catalog.domain.incidents import CONTEXT_DIMENSIONS
from formulary_catalog.domain.patterns import DNS_SUBDOMAIN
from formulary_catalog.domain.targets.reference import TargetKind, known_kind
from formulary_catalog.domain.workflows.manifest import LabelValue, Metadata, Model
from formulary_catalog.domain.workflows.problems import problems
from formulary_catalog.errors import InvalidInput

KIND = "IncidentSource"
EVERYWHERE = "*"
MIN_SECRET = 16
"""Characters of a secret: a shorter one could be guessed."""
_MAX_NAMESPACES = 100
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_KINDS = {"job_name": "Job", "hpa": "HorizontalPodAutoscaler"}
_KUBE_PROMETHEUS = ("deployment", "statefulset", "daemonset", "job_name", "persistentvolumeclaim", "pod", "node")


def kind_of_label(label: str) -> TargetKind | None:
    """The kind of object that an alert names by this label, as kube-state-metrics spells it."""
    return known_kind(_LABEL_KINDS.get(label, label))


def _path(text: str) -> str:
    parse_path(text)
    return text


def _namespace(name: str) -> str:
    if name != EVERYWHERE and not _NAMESPACE.fullmatch(name):
        raise ValueError("must be the name of a namespace, or * for all")
    return name


def _known_label(label: str) -> str:
    if kind_of_label(label) is None:
        raise ValueError(f"{label[:60]!r} names no kind of object; use labels such as {', '.join(_KUBE_PROMETHEUS)}")
    return label


_Namespace = Annotated[str, StringConstraints(min_length=1, max_length=63), AfterValidator(_namespace)]
_Path = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH), AfterValidator(_path)]
_ObjectName = Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN, max_length=253)]


class _Part(Model):
    """A part of a source. Unknown fields are refused: a misspelt one would be left out in silence."""

    model_config = ConfigDict(extra="forbid")


class ValueSource(_Part):
    """Where a value of an alert comes from: exactly one of its fields."""

    label: LabelValue | None = Field(default=None, description="Label of the alert. For alertmanager.")
    path: _Path | None = Field(
        default=None,
        description="Path into the JSON body, such as $.alert.service. For webhook from the alert on, for pagerduty "
        "from the body.",
    )
    value: LabelValue | None = Field(default=None, description="The value itself, for all alerts of the source.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        fields = type(self).model_fields
        if len([name for name in fields if getattr(self, name)]) != 1:
            raise ValueError(f"must have exactly one of {', '.join(fields)}")
        return self


class KindSource(ValueSource):
    """How an alert names the kind of its target: `first`, or one of the other fields."""

    first: Annotated[list[Annotated[LabelValue, AfterValidator(_known_label)]], Field(max_length=20)] = Field(
        default=[],
        description="Labels that are named after kinds, such as deployment. The first one that the alert has gives "
        "kind and name; an alert that has none of them is about its namespace. For alertmanager.",
    )


class AlertTarget(_Part):
    """How an alert names the resource that is affected."""

    namespace: ValueSource | None = Field(
        default=None, description="Its namespace. Default for alertmanager: the label namespace."
    )
    kind: KindSource | None = Field(
        default=None, description=f"Its kind. Default for alertmanager: first of {', '.join(_KUBE_PROMETHEUS)}."
    )
    name: ValueSource | None = Field(default=None, description="Its name, where kind does not have `first`.")


class AlertContext(_Part):
    """What is taken from the alert where the labels of the target and its namespace say nothing."""

    environment: ValueSource | None = None
    priority: ValueSource | None = None
    business_category: ValueSource | None = None
    risk_tolerance: ValueSource | None = None
    cluster: ValueSource | None = None

    @property
    def dimensions(self) -> Mapping[str, ValueSource]:
        """Those that are set, by the field of a context that they fill."""
        found = {name: getattr(self, name) for name in CONTEXT_DIMENSIONS}
        return {name: source for name, source in found.items() if source is not None}


class SecretKey(_Part):
    """A key of a Secret in the namespace of the source."""

    name: _ObjectName = Field(description="Name of the Secret.")
    key: LabelValue = Field(default="token", description="Key in it.")


class SourceAuth(_Part):
    """How the sender proves itself."""

    secret_ref: SecretKey = Field(
        description="The secret: the bearer token of alertmanager and webhook, the signing secret of pagerduty. At "
        f"least {MIN_SECRET} characters."
    )


class SourceSpec(_Part):
    """A system whose alerts become incidents."""

    type: Literal["alertmanager", "pagerduty", "webhook"] = Field(
        description="alertmanager: webhooks of Alertmanager (version 4) and Grafana. pagerduty: webhooks v3. webhook: "
        "any JSON, mapped by paths."
    )
    namespaces: Annotated[list[_Namespace], Field(min_length=1, max_length=_MAX_NAMESPACES)] = Field(
        description="Namespaces that it may speak for. The target of an alert must be in one of them. In the shared "
        "catalog namespace any, and * for all and for targets in none, such as Nodes; elsewhere that of the source."
    )
    auth: SourceAuth | None = Field(
        default=None, description="How the sender proves itself. May be left out where the server listens on loopback."
    )
    target: AlertTarget = Field(default=AlertTarget(), description="How an alert names the resource that is affected.")
    signal_name: ValueSource | None = Field(
        default=None, description="Name of the alert. Default for alertmanager: the label alertname."
    )
    severity: ValueSource | None = Field(
        default=None, description="Its severity. Default for alertmanager: the label severity."
    )
    context: AlertContext = Field(
        default=AlertContext(),
        description="What is taken from the alert where the labels of the target say nothing. What they say counts.",
    )
    alerts: _Path | None = Field(
        default=None, description="Path to the alerts of a body; without it the body is one. For webhook."
    )
    fingerprint: ValueSource | None = Field(
        default=None,
        description="What is the same in all messages about one alert. Default: its name and target. For webhook.",
    )
    status: ValueSource | None = Field(
        default=None,
        description="Whether the alert is over: resolved, ok, closed, recovered or inactive. For webhook.",
    )

    @model_validator(mode="after")
    def _fits_type(self) -> Self:
        if self.type == "webhook" and (self.signal_name is None or not _names_target(self.target)):
            raise ValueError("a webhook needs signalName, target.namespace, target.kind and target.name")
        if self.type != "webhook" and (self.alerts or self.fingerprint or self.status):
            raise ValueError(f"alerts, fingerprint and status are for webhook; {self.type} has its own")
        if self.target.name is not None and (self.target.kind is None or self.target.kind.first):
            raise ValueError("target.name needs a target.kind without `first`")
        if self.target.kind is not None and not self.target.kind.first and self.target.name is None:
            raise ValueError("target.name is missing; only a target.kind with `first` gives the name, too")
        forms = ("label", "first", "value") if self.type == "alertmanager" else ("path", "value")
        for where, source in _sources(self):
            if not any(getattr(source, form, None) for form in forms):
                raise ValueError(f"{where}: {self.type} takes {' or '.join(forms)}")
        return self


class SourceManifest(Model):
    """One IncidentSource object, as far as it is read."""

    metadata: Metadata
    spec: SourceSpec


DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "alertmanager": {
        "target": {"namespace": {"label": "namespace"}, "kind": {"first": [*_KUBE_PROMETHEUS]}},
        "signalName": {"label": "alertname"},
        "severity": {"label": "severity"},
    },
    "pagerduty": {"signalName": {"path": "$.event.data.title"}, "severity": {"path": "$.event.data.urgency"}},
    "webhook": {},
}
"""What a source of each type has where it says nothing: the labels of kube-prometheus, and the fields of PagerDuty."""


def source_spec(spec: Mapping[str, Any]) -> SourceSpec:
    """The mapping of a source.

    Raises:
        InvalidInput: a field breaks a rule; the message names it.
    """
    try:
        return SourceSpec.model_validate(spec)
    except ValidationError as error:
        field, said = problems(error, model=SourceSpec)
        raise InvalidInput(f"spec.{said}".replace("spec.document: ", "spec: "), field=f"spec.{field}") from None


def with_defaults(spec: SourceSpec) -> SourceSpec:
    """The mapping with what its type has where it says nothing."""
    defaults = DEFAULTS[spec.type]
    said = spec.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    target = {**defaults.get("target", {}), **said.get("target", {})}
    return SourceSpec.model_validate({**defaults, **said, "target": target})


def has_preset(spec: SourceSpec) -> bool:
    """Whether alerts name their targets as those of kube-prometheus do, be that written or left out."""
    return spec.target.kind is not None and tuple(spec.target.kind.first) == _KUBE_PROMETHEUS


def not_allowed(spec: SourceSpec, *, namespace: str, shared_namespace: str) -> str:
    """Why a source in `namespace` may not speak for what it names; empty if it may.

    Who may write a source in one namespace must not make incidents of another one's objects.
    """
    foreign = sorted(set(spec.namespaces) - {namespace})
    if not foreign or namespace == shared_namespace:
        return ""
    named = "all namespaces" if EVERYWHERE in foreign else f"namespace {foreign[0]}"
    return (
        f"spec.namespaces: a source in namespace {namespace} may not speak for {named}; name {namespace} alone, or "
        f"have the platform team apply the source in {shared_namespace}"
    )


def _names_target(target: AlertTarget) -> bool:
    return None not in (target.namespace, target.kind, target.name)


def _sources(spec: SourceSpec) -> list[tuple[str, ValueSource]]:
    """Every value source of a mapping that is set, with the field that holds it."""
    named: list[tuple[str, ValueSource | None]] = [
        ("target.namespace", spec.target.namespace),
        ("target.kind", spec.target.kind),
        ("target.name", spec.target.name),
        ("signalName", spec.signal_name),
        ("severity", spec.severity),
        ("fingerprint", spec.fingerprint),
        ("status", spec.status),
        *((f"context.{name}", source) for name, source in spec.context.dimensions.items()),
    ]
    return [(where, source) for where, source in named if source is not None]
