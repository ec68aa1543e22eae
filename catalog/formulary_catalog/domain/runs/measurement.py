"""Queries of Prometheus that say whether all is well: which there are, and what one said over time (DESIGN section 15).

They come from the settings alone, and a workflow names one. In the words of a workflow's author a query could read the
metrics of every team with the operator's access. `measuring` of the operator asks, `domain/runs/outcome` decides.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from formulary_catalog.domain.patterns import DNS_LABEL
from formulary_catalog.domain.runs.outcome import Samples
from formulary_catalog.domain.runs.run import RunTarget

_NAMESPACE = "$namespace"
_PLACE = re.compile(r"\$(namespace|name)\b")
_MOST, _LONGEST = 100, 4000


class NotMeasured(Exception):
    """A query says nothing about a run, now or later; the message says why."""


def _of_a_namespace(expression: str) -> str:
    if _NAMESPACE not in expression:
        raise PydanticCustomError("namespace", "Must hold $namespace, so that it is about the target's namespace alone")
    return expression


_Name = Annotated[str, Field(pattern=DNS_LABEL, max_length=63)]
_Expression = Annotated[str, Field(max_length=_LONGEST), AfterValidator(_of_a_namespace)]


class OutcomeQueries(BaseModel):
    """The setting `FORMULARY_OUTCOME_QUERIES`: the address of Prometheus, and its queries by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: AnyHttpUrl
    queries: Annotated[Mapping[_Name, _Expression], Field(max_length=_MOST)] = {}

    def expression(self, name: str, *, target: RunTarget) -> str:
        """The query of this name, about a target.

        Raises:
            NotMeasured: there is none, or it would be about no namespace.
        """
        if name not in self.queries:
            raise NotMeasured(f"query {name} of its workflow is not one of this installation")
        if not (target.namespace and target.name):
            raise NotMeasured(f"query {name} is about targets in a namespace alone")
        values = {"namespace": target.namespace, "name": target.name}
        # Names of Kubernetes hold neither quotes nor backslashes; what is none ends no text of the query either.
        return _PLACE.sub(lambda place: re.sub(r'["\\\n`\']', "", values[place[1]]), self.queries[name])


def outcome_queries_of(setting: Any) -> OutcomeQueries | None:
    """The queries that the setting holds, as JSON; None for an empty one.

    Raises:
        PydanticCustomError: it has another form.
    """
    if not setting:
        return None
    validate = OutcomeQueries.model_validate_json if isinstance(setting, str) else OutcomeQueries.model_validate
    try:
        return validate(setting)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise PydanticCustomError("outcome_queries", "{problem}", {"problem": where + first["msg"]}) from None


def query_of(document: Mapping[str, Any]) -> str:
    """The name of the query that a workflow asks for in `spec.verification`; empty for none."""
    return str((document.get("spec", {}).get("verification") or {}).get("query") or "")


def samples_in(answer: Any, *, name: str, until: datetime, step: int) -> Samples:
    """What a range of Prometheus holds: one series of ones and zeros up to `until`, one each `step` seconds.

    Raises:
        NotMeasured: it holds something else.
    """
    series = answer["data"]["result"]
    if len(series) != 1:
        raise NotMeasured(
            f"query {name} has {len(series)} series, and not one; aggregate it, or see whether it has data"
        )
    found = [(datetime.fromtimestamp(float(at), UTC), value) for at, value in series[0]["values"]]
    if unknown := {value for _, value in found} - {"0", "1"}:
        raise NotMeasured(f"query {name} was {min(unknown)[:20]}, and neither 0 nor 1; compare it with `< bool`")
    if not found or abs((found[-1][0] - until).total_seconds()) >= 1:
        raise NotMeasured(f"query {name} had no value at the end of the window")
    for (before, _), (after, _) in pairwise(found):
        if (after - before).total_seconds() > 2 * step:  # what was in between, nobody knows
            raise NotMeasured(f"query {name} had no value from {before:%H:%M:%S} to {after:%H:%M:%S} UTC")
    return tuple((at, value == "1") for at, value in found)
