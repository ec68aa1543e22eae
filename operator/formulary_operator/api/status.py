"""What the statuses of our kinds have in common, and that of a RemediationWorkflow. Their schemas come from here."""

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
        description="Which aspect; the list says what each of its types means.",
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this is said of."
    )
    last_transition_time: datetime = Field(description="When the status changed last.")
    reason: str = Field(
        min_length=1,
        max_length=1024,
        pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        description="Why, in one word for programs, such as VersionImmutable.",
    )
    message: str = Field(max_length=32768, description="Why, and what to do about it.")


Conditions = Annotated[
    list[Condition],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class WorkflowStatus(Model):
    """What the operator has made of the workflow. Written by the operator alone."""

    workflow_id: str | None = Field(default=None, description="Name under which agents find it.")
    version_id: str | None = Field(
        default=None, description="Id of the served content, wf_ver_ and 20 hex digits; the same for the same content."
    )
    content_hash: str | None = Field(default=None, description="SHA-256 of the served content, in hex.")
    catalog_status: CatalogStatus | None = Field(
        default=None,
        description="Active: served. Invalid: refused; the condition Ready tells the field, the fix, and what is still "
        "served. Pending: waiting for the catalog. Disabled: suspended. Superseded: another version is served.",
    )
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that all this is said of."
    )
    embedding_model: str | None = Field(default=None, description="Model whose vector stands for it in searches.")
    indexed_at: datetime | None = Field(default=None, description="When it became searchable with this content.")
    conditions: Conditions = Field(
        default=[],
        description="Ready: the content as it was applied last is served. Indexed: it can be found by its meaning. "
        "Invocable: agents can have it run. With reasons and messages that a person can act on.",
    )
