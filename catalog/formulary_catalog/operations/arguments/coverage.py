"""Arguments of the endpoints about coverage: the alerts that a caller sends, and how many lines it wants."""

from typing import Annotated

from pydantic import Field

from formulary_catalog.domain.coverage.alerts import AT_ONCE, MAX_SUMMARY, Alert, distinct
from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Unquoted
from formulary_catalog.operations.arguments.texts import Label

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
