"""The answers of browsing: relations, names, impact, sections and statistics of what a caller may see.

`services/workflows/browsing` makes them; MCP, REST and the command line only present them. Custom labels are no part of
any.
"""

from typing import Any

from pydantic import Field

from formulary_catalog.domain.answers.catalog import RUNS_COUNTED, SUCCESS_INTERVAL, SUCCESS_RATE, Answer, WorkflowList


class RelatedEntity(Answer):
    """One neighbour."""

    name: str
    type: str = Field(description="workflow, version, signal or action.")
    relation: str
    direction: str = Field(description="outgoing: the edge leads to it. incoming: it comes from it.")
    depth: int
    uri: str = Field(description="Empty for signals and actions.")


class RelatedAnswer(Answer):
    """What is connected with a workflow, a signal type or an action type, the nearest first."""

    entity: str
    type: str
    related: list[RelatedEntity]
    total: int
    notes: list[str]


class RelatedPage(RelatedAnswer):
    """A page of related entities."""

    next_cursor: str = Field("", description="Give it as cursor for the page after this one; empty on the last.")


class NamedWorkflow(Answer):
    """A workflow that a name may mean."""

    workflow_id: str
    version: str
    version_id: str
    title: str
    matched: str = Field(description="name, version id, signal, title, part of the name, or similar name.")
    uri: str


class NamesAnswer(Answer):
    """Workflows by name: exact ones first, else the nearest names."""

    name: str
    exact: bool
    workflows: list[NamedWorkflow]
    total: int
    notes: list[str]


class NamingRule(Answer):
    """A rule of a contract that names a workflow or its action type."""

    contract: str
    rule: str
    effect: str


class RunCounts(Answer):
    """Runs of a workflow that are not over, of those that the caller may read."""

    pending: int
    awaiting_approval: int
    running: int


class ImpactAnswer(Answer):
    """What depends on a workflow: what would be missed without it."""

    workflow_id: str
    version: str
    incoming: list[RelatedEntity] = Field(description="Workflows that lead to it, up to three steps away.")
    incoming_total: int
    only_answer_to: list[str] = Field(description="Signals and alerts that no other workflow here declares.")
    contracts: list[NamingRule] = Field(description="Rules that name it or its action type.")
    runs: RunCounts
    first_in_searches: int = Field(description="Searches of 30 days that returned it first.")
    selected: int = Field(description="Times it was chosen in 30 days.")
    success_rate: float | None = Field(description=SUCCESS_RATE)
    success_interval: list[float] | None = Field(default=None, description=SUCCESS_INTERVAL)
    runs_counted: int = Field(description=RUNS_COUNTED)
    last_run: str = Field(
        description="When a run was last asked for, of those that the caller may read; empty for never."
    )
    notes: list[str]
    uri: str


class SectionAnswer(Answer):
    """One section of a workflow: a text, or items."""

    workflow_id: str
    version: str
    section: str
    uri: str
    text: str
    items: list[dict[str, Any]]
    notes: list[str]


class QueryCount(Answer):
    """A query and how often it was asked."""

    query: str
    times: int


class SearchStatistics(Answer):
    """Searches of seven days: the caller's own, and those for incidents that it may read."""

    by_mode: dict[str, int]
    weak_share: float | None = Field(description="Share without a sure hit; null without searches.")
    unanswered: int = Field(description="Searches without any hit.")
    unanswered_queries: list[QueryCount] = Field(description="The most frequent queries without any hit.")


class StatisticsAnswer(Answer):
    """The catalog in numbers, as far as the caller may see it."""

    total: int = Field(description="Active workflows.")
    by_status: dict[str, int]
    by_namespace: dict[str, int]
    by_action: dict[str, int]
    by_risk: dict[str, int]
    signals_without_workflow: list[str]
    signals_with_one_workflow: list[str]
    model: str = Field(description="The embedding model that serves; empty without one.")
    last_indexed: str
    searches: SearchStatistics
    notes: list[str]


class FacetValue(Answer):
    """A value that narrows a listing, and how many workflows are then listed."""

    value: str
    count: int


class FacetsAnswer(Answer):
    """The values of each filter of a listing, the most frequent first, and the one that the request has.

    A value is counted under all other filters of the request. Statuses are counted as they are stored.
    """

    facets: dict[str, list[FacetValue]] = Field(
        description="Values of status, namespace, signal_type, risk_level and action_type."
    )


class FacetedList(FacetsAnswer):
    """A page of a listing, and what narrows it further."""

    page: WorkflowList


class RefusedLine(Answer):
    """An object of the cluster that is not taken into the catalog as it is."""

    namespace: str
    name: str
    version: str = Field(description="spec.version; empty if it is not known.")
    reason: str = Field(description="Reason of its condition Ready: Invalid or VersionImmutable.")
    message: str = Field(description="What is wrong, and whether an earlier version stays served.")
    since: str = Field(description="Time since which it is not Ready, RFC 3339.")
    next_step: str


class RefusedList(Answer):
    """A page of refused objects in name order."""

    refused: list[RefusedLine]
    total: int
    next_cursor: str = Field(description="Give it as cursor for the next page; empty on the last one.")
    notes: list[str] = Field(description="Why there may be other refused objects; empty while resyncs record them.")


class DifferenceRow(Answer):
    """A line of the older version and the line of the newer one; empty where a version has none."""

    kind: str = Field(description="same, changed, removed, added, or left out for equal lines that are not shown.")
    older: str
    newer: str


class VersionDifference(Answer):
    """What differs between two versions of a workflow. Custom labels are no part of it."""

    workflow_id: str
    older: str
    newer: str
    rows: list[DifferenceRow] = Field(description="Empty if the versions do not differ.")
    notes: list[str]


class PendingApproval(Answer):
    """A run that waits for a person."""

    invocation_id: str
    workflow_id: str
    version: str
    namespace: str
    target: str
    requester: str
    reason: str = Field(description="Why a person must decide.")
    asked_at: str
    waits_until: str = Field(description="Time after which the run is given up.")


class PendingApprovals(Answer):
    """The runs that wait for a person, the oldest first. Nothing is approved by reading it."""

    approvals: list[PendingApproval]
    total: int
    notes: list[str]
