"""Coverage: remedies for signals and for alerts of rule files, stale and duplicate workflows.

Alerts come in a POST, as the caller read them: a rule file is no resource of the catalog, is larger than a query string
may be, and its reader can name the line that is wrong. Nothing is kept of them but the event of the call.
"""

from typing import Annotated

from pydantic import Field

from formulary_catalog.domain.coverage.alerts import AT_ONCE, MAX_SUMMARY, Alert, distinct
from formulary_catalog.domain.coverage.answers import CoverageAnswer, DuplicatesAnswer, StaleAnswer
from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Label, Unquoted
from formulary_catalog.operations.operation import Operation, Route

MAX_LINES = 1000
DEFAULT_LINES = 100


class AlertArguments(Arguments):
    """One alert, as a Prometheus rule defines it."""

    name: Label = Field(description="Name of the alert.", examples=["KubePodCrashLooping"])
    severity: Label = Field("", description="Severity of the alert.", examples=["warning"])
    summary: str = Field(
        "", max_length=MAX_SUMMARY, description="What happened, in a sentence.", examples=["Pod is crash looping."]
    )

    @property
    def alert(self) -> Alert:
        """The alert, its texts on one line."""
        name, severity, summary = (" ".join(text.split()) for text in (self.name, self.severity, self.summary))
        return Alert(name=name, severity=severity, summary=summary)


class AlertsArguments(Arguments):
    """The alerts whose remedies are looked for."""

    alerts: Annotated[list[AlertArguments], Unquoted] = Field(
        min_length=1,
        max_length=AT_ONCE,
        description=f"At most {AT_ONCE} alerts, as Prometheus rules define them: name, and perhaps severity and a "
        "summary without placeholders.",
        examples=[[{"name": "KubePodCrashLooping", "severity": "warning", "summary": "Pod is crash looping."}]],
    )

    @property
    def request(self) -> list[Alert]:
        """Each of the alerts once."""
        return distinct(each.alert for each in self.alerts)


class LinesArguments(Arguments):
    """Which part of a list is to be read."""

    limit: int = Field(
        DEFAULT_LINES,
        ge=1,
        le=MAX_LINES,
        description=f"Maximum number of results; {DEFAULT_LINES} without it.",
        examples=[20],
    )
    cursor: str = Field("", max_length=MAX_CURSOR_LENGTH, description="next_cursor of the page before.")


COVERAGE = Operation(
    action="read.coverage",
    arguments=LinesArguments,
    answer=CoverageAnswer,
    run=lambda call: call.services.coverage.of_catalog(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/coverage",
        id="get_coverage",
        tag="coverage",
        summary="Read which signals have a remedy, and which queries found too little",
        description=(
            "The canonical signals and those that workflows declare, the alerts of the cluster, and the weak queries.\n"
            "\nA page has at most `limit` signals and `limit` alerts. Totals count what is on other pages too."
        ),
    ),
    of_incident=False,
)
ALERTS = Operation(
    action="read.coverage",
    arguments=AlertsArguments,
    answer=CoverageAnswer,
    run=lambda call: call.services.coverage.of_alerts(call.arguments.request, caller=call.caller),
    route=Route(
        method="POST",
        path="/coverage",
        id="compare_alerts",
        tag="coverage",
        summary="Compare alerts with the catalog",
        description="The remedy for each alert. The searches belong to no incident.",
        example={"alerts": [{"name": "KubePodCrashLooping", "severity": "warning"}]},
    ),
    of_incident=False,
)
STALE = Operation(
    action="read.stale",
    arguments=LinesArguments,
    answer=StaleAnswer,
    run=lambda call: call.services.upkeep.stale(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/coverage/stale",
        id="list_stale_workflows",
        tag="coverage",
        summary="List workflows that may be of no use",
        description="Workflows whose image is gone, then those that fail, those never chosen, and those never found.",
    ),
    of_incident=False,
)
DUPLICATES = Operation(
    action="read.duplicates",
    arguments=LinesArguments,
    answer=DuplicatesAnswer,
    run=lambda call: call.services.upkeep.duplicates(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/coverage/duplicates",
        id="list_duplicate_workflows",
        tag="coverage",
        summary="List pairs of workflows that say nearly the same",
        description="Pairs of workflows, those with the nearest texts first.",
    ),
    of_incident=False,
)

OPERATIONS = (COVERAGE, ALERTS, STALE, DUPLICATES)
