"""Arguments of the tools and endpoints that browse; `domain/workflows/requests` checks what their texts hold."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.domain.search.request import MAX_LABEL_LENGTH
from formulary_catalog.domain.workflows.relations import MAX_DEPTH, RELATIONS
from formulary_catalog.domain.workflows.requests import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_NAME_LENGTH,
    RISK_LEVELS,
    ApprovalsRequest,
    ListingRequest,
    RelatedRequest,
    approvals_request,
    listing_request,
    named_text,
    related_request,
    section_request,
)
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.server.calls.arguments.base import Arguments
from formulary_catalog.server.calls.arguments.catalog import Words
from formulary_catalog.settings import LabelSpelling

MAX_PAGE = 1000
MAX_OFFSET = 1_000_000

_LIMIT = Field(ge=1, le=MAX_LIMIT, description=f"At most so many; {DEFAULT_LIMIT} without it.")
Limit = Annotated[int, _LIMIT]
LimitThatFits = Annotated[int | None, _LIMIT]
"""Without it as many as fit, up to the same."""
Namespace = Annotated[
    str, Field(max_length=MAX_LABEL_LENGTH, description="Those of this namespace.", examples=["formulary"])
]
Text = Annotated[
    str,
    Field(
        max_length=MAX_LABEL_LENGTH,
        description="Those with each of these words in the name, title, action or a signal.",
        examples=["memory limit"],
    ),
]
WorkflowId = Annotated[
    str,
    Field(
        max_length=MAX_NAME_LENGTH,
        description="workflow_id of an answer; also namespace/name, name@version or a version_id.",
        examples=["oom-raise-memory-limit"],
    ),
]


class BrowsingArguments(Arguments):
    """Arguments that make a request of the domain, which checks them once more while they are read."""

    @classmethod
    def read(cls, given: Mapping[str, Any], *, spelling: LabelSpelling = LabelSpelling.DOTTED) -> Self:
        arguments = super().read(given, spelling=spelling)
        _ = arguments.request
        return arguments

    @property
    @abstractmethod
    def request(self) -> Any:
        """What is asked for.

        Raises:
            InvalidInput: a text is not one that the domain knows, or hides something.
        """


class FilterArguments(BrowsingArguments):
    """What narrows a list of workflows."""

    signal_type: str = Field(
        "", max_length=MAX_LABEL_LENGTH, description="Those that answer this signal or alert.", examples=["OOMKilled"]
    )
    action_type: str = Field(
        "", max_length=MAX_LABEL_LENGTH, description="Those with this action.", examples=["IncreaseMemoryLimits"]
    )
    namespace: Namespace = ""
    risk_level: str = Field(
        "",
        max_length=MAX_LABEL_LENGTH,
        description="Those with this risk.",
        examples=["low"],
        json_schema_extra={"enum": list(RISK_LEVELS)},
    )
    status: str = Field(
        "", max_length=MAX_LABEL_LENGTH, description="Active; others are for people.", examples=["Active"]
    )

    @property
    def request(self) -> ListingRequest:
        return listing_request(**{name: value for name, value in self if value is not None}, max_limit=MAX_PAGE)


class ListArguments(FilterArguments):
    """Which workflows are to be listed."""

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
    offset: int = Field(
        0, ge=0, le=MAX_OFFSET, description="How many to leave out before; none without it.", examples=[20]
    )


class RelatedArguments(BrowsingArguments):
    """Where to begin in the graph of workflows, and how far to go."""

    entity: str = Field(
        max_length=MAX_NAME_LENGTH,
        description="A workflow_id, a signal type or an action type.",
        examples=["oom-raise-memory-limit"],
    )
    depth: int = Field(1, ge=1, le=MAX_DEPTH, description="Steps to walk; 1 without it.", examples=[2])
    relations: Words = Field(
        (),
        description=f"Only these, separated by commas: {', '.join(RELATIONS)}.",
        examples=["escalatesTo, requires"],
    )
    limit: Limit = Field(DEFAULT_LIMIT, examples=[10])

    @property
    def request(self) -> RelatedRequest:
        return related_request(**dict(self))


class NameArguments(BrowsingArguments):
    """What a workflow may be called."""

    name: str = Field(
        max_length=MAX_NAME_LENGTH,
        description="A name or a part of one, a version_id, a signal or alert, or a title.",
        examples=["memory-limit"],
    )

    @property
    def request(self) -> str:
        return named_text(self.name, field="name", example="memory-limit")


class ImpactArguments(BrowsingArguments):
    """The workflow that may be missed."""

    workflow_id: WorkflowId

    @property
    def request(self) -> str:
        return named_text(self.workflow_id, field="workflow_id", example="oom-raise-memory-limit")


class DifferenceArguments(Arguments):
    """Which versions are to be compared."""

    workflow_id: WorkflowId
    against: str = Field(max_length=MAX_LABEL_LENGTH, description="Version to compare it with.", examples=["1.0.0"])


class SectionArguments(BrowsingArguments):
    """The section to read."""

    workflow_id: WorkflowId
    section: str = Field(
        max_length=MAX_LABEL_LENGTH,
        description="The section to read.",
        examples=["when_not_to_use"],
        json_schema_extra={"enum": list(SECTIONS)},
    )

    @property
    def request(self) -> tuple[str, str]:
        return section_request(workflow_id=self.workflow_id, section=self.section)


class ApprovalsArguments(BrowsingArguments):
    """Whose waiting runs are to be listed."""

    namespace: Namespace = ""
    limit: Limit = Field(DEFAULT_LIMIT, examples=[10])

    @property
    def request(self) -> ApprovalsRequest:
        return approvals_request(namespace=self.namespace, limit=self.limit)


class NoArguments(Arguments):
    """There is nothing to say."""
