"""RemediationWorkflow: upstream's fields and ours (DESIGN section 3, `kubernaut.ai/v1alpha1`).

Tolerant where upstream's own manifests vary (a scalar for a list, `v1.2.0`, quoted booleans, unknown extra fields),
strict where a guess could serve the wrong workflow.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.labels import WorkflowLabels, fold_all, normalize_detected
from formulary_catalog.domain.text import exclusion_text, split_camel_case, with_split_words

KIND = "RemediationWorkflow"
MAX_TEXT = 10_000
MAX_LEXICAL_TEXT = 100_000
"""Characters that are indexed by word: beyond about a megabyte of words PostgreSQL would refuse the row."""
_DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE_RELEASE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"v?({_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE_RELEASE}(?:\.{_PRE_RELEASE})*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)"
)


def _as_list(value: object) -> object:
    """A bare scalar stands for a list of one, as in upstream's older manifests."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _semantic_version(value: str) -> str:
    matched = _SEMVER.fullmatch(value)
    if matched is None:
        raise ValueError('must be a semantic version such as "1.2.0" (a leading v is dropped)')
    return matched.group(1)


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain the NUL character")
    return value


def _filled(value: str) -> str:
    stripped = value.strip()
    if not stripped:
        raise ValueError("must not be blank")
    return stripped


def _detected(value: object) -> object:
    return normalize_detected(value) if isinstance(value, bool | str) else value


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), AfterValidator(_without_nul)]
FilledText = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_TEXT), AfterValidator(_without_nul), AfterValidator(_filled)
]
LabelValue = Annotated[
    str, StringConstraints(min_length=1, max_length=253), AfterValidator(_without_nul), AfterValidator(_filled)
]
LabelValues = Annotated[list[LabelValue], BeforeValidator(_as_list)]
RequiredLabelValues = Annotated[LabelValues, Field(min_length=1)]
CustomValue = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_without_nul)]
CustomKey = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_without_nul)]
CustomValues = Annotated[list[CustomValue], BeforeValidator(_as_list)]
Texts = Annotated[list[FilledText], BeforeValidator(_as_list)]
RiskLevel = Literal["low", "medium", "high"]


class Model(BaseModel):
    """Base of all parts: camelCase on the wire, unknown fields kept, no coercion of wrong types into text."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        """An explicit null is an absent field, as for the API server."""
        if not isinstance(value, dict):
            return value
        return {key: member for key, member in value.items() if member is not None}


class Description(Model):
    """What the workflow does and when."""

    what: FilledText = Field(description="What the workflow does.")
    when_to_use: FilledText = Field(description="Symptoms and evidence that call for it.")
    when_not_to_use: Text = Field(default="", description="When it would harm, and what to take instead.")
    preconditions: Text = Field(default="", description="What must hold before it runs.")


class Labels(Model):
    """Where the workflow may be used. `*` in a list matches everything; an absent label is generic."""

    signal_type: LabelValues = Field(default=[], description="Signal types it answers, such as OOMKilled.")
    severity: RequiredLabelValues = Field(description="Severities it is meant for.")
    environment: RequiredLabelValues = Field(description="Environments in which it may be used.")
    component: RequiredLabelValues = Field(description="Kinds it acts on, such as apps/v1/Deployment.")
    priority: RequiredLabelValues = Field(description="Business priorities, such as P0.")
    risk_tolerance: LabelValues = Field(default=[], description="Risk tolerances that accept it.")
    business_category: LabelValues = Field(default=[], description="Business categories it is meant for.")
    cluster: LabelValues = Field(default=[], description="Clusters; asking for one excludes workflows without.")


class Execution(Model):
    """How the workflow is run."""

    engine: Literal["tekton", "job", "ansible", "argo"] = Field(default="job", description="Execution engine.")
    bundle: Text = Field(default="", description="Image or bundle that carries the workflow.")
    bundle_digest: Text = Field(default="", description="Digest of the bundle.")
    engine_config: Any = Field(default=None, description="Settings of the engine, passed on unchanged.")
    service_account_name: Text = Field(default="", description="ServiceAccount it runs as.")


class NamedReference(Model):
    """A Secret or ConfigMap by name."""

    name: FilledText


class Dependencies(Model):
    """What must exist in the namespace before a run."""

    secrets: list[NamedReference] = []
    config_maps: list[NamedReference] = []


class Maintainer(Model):
    """Whom to ask."""

    name: FilledText
    email: Annotated[FilledText, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]


class Parameter(Model):
    """One input of the workflow."""

    name: FilledText
    type: Literal["string", "integer", "boolean", "array", "float"]
    required: bool
    description: FilledText
    enum: list[Any] | None = None
    pattern: Text | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: Any = None
    depends_on: Annotated[list[FilledText], BeforeValidator(_as_list)] = []


class Step(Model):
    """One step with the command that carries it out."""

    name: FilledText
    description: Text = ""
    command: Text = ""


class RelatedWorkflow(Model):
    """Another workflow that belongs to this one."""

    name: FilledText
    relation: Literal["escalatesTo", "supersedes", "rollbackOf", "requires"]


class Metadata(Model):
    """The part of Kubernetes object metadata that the catalog reads."""

    name: Annotated[str, StringConstraints(pattern=_DNS_SUBDOMAIN, max_length=253)]
    namespace: Annotated[str, StringConstraints(pattern=_DNS_LABEL, max_length=63)] | None = None


class WorkflowSpec(Model):
    """The spec of a RemediationWorkflow."""

    version: Annotated[str, StringConstraints(max_length=50), AfterValidator(_semantic_version)]
    title: Text = ""
    description: Description
    action_type: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=100)]
    labels: Labels
    custom_labels: dict[CustomKey, CustomValues] = {}
    detected_labels: dict[CustomKey, Annotated[Text, BeforeValidator(_detected)]] = {}
    keywords: Texts = []
    execution: Execution
    dependencies: Dependencies = Dependencies()
    maintainers: list[Maintainer] = []
    parameters: list[Parameter] = []
    rollback_parameters: list[Parameter] = []
    steps: list[Step] = []
    prerequisites: Texts = []
    rollback_steps: list[Step] = []
    estimated_duration: Text = ""
    risk_level: RiskLevel | None = None
    related: list[RelatedWorkflow] = []
    suspend: bool = False


class RemediationWorkflow(Model):
    """One workflow manifest."""

    api_version: Literal["kubernaut.ai/v1alpha1"]
    kind: Literal["RemediationWorkflow"]
    metadata: Metadata
    spec: WorkflowSpec


def title_of(workflow: RemediationWorkflow) -> str:
    """The declared title, else one made of the name."""
    return workflow.spec.title or workflow.metadata.name.replace("-", " ").capitalize()


def labels_of(spec: WorkflowSpec, *, name: str) -> WorkflowLabels:
    """The labels in the form in which `matching` and the search table compare them."""
    values = {
        dimension: folded for dimension in Labels.model_fields if (folded := fold_all(getattr(spec.labels, dimension)))
    }
    description = spec.description
    return WorkflowLabels(
        values=values,
        custom={key: frozenset(declared) for key, declared in spec.custom_labels.items() if declared},
        detected=dict(spec.detected_labels),
        exclusion_text=exclusion_text(
            [
                name,
                spec.title,
                description.what,
                description.when_to_use,
                *spec.keywords,
                spec.action_type,
            ]
        ),
    )


def embedding_text(spec: WorkflowSpec, *, name: str) -> str:
    """The text whose vector stands for the workflow: name, when to use, what; nothing negative, no labels."""
    readable_name = name.replace("-", " ").replace(".", " ")
    return with_split_words(f"{readable_name}. {spec.description.when_to_use} {spec.description.what}")


def lexical_text(spec: WorkflowSpec, *, name: str) -> str:
    """The text of the lexical index: the embedded text and the author's own words for it."""
    action = " ".join(split_camel_case(spec.action_type))
    own_words = with_split_words(" ".join([spec.title, action, *spec.keywords]))
    return f"{embedding_text(spec, name=name)}\n{own_words}"[:MAX_LEXICAL_TEXT]
