"""Arguments of the tools and endpoints that browse. `request` is what they ask for, in the words of the domain."""

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic import field_validator as validator

from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.workflows.relations import MAX_DEPTH, RELATIONS, Relation
from formulary_catalog.domain.workflows.requests import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_NAME_LENGTH,
    ApprovalsRequest,
    ListedStatus,
    ListingRequest,
    RelatedRequest,
    RiskLevel,
)
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.operations.arguments.base import Arguments, Label, Name, OneOf, choice
from formulary_catalog.operations.arguments.catalog import Words
from formulary_catalog.operations.arguments.refusals import broken
from formulary_catalog.operations.arguments.target import Targeted

MAX_PAGE = 1000
MAX_OFFSET = 1_000_000
_OLDER_STATUSES = {"INDEXED": "Active", "FAILED": "Invalid"}
_OLDER_RELATIONS = {"DEPENDS_ON": "requires", "REFERENCES": "mentions", "IMPLEMENTS": "answersSignal"}
"""What clients of ADR-0004 say for ours; so are `domain` and `edge_types`."""

_LIMIT = Field(ge=1, le=MAX_LIMIT, description=f"How many results; {DEFAULT_LIMIT} without it.")
Limit = Annotated[int, _LIMIT]
LimitThatFits = Annotated[int | None, _LIMIT]
"""Without it as many as fit, up to the same."""
Namespace = Annotated[Label, Field(description="Only this namespace.", examples=["formulary"])]
Text = Annotated[
    Label,
    Field(
        description="Only workflows with each of these words in their name, title, action or a signal.",
        examples=["memory limit"],
    ),
]
WorkflowId = Annotated[
    str,
    Field(
        max_length=MAX_NAME_LENGTH,
        description="workflow_id, uri or version_id of an answer, or name@version.",
        examples=["oom-raise-memory-limit"],
    ),
]


class FilterArguments(Arguments):
    """What narrows a list of workflows."""

    signal_type: Label = Field("", description="Only workflows for this signal or alert.", examples=["OOMKilled"])
    action_type: Label = Field("", description="Only this action.", examples=["IncreaseMemoryLimits"])
    namespace: Namespace = Field("", validation_alias=AliasChoices("namespace", "domain"))
    risk_level: Annotated[RiskLevel | Literal[""], OneOf()] = Field(
        "", description="Only this risk level.", examples=["low"]
    )
    status: Annotated[ListedStatus, OneOf(also=_OLDER_STATUSES, listed=False)] = Field(
        "Active", description="Only this status; Active without it.", examples=["Active"]
    )

    @property
    def request(self) -> ListingRequest:
        """The list that is asked for."""
        asked = {name: value for name, value in self if name not in Targeted.model_fields}
        return ListingRequest(**{name: value for name, value in asked.items() if value is not None})


class ListArguments(Targeted, FilterArguments):
    """Which workflows are to be listed, and what is broken."""

    limit: LimitThatFits = Field(None, examples=[10])
    cursor: str = Field(
        "",
        max_length=MAX_CURSOR_LENGTH,
        description="next_cursor of the answer before.",
        examples=["WyJhIl0"],
    )


class FacetsArguments(FilterArguments):
    """Of which list it is asked what narrows it."""

    text: Text = ""


class PageArguments(ListArguments):
    """The same for programs, which may ask for long pages and for any place in the list."""

    text: Text = ""
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="How many to return; 100 without it.", examples=[20])
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="Number of workflows to skip; 0 without it.", examples=[20])

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.cursor and self.offset:
            raise broken("and cursor are both given; give one of them", name="offset")
        return self


class RefusedArguments(Arguments):
    """Which refused objects are to be listed."""

    namespace: Namespace = ""
    text: Label = Field(
        "", description="Only objects with each of these words in their name, reason or message.", examples=["severity"]
    )
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="How many to return; 100 without it.", examples=[20])
    cursor: str = Field(
        "", max_length=MAX_CURSOR_LENGTH, description="next_cursor of the answer before.", examples=["WyJhIl0"]
    )

    @property
    def request(self) -> ListingRequest:
        """The list that is asked for."""
        return ListingRequest(**dict(self))


class RelatedArguments(Targeted):
    """Where to begin in the graph of workflows, how far to go, and what is broken."""

    entity: Name = Field(
        description="A workflow_id, a signal type or an action type.", examples=["oom-raise-memory-limit"]
    )
    depth: int = Field(1, ge=1, le=MAX_DEPTH, description="Steps to walk; 1 without it.", examples=[2])
    relations: Words = Field(
        (),
        validation_alias=AliasChoices("relations", "edge_types"),
        description=f"Only these, separated by commas: {', '.join(RELATIONS)}.",
        examples=["escalatesTo, requires"],
    )
    limit: Limit = Field(DEFAULT_LIMIT, examples=[10])

    @validator("relations")
    @classmethod
    def _known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(choice(each, among=RELATIONS, also=_OLDER_RELATIONS) for each in given))

    @property
    def request(self) -> RelatedRequest:
        """The walk that is asked for."""
        relations = tuple(map(Relation, self.relations)) or tuple(Relation)
        return RelatedRequest(entity=self.entity, depth=self.depth, relations=relations, limit=self.limit)


class RelatedPageArguments(RelatedArguments):
    """The same for programs, which may go on where a page ends."""

    cursor: str = Field("", max_length=MAX_CURSOR_LENGTH, description="next_cursor of the page before.")

    @property
    def request(self) -> RelatedRequest:
        """The page that is asked for."""
        return replace(super().request, cursor=self.cursor)


class NameArguments(Targeted):
    """What a workflow may be called."""

    name: Name = Field(
        description="A name or a part of one, a version_id, a signal or alert, or a title.",
        examples=["memory-limit", "KubeNodeNotReady"],
    )


class ImpactArguments(Targeted):
    """The workflow that may be missed."""

    workflow_id: WorkflowId


class DifferenceArguments(Arguments):
    """Which versions are to be compared."""

    workflow_id: WorkflowId
    against: str = Field(max_length=MAX_LABEL_LENGTH, description="Version to compare it with.", examples=["1.0.0"])


class SectionArguments(Targeted):
    """The section to read."""

    workflow_id: WorkflowId
    section: Annotated[str, OneOf(SECTIONS)] = Field(
        description="The section to read.", examples=["when_not_to_use", "steps"]
    )


class ApprovalsArguments(Arguments):
    """Whose waiting runs are to be listed."""

    namespace: Namespace = ""
    limit: Limit = Field(DEFAULT_LIMIT, examples=[10])

    @property
    def request(self) -> ApprovalsRequest:
        """The list that is asked for."""
        return ApprovalsRequest(namespace=self.namespace, limit=self.limit)


class NoArguments(Targeted):
    """There is nothing to say."""
