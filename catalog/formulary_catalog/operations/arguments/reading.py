"""Arguments of the endpoints that people read with: explanations, traces, incidents, runs and contracts."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.domain.runs.run import OUTCOMES, Phase
from formulary_catalog.domain.search.request import MAX_QUERY_LENGTH
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.workflows.requests import MAX_NAME_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Flag, OneOf
from formulary_catalog.operations.arguments.browsing import Namespace, WorkflowId
from formulary_catalog.operations.arguments.catalog import Labels, SearchFields, SearchId, labelled
from formulary_catalog.operations.arguments.refusals import broken
from formulary_catalog.operations.arguments.target import Targeted

MAX_PAGE = 200
DEFAULT_PAGE = 50
MAX_DAYS = 366
DEFAULT_DAYS = 30

Limit = Annotated[int, Field(ge=1, le=MAX_PAGE, description=f"Maximum number of results; {DEFAULT_PAGE} without it.")]
Cursor = Annotated[str, Field(max_length=MAX_CURSOR_LENGTH, description="next_cursor of the page before.")]
_STATES = {phase.state: phase for phase in Phase}
_OF_RECORDED = frozenset({"workflow", "search_id"})


@labelled(kind=Labels)
class _ExplainedQuery(Arguments):
    workflow: WorkflowId
    search_id: SearchId = ""
    query: str = Field(
        "",
        max_length=MAX_QUERY_LENGTH,
        description="Query of a new search, instead of search_id.",
        examples=["OOMKilled critical"],
    )


class ExplainArguments(SearchFields, Targeted, _ExplainedQuery):
    """Which workflow and which search: a recorded one by its id, or a new one by its query, as in the search."""

    @model_validator(mode="after")
    def _one_search(self) -> Self:
        if not self.query and not self.search_id:
            raise broken("is missing; give the query of a new search, or search_id of a recorded one", name="query")
        for name in sorted(self.model_fields_set - _OF_RECORDED):
            if self.search_id and getattr(self, name):
                raise broken("belongs to a new search; leave it out, or leave out search_id", name=name)
        return self


class RecordedArguments(Arguments):
    """Which recorded search is to be read."""

    search_id: str = Field(
        max_length=MAX_LABEL_LENGTH,
        description="search_id of an answer, or of an event of a trace.",
        examples=["0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10"],
    )


class TracesArguments(Arguments):
    """Which traces are to be listed."""

    since: str = Field(
        "",
        max_length=40,
        description="Only traces that changed since then: 24h, 7d, 2026-11-22T10:00Z.",
        examples=["7d"],
    )
    namespace: Namespace = ""
    remediation_id: str = Field(
        "", max_length=MAX_LABEL_LENGTH, description="Only the trace of this incident.", examples=["rr-2026-0042"]
    )
    outcome: Annotated[str, OneOf(OUTCOMES, listed=False)] = Field(
        "",
        description=f"Only traces whose newest run is in this state, or without a run: one of {', '.join(OUTCOMES)}.",
        examples=["completed"],
    )
    of: Annotated[Literal["all", "incidents"], OneOf()] = Field(
        "all",
        description="incidents: leaves out what belongs to no incident and has no run, such as searches without one.",
        examples=["incidents"],
    )
    limit: Limit = Field(DEFAULT_PAGE, examples=[20])
    cursor: Cursor = ""

    @property
    def page(self) -> dict[str, Any]:
        """The same, as `services.audit.traces` takes it."""
        return {name: value for name, value in super().page.items() if name != "of"} | {
            "of_incidents": self.of == "incidents"
        }


class TraceArguments(Arguments):
    """Which trace is to be read."""

    trace_id: str = Field(
        max_length=MAX_LABEL_LENGTH, description="trace_id, or remediation id of its incident.", examples=["rr-42"]
    )
    limit: int = Field(
        MAX_PAGE, ge=1, le=MAX_PAGE, description=f"Maximum number of events; {MAX_PAGE} without it.", examples=[50]
    )
    cursor: Cursor = ""


class TraceFilesArguments(Arguments):
    """Of which trace the files are to be read."""

    trace_id: str = Field(
        max_length=MAX_LABEL_LENGTH, description="trace_id, or remediation id of its incident.", examples=["rr-42"]
    )


class IncidentsArguments(Arguments):
    """Which incidents are to be listed."""

    namespace: Namespace = ""
    open: Flag = Field(
        False, description="true: only alerts that fire, and AIAnalysis objects that are there.", examples=[True]
    )
    limit: Limit = Field(DEFAULT_PAGE, examples=[20])
    cursor: Cursor = ""

    @property
    def page(self) -> dict[str, Any]:
        """The same, as `services.audit.incidents` takes it."""
        return {name: value for name, value in super().page.items() if name != "open"} | {"only_open": self.open}


class IncidentArguments(Arguments):
    """Which incident is to be read."""

    incident: str = Field(
        max_length=2 * MAX_LABEL_LENGTH,
        description="Remediation id, or namespace/name of the AIAnalysis.",
        examples=["payments/checkout-oom"],
    )


class InvocationsArguments(Arguments):
    """Which runs are to be listed."""

    phase: Annotated[Phase | Literal[""], OneOf(also=_STATES, listed=False)] = Field(
        "",
        description=f"Only runs in this phase, or in its state: {', '.join(phase.value for phase in Phase)}.",
        examples=["AwaitingApproval"],
    )
    namespace: Namespace = ""
    limit: Limit = Field(DEFAULT_PAGE, examples=[20])
    cursor: Cursor = ""


class OutcomesArguments(Arguments):
    """Of which runs it is asked how they ended, and of how long."""

    days: int = Field(
        DEFAULT_DAYS,
        ge=1,
        le=MAX_DAYS,
        description=f"Number of days to report, back from today; {DEFAULT_DAYS} without it.",
        examples=[90],
    )
    by: Annotated[Literal["day", "week"], OneOf()] = Field("day", description="Length of a period.", examples=["week"])
    workflow_id: str = Field(
        "",
        max_length=MAX_NAME_LENGTH,
        description="Only runs of this workflow, in all its versions.",
        examples=["oom-raise-memory-limit"],
    )


class WaitingArguments(Arguments):
    """Which runs that wait are to be listed."""

    namespace: Namespace = ""
    limit: Limit = Field(DEFAULT_PAGE, examples=[20])
    cursor: Cursor = ""


class ContractsArguments(Arguments):
    """Which contracts are to be listed."""

    namespace: Namespace = ""


class ContractsPageArguments(ContractsArguments):
    """Which page of them."""

    limit: Limit = Field(DEFAULT_PAGE, examples=[20])
    cursor: Cursor = ""
