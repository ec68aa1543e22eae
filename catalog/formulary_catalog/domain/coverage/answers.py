"""The answers about coverage: signals and alerts against remedies, weak queries, stale and duplicate workflows.

`services/workflows/coverage` and `services/workflows/upkeep` make them; REST, the console and the command line only
present them. Custom labels are no part of any.
"""

from typing import Literal

from pydantic import Field

from formulary_catalog.domain.answers.catalog import Answer

State = Literal["covered", "declared_only", "weak", "none"]


class CoveredSignal(Answer):
    """A signal or an alert, and the remedy that the catalog has for it."""

    name: str
    severity: str = Field(default="", description="As the rule labels it; empty for a signal.")
    state: State = Field(
        description="covered: a search finds a remedy with a confidence of 0.5 or more that is about the same kind of "
        "object. declared_only: none of these, but a workflow declares it. weak: the best hit has 0.1 or more. none: "
        "it has less, or nothing fits."
    )
    reason: str = Field(default="", description="Why it is not covered, as far as there is a remedy to speak of.")
    workflow_id: str = Field(
        description="The remedy: the best hit of those that the state is about. Empty in state none, and where no "
        "workflow that declares it was found."
    )
    confidence: float | None = Field(
        description="Of the remedy, as a search has it; in state none of the best hit, null if nothing fits."
    )
    declared_by: int = Field(description="How many workflows declare it as their signal type.")
    asked: int = Field(description="Searches for it, that the caller may see.")
    fired: int = Field(description="Incidents with this signal, that the caller may see.")
    ignored: str = Field(default="", description="Why it is ignored; empty if it is not.")
    sources: list[str] = Field(
        default_factory=list,
        description="The PrometheusRule objects that define an alert of the cluster, as namespace/name.",
    )

    @property
    def demand(self) -> int:
        """How often it was asked for or fired."""
        return self.asked + self.fired


class WeakQuery(Answer):
    """A query that ended with nothing, or with too little confidence."""

    query: str
    times: int
    unanswered: int = Field(description="Times without any hit.")
    best_confidence: float | None = Field(description="The highest of its first hits; null without any.")


class CoverageTotals(Answer):
    """How many are in each state, without those ignored; and the share by demand."""

    covered: int
    declared_only: int = 0
    weak: int
    none: int
    ignored: int
    demand_covered: float | None = Field(
        description="Share of the searches and incidents whose signal is covered; null if there were none."
    )

    @property
    def number(self) -> int:
        """How many there are, with those ignored."""
        return self.covered + self.declared_only + self.weak + self.none + self.ignored


class CoverageAnswer(Answer):
    """Signals or alerts, the uncovered and most wanted first, and the queries that found too little.

    Of many, the first page has the most wanted ones, whatever their state; the others follow by name. All pages
    together have each line once, unless the catalog changes in between.
    """

    signals: list[CoveredSignal]
    totals: CoverageTotals
    signals_waiting: int = Field(
        default=0,
        description="Signals on other pages that this call did not compare; they are not in the totals.",
    )
    alerts: list[CoveredSignal] = Field(
        default_factory=list,
        description="Alerts of the cluster, of namespaces in which the caller may list PrometheusRule objects; only "
        "where no alerts were given.",
    )
    alert_totals: CoverageTotals | None = Field(
        default=None, description="Totals of these alerts; null where the caller sees none."
    )
    alerts_waiting: int = Field(
        default=0,
        description="Alerts of the cluster on other pages that this call did not compare; they are not in the totals.",
    )
    queries: list[WeakQuery] = Field(
        description="The most frequent first; only on the first page, and where no alerts were given."
    )
    next_cursor: str = Field("", description="Give it as cursor for the page after this one; empty on the last.")
    days: int = Field(description="Number of days whose searches are counted.")
    search_mode: str = Field(description="How the catalog ranked: hybrid, lexical or labels-only; empty for nothing.")
    notes: list[str]


class StaleWorkflow(Answer):
    """A workflow that may be of no use, and why."""

    workflow_id: str
    namespace: str
    version: str
    reason: Literal["image-gone", "fails", "never-chosen", "never-found"]
    detail: str
    served_since: str
    found: int = Field(description="Searches that returned it.")
    first: int = Field(description="Searches that returned it first.")
    chosen: int
    succeeded: int
    failed: int
    helped: int = Field(0, description="Runs that helped.")
    runs_counted: int = Field(0, description="Runs that helped, did not help or relapsed.")


class StaleAnswer(Answer):
    """Workflows that may be of no use: those whose image is gone first, then those that fail, those that were never
    chosen, and those that were never found."""

    workflows: list[StaleWorkflow]
    total: int
    next_cursor: str = Field("", description="Give it as cursor for the page after this one; empty on the last.")
    compared: int = Field(description="Number of served workflows that were examined.")
    days: int
    notes: list[str]


class DuplicatePair(Answer):
    """Two workflows that say nearly the same and may be allowed for the same incident."""

    workflow_id: str
    other_id: str
    cosine: float = Field(description="Cosine similarity of their texts: name, when to use, what.")
    same_action: bool
    never_first: str = Field(
        description="The one that the other replaces wherever it is allowed, and that no search returned first; empty "
        "if there is none."
    )


class DuplicatesAnswer(Answer):
    """Pairs, the nearest first."""

    pairs: list[DuplicatePair]
    total: int
    next_cursor: str = Field("", description="Give it as cursor for the page after this one; empty on the last.")
    compared: int = Field(description="How many served workflows were compared.")
    threshold: float
    days: int
    notes: list[str]
