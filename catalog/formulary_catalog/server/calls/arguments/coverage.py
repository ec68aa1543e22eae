"""Arguments of the endpoints about coverage; `domain/coverage/alerts` checks the alerts that a caller sends."""

from typing import Any

from pydantic import Field

from formulary_catalog.domain.coverage.alerts import AT_ONCE, MAX_SUMMARY, Alert, alerts_given
from formulary_catalog.domain.search.request import MAX_LABEL_LENGTH
from formulary_catalog.server.calls.arguments.base import Arguments, Items
from formulary_catalog.server.calls.arguments.browsing import BrowsingArguments
from formulary_catalog.server.calls.arguments.input_schema import NOT_BLANK

MAX_LINES = 1000
DEFAULT_LINES = 100

_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_LABEL_LENGTH, "pattern": NOT_BLANK}
_ALERTS: dict[str, Any] = {
    "minItems": 1,
    "maxItems": AT_ONCE,
    "items": {
        "type": "object",
        "properties": {
            "name": _NAME,
            "severity": {"type": ["string", "null"], "maxLength": MAX_LABEL_LENGTH},
            "summary": {"type": ["string", "null"], "maxLength": MAX_SUMMARY},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}


class AlertsArguments(BrowsingArguments):
    """The alerts whose remedies are looked for."""

    alerts: Items = Field(
        description=f"At most {AT_ONCE} alerts, as Prometheus rules define them: name, and perhaps severity and a "
        "summary without placeholders.",
        examples=[[{"name": "KubePodCrashLooping", "severity": "warning", "summary": "Pod is crash looping."}]],
        json_schema_extra=_ALERTS,
    )

    @property
    def request(self) -> list[Alert]:
        """The alerts.

        Raises:
            InvalidInput: there are too many, or one is none.
        """
        return alerts_given(self.alerts)


class UpkeepArguments(Arguments):
    """How many workflows or pairs are to be listed."""

    limit: int = Field(
        DEFAULT_LINES,
        ge=1,
        le=MAX_LINES,
        description=f"At most so many; {DEFAULT_LINES} without it.",
        examples=[20],
    )
