"""When a rule holds: days and hours in a time zone, between two moments."""

from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from formulary_catalog.domain.patterns import BEGIN_OF_HOURS, END_OF_HOURS
from formulary_catalog.domain.workflows.manifest import Model

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MIDNIGHT = "00:00"
_END_OF_DAY = "24:00"


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError("must be a time zone of the IANA database, such as Europe/Berlin or UTC") from None
    return name


def _only_text(value: Any) -> Any:
    if isinstance(value, str | datetime):
        return value
    raise ValueError("must be a time such as 2026-12-24T18:00:00Z")


Moment = Annotated[AwareDatetime, BeforeValidator(_only_text, json_schema_input_type=AwareDatetime)]


class Window(Model):
    """A span of time. What is left out does not limit it."""

    model_config = ConfigDict(extra="forbid")

    days: list[Day] = Field(
        default=[],
        max_length=7,
        description="Days of the week, mon to sun. Defaults to every day. Hours past midnight belong to the day on "
        "which the window began.",
    )
    from_: Annotated[str, StringConstraints(pattern=BEGIN_OF_HOURS)] | None = Field(
        default=None, alias="from", description="Start of the window, such as 22:00. Defaults to midnight."
    )
    to: Annotated[str, StringConstraints(pattern=END_OF_HOURS)] | None = Field(
        default=None,
        description="End of the window, such as 06:00. On the next day if it is earlier than `from`. Defaults to the "
        "end of the day.",
    )
    time_zone: Annotated[str, StringConstraints(max_length=64), AfterValidator(_known_zone)] = Field(
        default="UTC", description="Time zone of days and hours, such as Europe/Berlin. Defaults to UTC."
    )
    not_before: Moment | None = Field(
        default=None, description="First moment at which the rule applies, such as 2026-12-24T18:00:00Z."
    )
    not_after: Moment | None = Field(default=None, description="Moment at which the rule ends.")

    @model_validator(mode="after")
    def _has_length(self) -> "Window":
        if self._hours[0] == self._hours[1]:
            raise ValueError("from and to are the same time; leave both out for the whole day")
        if self.not_before and self.not_after and self.not_before >= self.not_after:
            raise ValueError("notBefore is not earlier than notAfter; swap or correct them")
        return self

    @property
    def _hours(self) -> tuple[str, str]:
        return self.from_ or _MIDNIGHT, self.to or _END_OF_DAY

    def holds(self, now: datetime) -> bool:
        """Whether the moment lies within it."""
        if (self.not_before and now < self.not_before) or (self.not_after and now >= self.not_after):
            return False
        local = now.astimezone(ZoneInfo(self.time_zone))
        clock, (begin, end) = f"{local:%H:%M}", self._hours
        if begin < end:
            return self._on(local.weekday()) and begin <= clock < end
        return (self._on(local.weekday()) and clock >= begin) or (self._on(local.weekday() - 1) and clock < end)

    def _on(self, weekday: int) -> bool:
        return not self.days or _DAYS[weekday] in self.days
