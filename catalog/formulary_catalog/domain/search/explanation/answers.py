"""The answers of `explain`: why a workflow is in a search's answer, or why not, and what a recorded search found.

`services/search/explanation/service` makes them; REST, the console and the command line present them.
"""

from pydantic import Field

from formulary_catalog.domain.answers.catalog import Answer, SearchMode
from formulary_catalog.domain.workflows.exclusion import RULES


class ExcludedBy(Answer):
    """A rule that keeps the workflow out of the answer."""

    rule: str = Field(description=f"{', '.join(RULES)}.")
    reason: str = Field(description="In words, such as: the incident says production, the workflow declares staging.")


class EvidencePart(Answer):
    """A part of what speaks for the workflow, in log odds."""

    part: str
    detail: str
    log_odds: float
    at_most: float = Field(description="What a workflow could get for it.")
    in_score: bool = Field(description="False for a caution: it lowers the confidence alone.")


class NeededChange(Answer):
    """What would have had to differ, all else being equal."""

    change: str
    gain: float = Field(description="What it adds to the score.")
    enough: bool = Field(description="Whether that alone would put the score above that of the first.")


class RecordedPlace(Answer):
    """What the trail holds of the workflow in a recorded search."""

    rank: int
    score: float | None
    confidence: float | None
    returned: bool


class FirstWorkflow(Answer):
    """The first of the answer."""

    workflow_id: str = Field(description="namespace/name.")
    score: float


class Explanation(Answer):
    """Why, and why not: for one workflow and one search, as the catalog is now."""

    workflow_id: str = Field(description="namespace/name.")
    version: str
    version_id: str
    query: str
    search_id: str = Field(description="The recorded search that was replayed; empty for a new one.")
    allowed: bool
    excluded_by: ExcludedBy | None = Field(description="The first rule that excludes it; null if it is allowed.")
    also_excluded_by: list[ExcludedBy] = Field(description="The rules after it.")
    returned: bool
    not_returned_because: str = Field(description="Why an allowed workflow is not in the answer.")
    rank: int | None = Field(description="Its place among the allowed ones; null if it is not ranked.")
    total_results: int = Field(description="How many are allowed.")
    score: float | None = Field(description="Sum of the evidence, in log odds; null if it is excluded.")
    confidence: float | None = Field(description="0..1; null if it is not ranked.")
    first: FirstWorkflow | None = Field(description="Null where nothing is allowed.")
    evidence: list[EvidencePart]
    to_be_first: list[NeededChange] = Field(description="What would have had to differ, the most helpful first.")
    recorded: RecordedPlace | None = Field(description="Its place when the search was recorded; null if it had none.")
    search_mode: SearchMode
    notes: list[str]


class RecordedCandidate(RecordedPlace):
    """A workflow that a recorded search found."""

    workflow: str = Field(description="namespace/name@version.")
    version_id: str
    cosine: float | None
    match_reasons: list[str]


class RecordedAnswer(Answer):
    """A search as the trail holds it: what was asked, and what was found then."""

    search_id: str
    trace_id: str
    at: str
    caller: str
    query: str
    labels: dict[str, list[str]] = Field(description="Labels that the caller gave.")
    exclude_keywords: list[str]
    detected_labels: dict[str, str] = Field(description="Detected labels that the caller gave.")
    incident: str = Field(description="namespace/name of the AIAnalysis; empty without one.")
    remediation_id: str
    demanded: dict[str, str] = Field(description="Labels of the incident, detected ones included.")
    custom_labels: dict[str, list[str]] = Field(
        description="Custom labels of the incident, for callers who may get aianalyses/constraints."
    )
    inferred: dict[str, str] = Field(description="What was read from the query.")
    search_mode: str
    total_results: int
    candidates: list[RecordedCandidate]
    notes: list[str]
