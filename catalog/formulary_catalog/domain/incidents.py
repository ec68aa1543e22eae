"""AIAnalysis: read for the constraints of an incident, never written (DESIGN sections 3 and 6).

The operator and `formulary up` parse objects with it; `store/incidents` keeps the result. Constraints of an incident
are made here, so that searches and runs obey the same ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS, Constraints, demanded, fold, normalize_detected
from formulary_catalog.domain.workflows.manifest import CustomKey, CustomValue, Metadata, Model, Text

KIND = "AIAnalysis"
STRICT_KEYS_ANNOTATION = "formulary.dev/strict-custom-labels"
CONTEXT_DIMENSIONS = ("environment", "priority", "business_category", "risk_tolerance", "cluster")
"""The label dimensions that a context sets, each a field of `RequestContext`."""


def _values(value: object) -> object:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _map(value: object) -> object:
    return {} if value is None else value


_IncidentValues = Annotated[
    list[CustomValue], BeforeValidator(_values, json_schema_input_type=CustomValue | list[CustomValue])
]
IncidentLabels = Annotated[dict[CustomKey, _IncidentValues], BeforeValidator(_map)]
Observed = Annotated[dict[str, Any], BeforeValidator(_map)]


class KubernetesContext(Model):
    """Environment of the affected resource."""

    custom_labels: IncidentLabels | None = Field(
        default=None,
        description="Labels of the incident itself, such as team. A workflow may have any of the values of a label. "
        "Appended to every search for this incident; the model does not see them.",
    )
    detected_labels: Observed | None = Field(
        default=None,
        description="Labels detected on the resource, such as hpaEnabled: true or gitOpsTool: argocd.",
    )


class EnrichmentResults(Model):
    """Results of signal processing."""

    kubernetes_context: KubernetesContext | None = None
    custom_labels: IncidentLabels | None = Field(
        default=None, description="Former location of kubernetesContext.customLabels. Used when that is empty."
    )
    detected_labels: Observed | None = Field(
        default=None, description="Former location of kubernetesContext.detectedLabels. A key that is set there wins."
    )


class TargetResource(Model):
    """Resource affected by the incident."""

    kind: Text = Field(default="", description="Its kind, such as Deployment.")
    name: Text = Field(default="", description="Its name.")
    namespace: Text = Field(default="", description="Its namespace. Searches return workflows of this namespace, too.")
    api_version: Text = Field(default="", description="Its API version, such as apps/v1.")


class SignalContext(Model):
    """The incident as the alert described it. Environment, priority and cluster constrain every search for it."""

    environment: Text = Field(default="", description="Environment of the incident, such as production.")
    business_priority: Text = Field(default="", description="Business priority, such as P0.")
    severity: Text = Field(default="", description="Severity of the alert, such as critical.")
    signal_name: Text = Field(default="", description="Signal of the alert, such as OOMKilled.")
    cluster: Text = Field(
        default="", description="Cluster of the incident. Only workflows that name it, or *, are returned."
    )
    target_resource: TargetResource = TargetResource()
    enrichment_results: EnrichmentResults = EnrichmentResults()


class AnalysisRequest(Model):
    """Request for the analysis."""

    signal_context: SignalContext


class AnalysisSpec(Model):
    """The incident to analyse. Its labels constrain what agents find for it."""

    remediation_id: Annotated[Text, Field(min_length=1, max_length=253)] = Field(
        description="Id of the incident. Agents send it as X-Remediation-Id with every call."
    )
    analysis_request: AnalysisRequest


class PostRCAContext(Model):
    """What the analysis learned later."""

    detected_labels: Observed = Field(default={})


class AnalysisStatus(Model):
    """The status of an AIAnalysis, as far as it is read."""

    post_rca_context: PostRCAContext | None = Field(default=None, alias="postRCAContext")


class AnalysisMetadata(Metadata):
    """Metadata with the annotation that names strict custom labels."""

    annotations: Annotated[dict[str, str], BeforeValidator(_map)] = Field(default={})


class AIAnalysis(Model):
    """One AIAnalysis object."""

    metadata: AnalysisMetadata
    spec: AnalysisSpec
    status: AnalysisStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The incident or the target a call belongs to: what the server appends to every search. Never shown to the model.

    That of a target has no name and no remediation id, that of an alert no name: `alert` is `namespace/name` of the
    source that sent it, and its constraints are those of its target. `target_owners` are `kind/name` of what controls
    it, as far as it is known, `target_node` is what it runs on, `target_selector` how its workload selects its pods.
    `note` is what an answer says of how the context was found.
    """

    namespace: str
    name: str
    remediation_id: str
    environment: str = ""
    priority: str = ""
    business_category: str = ""
    risk_tolerance: str = ""
    cluster: str = ""
    severity: str = ""
    signal_name: str = ""
    target_namespace: str = ""
    target_api_version: str = ""
    target_kind: str = ""
    target_name: str = ""
    target_owners: tuple[str, ...] = ()
    target_node: str = ""
    target_selector: str = ""
    custom_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    strict_keys: frozenset[str] = field(default=frozenset(), repr=False)
    detected_labels: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    alert: str = ""

    @property
    def analysis(self) -> str:
        """The AIAnalysis as `namespace/name`; empty for the context of a target."""
        return f"{self.namespace}/{self.name}" if self.name else ""

    @property
    def target(self) -> str:
        """The affected resource as `namespace/kind/name`, as far as it is known."""
        return "/".join(filter(None, (self.target_namespace, self.target_kind, self.target_name)))


def request_context(analysis: AIAnalysis, *, namespace: str) -> RequestContext:
    """The context that an AIAnalysis describes; `namespace` fills in where the manifest names none."""
    signal = analysis.spec.analysis_request.signal_context
    target = signal.target_resource
    annotation = analysis.metadata.annotations.get(STRICT_KEYS_ANNOTATION, "")
    return RequestContext(
        namespace=analysis.metadata.namespace or namespace,
        name=analysis.metadata.name,
        remediation_id=analysis.spec.remediation_id,
        environment=_shown(signal.environment),
        priority=_shown(signal.business_priority),
        cluster=_shown(signal.cluster),
        severity=_shown(signal.severity),
        signal_name=_shown(signal.signal_name),
        target_namespace=_shown(target.namespace),
        target_api_version=_shown(target.api_version),
        target_kind=_shown(target.kind),
        target_name=_shown(target.name),
        custom_labels={key: tuple(values) for key, values in _custom_labels(signal).items() if values},
        strict_keys=frozenset(key for part in annotation.split(",") if (key := part.strip())),
        detected_labels=_detected_labels(analysis),
    )


def _shown(text: str) -> str:
    """What messages quote of an incident. With a mark in it, it fits no more workflows than without."""
    return visible(text.strip())


def constraints_of(context: RequestContext, *, strict_keys: frozenset[str]) -> Constraints:
    """What the context alone demands of a workflow. `strict_keys` are those of the settings."""
    labels = {dimension: getattr(context, dimension) for dimension in CONTEXT_DIMENSIONS}
    return Constraints(
        values={dimension: frozenset({fold(value)}) for dimension, value in labels.items() if value},
        custom=demanded(context.custom_labels),
        strict_keys=context.strict_keys | strict_keys | STANDARD_KEYS,
        detected=context.detected_labels,
    )


def same_incident(one: RequestContext, other: RequestContext) -> bool:
    """Whether two contexts lead to the same answers and to the same runs.

    Their namespaces count: who copies an id of somebody else's incident must not choose what is offered for it. So does
    whether one is an alert, whose constraints are not known here.
    """
    nothing: frozenset[str] = frozenset()
    places = ((each.namespace, target_parts(each), bool(each.alert)) for each in (one, other))
    return len(set(places)) == 1 and (
        constraints_of(one, strict_keys=nothing) == constraints_of(other, strict_keys=nothing)
    )


def target_parts(context: RequestContext) -> tuple[str, str, str, str]:
    """API version, kind, name and namespace of the resource affected by the incident."""
    return context.target_api_version, context.target_kind, context.target_name, context.target_namespace


def _custom_labels(signal: SignalContext) -> Mapping[str, list[str]]:
    enrichment = signal.enrichment_results
    current = enrichment.kubernetes_context
    return (current.custom_labels if current is not None else None) or enrichment.custom_labels or {}


def _detected_labels(analysis: AIAnalysis) -> Mapping[str, str]:
    """Later findings win; detections that upstream reports as failed say nothing."""
    enrichment = analysis.spec.analysis_request.signal_context.enrichment_results
    current = enrichment.kubernetes_context
    sources = [
        enrichment.detected_labels or {},
        (current.detected_labels if current is not None else None) or {},
        analysis.status.post_rca_context.detected_labels
        if analysis.status and analysis.status.post_rca_context
        else {},
    ]
    merged: dict[str, str] = {}
    for source in sources:
        failed = source.get("failedDetections")
        unknown = set(failed) if isinstance(failed, list) else set()
        merged |= {
            key: normalize_detected(value)
            for key, value in source.items()
            if isinstance(value, bool | str) and key not in unknown and value != ""
        }
    return merged
