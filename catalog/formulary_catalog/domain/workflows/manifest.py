"""RemediationWorkflow: upstream's fields and ours (DESIGN section 3, `kubernaut.ai/v1alpha1`).

Tolerant where upstream's own manifests vary (a scalar for a list, `v1.2.0`, quoted booleans, unknown extra fields),
strict where a guess could serve the wrong workflow.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.patterns import (
    ADDRESS,
    CAMEL_CASE,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    DURATION,
    DURATION_FROM_MINUTE,
    EMAIL,
)
from formulary_catalog.domain.text import WordPlace, exclusion_text, split_camel_case, with_split_words
from formulary_catalog.domain.workflows.labels import WorkflowLabels, declared, fold_all, normalize_detected

KIND = "RemediationWorkflow"
MAX_TEXT = 10_000
MAX_LEXICAL_TEXT = 10_000
"""Characters of a field that are indexed by word: what is longer would slow down every search that looks at it."""
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE_RELEASE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER_PATTERN = (
    rf"v?({_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE_RELEASE}(?:\.{_PRE_RELEASE})*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)"
)
_SEMVER = re.compile(_SEMVER_PATTERN)


def _as_list(value: object) -> object:
    """A bare scalar means a list of one, as in upstream's older manifests."""
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


# What validators do is invisible to a JSON Schema: `json_schema_extra` and `json_schema_input_type` declare it.
_NOT_BLANK = Field(json_schema_extra={"pattern": r"\S"})
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), AfterValidator(_without_nul)]
FilledText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TEXT),
    AfterValidator(_without_nul),
    AfterValidator(_filled),
    _NOT_BLANK,
]
LabelValue = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253),
    AfterValidator(_without_nul),
    AfterValidator(_filled),
    _NOT_BLANK,
]
LabelValues = Annotated[
    list[LabelValue], BeforeValidator(_as_list, json_schema_input_type=LabelValue | list[LabelValue])
]
RequiredLabelValues = Annotated[LabelValues, Field(min_length=1)]
CustomValue = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_without_nul)]
CustomKey = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_without_nul)]
CustomValues = Annotated[
    list[CustomValue], BeforeValidator(_as_list, json_schema_input_type=CustomValue | list[CustomValue])
]
DetectedValue = Annotated[Text, BeforeValidator(_detected, json_schema_input_type=bool | Text)]
Texts = Annotated[list[FilledText], BeforeValidator(_as_list, json_schema_input_type=FilledText | list[FilledText])]
Duration = Annotated[str, StringConstraints(pattern=DURATION)]
DurationFromMinute = Annotated[str, StringConstraints(pattern=DURATION_FROM_MINUTE)]
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
    """What the workflow does and when. An agent chooses by these words: write those of alerts, events and logs."""

    what: FilledText = Field(description="What the workflow does, in a sentence or two. Ranks the workflow.")
    when_to_use: FilledText = Field(
        description="Symptoms and evidence that call for it: alert names, event reasons, exit codes, messages. Carries "
        "most of the ranking."
    )
    when_not_to_use: Text = Field(
        default="", description="When it would harm, and what to take instead. For the reader; ranks nothing."
    )
    preconditions: Text = Field(default="", description="What must hold before it runs. For the reader; ranks nothing.")


class Labels(Model):
    """Where the workflow may be used. Labels are hard filters: the workflow is never returned for an incident that
    they exclude. Each label is one value or a list, of which any may match. Case is ignored. `*` matches
    everything. A workflow without the label is allowed, and ranks below one that names the value.
    """

    signal_type: LabelValues = Field(
        default=[], description="Signal types it answers, such as OOMKilled or CrashLoopBackOff. One or a list."
    )
    severity: RequiredLabelValues = Field(
        description="Severities it is meant for, such as critical or high; `*` for all. One or a list."
    )
    environment: RequiredLabelValues = Field(
        description="Environments in which it may be used, such as production; `*` for all. One or a list."
    )
    component: RequiredLabelValues = Field(
        description="Kinds it acts on, such as apps/v1/Deployment; `*` for all. One or a list."
    )
    priority: RequiredLabelValues = Field(
        description="Business priorities it is meant for, such as P0; `*` for all. One or a list."
    )
    risk_tolerance: LabelValues = Field(
        default=[], description="Risk tolerances that accept it: low, medium or high. One or a list."
    )
    business_category: LabelValues = Field(
        default=[], description="Business categories it is meant for, such as payments. One or a list."
    )
    cluster: LabelValues = Field(
        default=[],
        description="Clusters in which it may be used. An incident that names its cluster receives only workflows that"
        " name that cluster, or `*`. One or a list.",
    )


class Execution(Model):
    """How the workflow is run."""

    engine: Literal["tekton", "job", "ansible", "argo"] = Field(
        default="job",
        description="Engine that runs it: a Kubernetes Job, a Tekton pipeline, an Ansible playbook or an Argo "
        "workflow.",
    )
    bundle: Text = Field(
        default="",
        description="Image or bundle that contains the workflow, such as registry.example/remedies/oom:1.2.0.",
    )
    bundle_digest: Text = Field(
        default="", description="Digest that pins the bundle, such as sha256: and 64 hex digits."
    )
    engine_config: Any = Field(default=None, description="Settings of the engine, passed on unchanged.")
    service_account_name: Text = Field(
        default="", description="ServiceAccount of the run. It needs the permissions of the steps and no more."
    )


class NamedReference(Model):
    """A Secret or ConfigMap by name."""

    name: FilledText = Field(description="Its name, in the namespace in which the workflow runs.")


class Dependencies(Model):
    """What must exist in the namespace before a run."""

    secrets: list[NamedReference] = Field(default=[], description="Secrets that a run reads.")
    config_maps: list[NamedReference] = Field(default=[], description="ConfigMaps that a run reads.")


class Maintainer(Model):
    """People or teams to ask about the workflow."""

    name: FilledText = Field(description="A person or a team.")
    email: Annotated[FilledText, StringConstraints(pattern=EMAIL)] = Field(
        description="E-mail address.", json_schema_extra={"pattern": rf"^\s*{ADDRESS}\s*$"}
    )


class Parameter(Model):
    """One input of the workflow."""

    name: FilledText = Field(description="Its name, in capitals with underscores, such as MEMORY_LIMIT.")
    type: Literal["string", "integer", "boolean", "array", "float"] = Field(description="Type of its value.")
    required: bool = Field(description="Whether a run must be given a value.")
    description: FilledText = Field(description="What the value means, and how to determine it.")
    enum: list[Any] | None = Field(default=None, description="The only values allowed, of any type.")
    pattern: Text | None = Field(default=None, description="Regular expression that the value must match.")
    minimum: float | None = Field(default=None, description="Smallest value allowed.")
    maximum: float | None = Field(default=None, description="Largest value allowed.")
    default: Any = Field(default=None, description="Value where none is given, of any type.")
    depends_on: Texts = Field(
        default=[], description="Parameters that are required when this one is given. One or a list."
    )
    sensitive: bool = Field(
        default=False,
        description="Whether the value is secret. The run receives it in a Secret, and the audit trail keeps a digest.",
    )


class Step(Model):
    """One step with the command that carries it out."""

    name: FilledText = Field(description="A short name, such as raise-limit.")
    description: Text = Field(default="", description="What the step does or ensures.")
    command: Text = Field(
        default="", description="Shell command. Parameters are its environment variables: ${NAMESPACE}."
    )


class RelatedWorkflow(Model):
    """Another workflow that belongs to this one."""

    name: FilledText = Field(description="Name of the other workflow.")
    relation: Literal["escalatesTo", "supersedes", "rollbackOf", "requires"] = Field(
        description="Relation to the other workflow: escalatesTo (try it if this one does not help), supersedes (this "
        "one replaces it), rollbackOf (this one undoes it), requires (it must run first)."
    )


class Verification(Model):
    """When and by what a run is judged: it helped if the alert is resolved and the target is ready at the end of the
    window.
    """

    stabilization: Duration | None = Field(
        default=None, description="Time after a run in which changes do not count, such as 90s. Defaults to 5m."
    )
    window: DurationFromMinute | None = Field(
        default=None,
        description="Time after the stabilization, at the end of which the outcome is decided. At least 60s; defaults "
        "to 10m.",
    )
    query: Annotated[str, StringConstraints(pattern=DNS_LABEL, max_length=63)] | None = Field(
        default=None,
        description="Name of a PromQL query of the installation (`outcomes.queries` of the chart). It helped only if "
        "that is 1, too.",
    )


class Metadata(Model):
    """The part of Kubernetes object metadata that the catalog reads."""

    name: Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN, max_length=253)]
    namespace: Annotated[str, StringConstraints(pattern=DNS_LABEL, max_length=63)] | None = None


class WorkflowSpec(Model):
    """What the workflow is for, where it may be used, and how it runs. A version is immutable: raise `version` with
    every change. Otherwise the change is refused and the former content stays served. Only `suspend` may change
    in place.
    """

    version: Annotated[str, StringConstraints(max_length=50), AfterValidator(_semantic_version)] = Field(
        description="Semantic version, such as 1.2.0. A leading v is dropped. A new version supersedes the previous "
        "one, which stays readable by its id.",
        json_schema_extra={"pattern": rf"^{_SEMVER_PATTERN}$"},
    )
    title: Text = Field(default="", description="Display name. Defaults to the name in words.")
    description: Description
    action_type: Annotated[str, StringConstraints(pattern=CAMEL_CASE, max_length=100)] = Field(
        description="Kind of action, in CamelCase, such as IncreaseMemoryLimits."
    )
    labels: Labels
    custom_labels: dict[CustomKey, CustomValues] = Field(
        default={},
        description="Labels of your own, such as team or region, each with one value or a list. The workflow is "
        "returned only for incidents that have one of the values for each key, or lack the key. `*` allows every "
        "value. Keys and values are compared exactly as written. Models never see them.",
    )
    detected_labels: dict[CustomKey, DetectedValue] = Field(
        default={},
        description="Requirements on the environment of the incident, such as hpaEnabled: true or gitOpsTool: argocd. "
        "The workflow is not returned where the opposite was detected. Booleans may be quoted.",
    )
    keywords: Texts = Field(default=[], description="Search words that the other texts do not contain. One or a list.")
    execution: Execution
    dependencies: Dependencies = Dependencies()
    maintainers: list[Maintainer] = Field(default=[], description="People or teams to ask about the workflow.")
    parameters: list[Parameter] = Field(default=[], description="Inputs of a run.")
    rollback_parameters: list[Parameter] = Field(default=[], description="Inputs of a rollback.")
    steps: list[Step] = Field(default=[], description="Steps, in order.")
    prerequisites: Texts = Field(default=[], description="Tools and permissions that a run needs. One or a list.")
    rollback_steps: list[Step] = Field(default=[], description="Steps that undo it, in order.")
    estimated_duration: Text = Field(default="", description="Expected duration of a run, such as 10m.")
    risk_level: RiskLevel | None = Field(default=None, description="Harm that a failed run may cause.")
    related: list[RelatedWorkflow] = Field(default=[], description="Related workflows.")
    verification: Verification = Verification()
    suspend: bool = Field(default=False, description="Keeps the workflow without serving it. May change in place.")


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
        custom=declared({key: frozenset(values) for key, values in spec.custom_labels.items() if values}),
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


def meaning_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of a spec that a version identifies: spellings unified, without defaults and without `suspend`.

    An API server writes defaults into objects, and others when its CRD changes: that must not look like an edit.

    Raises:
        ValidationError: it is not a valid spec.
    """
    return WorkflowSpec.model_validate(spec).model_dump(by_alias=True, exclude_defaults=True, exclude={"suspend"})


def embedding_text(spec: WorkflowSpec, *, name: str) -> str:
    """The text whose vector represents the workflow: name, when to use, what; nothing negative, no labels."""
    return with_split_words(f"{_readable(name)}. {spec.description.when_to_use} {spec.description.what}")


def lexical_texts(spec: WorkflowSpec, *, name: str) -> dict[WordPlace, str]:
    """What the lexical index holds, by field: the embedded texts, the author's own words, the declared signal types.

    The name is also held as one word: `kube-api-down` is what an object named after KubeAPIDown has to be called.
    """
    readable = _readable(name)
    action = " ".join(split_camel_case(spec.action_type))
    texts = {
        WordPlace.NAME: " ".join([readable, readable.replace(" ", ""), spec.title, action, *spec.keywords]),
        WordPlace.WHEN_TO_USE: spec.description.when_to_use,
        WordPlace.WHAT: spec.description.what,
        WordPlace.SIGNAL: " ".join(spec.labels.signal_type),
    }
    return {place: with_split_words(text)[:MAX_LEXICAL_TEXT] for place, text in texts.items()}


def _readable(name: str) -> str:
    return name.replace("-", " ").replace(".", " ")
