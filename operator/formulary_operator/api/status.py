"""What the statuses of our kinds have in common, and those of kinds whose fields are the catalog's."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from formulary_catalog.domain.workflows.manifest import Model

Generation = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
CatalogStatus = Literal["Active", "Invalid", "Pending", "Disabled", "Superseded"]


class Condition(Model):
    """One aspect of the object's state, in the form that all of Kubernetes uses."""

    type: str = Field(
        min_length=1,
        max_length=316,
        description="Type of the condition.",
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Status of the condition.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this condition describes."
    )
    last_transition_time: datetime = Field(description="Time of the last change of the status.")
    reason: str = Field(
        min_length=1,
        max_length=1024,
        pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        description="Reason in one word, such as VersionImmutable.",
    )
    message: str = Field(max_length=32768, description="Explanation, and the next step.")


Conditions = Annotated[
    list[Condition],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class WorkflowStatus(Model):
    """State of the workflow in the catalog. Written by the operator only."""

    workflow_id: str | None = Field(default=None, description="Name that agents use.")
    version_id: str | None = Field(
        default=None,
        description="Id of the served content: wf_ver_ and 20 hex digits. The same content has the same id.",
    )
    content_hash: str | None = Field(default=None, description="SHA-256 of the served content, in hex.")
    catalog_status: CatalogStatus | None = Field(
        default=None,
        description="Active: served. Invalid: refused; the condition Ready names the field, the fix, and what is still"
        " served. Pending: waiting for the catalog. Disabled: suspended. Superseded: never set; upstream has it.",
    )
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this status describes."
    )
    embedding_model: str | None = Field(default=None, description="Embedding model of the workflow's vector.")
    indexed_at: datetime | None = Field(default=None, description="Time at which this content became searchable.")
    conditions: Conditions = Field(
        default=[],
        description="Ready: the content that was applied last is served. Indexed: it can be found by meaning. "
        "Invocable: agents can run it. Reasons and messages say what to do.",
    )


class SourceStatus(Model):
    """State of the source. Written by the operator only."""

    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this status describes."
    )
    conditions: Conditions = Field(
        default=[],
        description="Ready: alerts are taken; if false, the message names what is missing. Mapped: all alerts could be "
        "used; if false, the message names the last one that could not, and why.",
    )


class ContractStatus(Model):
    """State of the contract. Written by the operator only."""

    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this status describes."
    )
    conditions: Conditions = Field(
        default=[],
        description="Ready: the rules that were applied last are in force. If false, the last valid rules are in "
        "force, and the message names the field, the value and the problem.",
    )
