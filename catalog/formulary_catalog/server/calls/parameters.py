"""The parameters that callers may give: the source of tool schemas, of the OpenAPI document and of the checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from formulary_catalog.domain.search.query import MAX_QUERY_LENGTH
from formulary_catalog.domain.search.request import (
    DEFAULT_TOP_K,
    MAX_LABEL_LENGTH,
    MAX_REASONING_LENGTH,
    MAX_TOP_K,
    wire_name,
)
from formulary_catalog.domain.workflows.labels import DIMENSIONS, LABEL_DIMENSIONS
from formulary_catalog.runs.request import (
    MAX_KEY_LENGTH,
    MAX_REASON_LENGTH,
    MAX_TIMEOUT_MS,
    MAX_WAIT_MS,
    MIN_TIMEOUT_MS,
)
from formulary_catalog.settings import LabelSpelling

LABEL_PREFIX = "label."


class ParameterKind(StrEnum):
    """What a value must be, under its JSON Schema name."""

    TEXT = "string"
    INTEGER = "integer"
    NUMBER = "number"
    OBJECT = "object"
    LIST = "array"
    BOOLEAN = "boolean"

    @property
    def is_nested(self) -> bool:
        return self in (ParameterKind.OBJECT, ParameterKind.LIST)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParameter:
    """One parameter.

    `suggested` values guide a model; others are taken too. `many`: a list of texts is taken too, and a text is split
    at the `separator` if there is one. `quoted`: the text of a number is taken too, since models quote numbers.
    `shape` is the JSON Schema of what is nested, for the listing; whoever takes it checks it. What is not `recorded`
    may be secret: the trail keeps names at most.
    """

    name: str
    description: str
    examples: tuple[Any, ...]
    kind: ParameterKind = ParameterKind.TEXT
    required: bool = False
    many: bool = False
    separator: str = ""
    quoted: bool = True
    max_length: int = MAX_LABEL_LENGTH
    bounds: tuple[int, int] = (0, 1)
    suggested: tuple[str, ...] = ()
    shape: Mapping[str, Any] = field(default_factory=dict)
    recorded: bool = True

    def schema(self) -> dict[str, Any]:
        """JSON Schema with a single plain type: no null, no default, nothing nested but by a `shape`."""
        schema: dict[str, Any] = {"type": self.kind.value, "description": self.description}
        if self.kind is ParameterKind.TEXT:
            schema |= {"maxLength": self.max_length}
        elif self.kind.is_nested:
            schema |= self.shape
        elif self.kind is not ParameterKind.BOOLEAN:
            schema |= {"minimum": self.bounds[0], "maximum": self.bounds[1]}
        if self.suggested:
            schema |= {"enum": list(self.suggested)}
        return schema | {"examples": list(self.examples)}


def input_schema(parameters: Sequence[CallParameter]) -> dict[str, Any]:
    """The JSON Schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema() for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }


def label_name(dimension: str) -> str:
    """The parameter of a label dimension in its canonical spelling, such as `label.signal-type`."""
    return LABEL_PREFIX + wire_name(dimension)


def spelled(parameter: CallParameter, *, spelling: LabelSpelling) -> CallParameter:
    """The parameter under the name that the tool list shows."""
    if spelling is LabelSpelling.DOTTED or not parameter.name.startswith(LABEL_PREFIX):
        return parameter
    return replace(parameter, name=parameter.name.replace(".", "_").replace("-", "_"))


def accepted(parameters: Sequence[CallParameter], *, spelling: LabelSpelling) -> tuple[CallParameter, ...]:
    """All of them, under the names that messages show."""
    return tuple(spelled(parameter, spelling=spelling) for parameter in parameters)


def listed(
    parameters: Sequence[CallParameter], *, spelling: LabelSpelling, with_clusters: bool
) -> tuple[CallParameter, ...]:
    """Those that the tool list shows, under its names. A catalog without clusters does not list theirs."""
    shown = [parameter for parameter in parameters if parameter is not CLUSTER or with_clusters]
    return accepted(shown, spelling=spelling)


QUERY = CallParameter(
    name="query",
    description="'<signal_type> <severity> [keywords]', or the root cause in plain words.",
    examples=("OOMKilled critical", "CrashLoopBackOff high missing configmap"),
    required=True,
    max_length=MAX_QUERY_LENGTH,
)
_LABELS = {
    dimension.name: CallParameter(
        name=label_name(dimension.name),
        description=dimension.description,
        examples=dimension.examples,
        suggested=dimension.suggested,
    )
    for dimension in LABEL_DIMENSIONS
}
LABELS = tuple(_LABELS.values())
CLUSTER = _LABELS["cluster"]
DIMENSION_OF = {label_name(dimension): dimension for dimension in DIMENSIONS}
EXCLUDE_KEYWORDS = CallParameter(
    name="exclude_keywords",
    description="Workflows with one of these words are left out; separate them by commas.",
    examples=("restart, delete",),
    many=True,
    separator=",",
    max_length=1000,
)
MIN_CONFIDENCE = CallParameter(
    name="min_confidence",
    description="Results below this confidence are left out; 0 without it.",
    examples=(0.5,),
    kind=ParameterKind.NUMBER,
)
TOP_K = CallParameter(
    name="top_k",
    description=f"How many results to return; without it at most {DEFAULT_TOP_K}, those that fit.",
    examples=(3,),
    kind=ParameterKind.INTEGER,
    bounds=(1, MAX_TOP_K),
)
WORKFLOW_ID = CallParameter(
    name="workflow_id",
    description="workflow_id of a search result; also namespace/name, name@version or a version_id.",
    examples=("oom-raise-memory-limit",),
    required=True,
    max_length=400,
)
VERSION = CallParameter(
    name="version",
    description="Semantic version; the latest active one without it.",
    examples=("1.0.0",),
)
REASONING = CallParameter(
    name="reasoning",
    description="Why this workflow fits the root cause better than the others.",
    examples=("Memory grows with load and the limit is the only cap; the change is reversible.",),
    required=True,
    max_length=MAX_REASONING_LENGTH,
)
SEARCH_ID = CallParameter(
    name="search_id",
    description="search_id of the search that found it.",
    examples=("0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10",),
)
CONFIDENCE = CallParameter(
    name="confidence",
    description="How sure you are of the choice, 0 to 1.",
    examples=(0.9,),
    kind=ParameterKind.NUMBER,
)
INPUT_EXAMPLE = {
    "NAMESPACE": "shop",
    "WORKLOAD": "deployment/checkout",
    "SELECTOR": "app=checkout",
    "CONTAINER": "app",
    "MEMORY_LIMIT": "512Mi",
}
INPUT = CallParameter(
    name="input",
    description="Values of the workflow's parameters by name, as input_schema of get_workflow_details asks for.",
    examples=(INPUT_EXAMPLE,),
    kind=ParameterKind.OBJECT,
    recorded=False,
)
TIMEOUT_MS = CallParameter(
    name="timeout_ms",
    description=(
        f"Deadline of the run in milliseconds; up to {MAX_WAIT_MS} the call waits for its end. {MAX_WAIT_MS} without "
        "it, and then a run that needs longer goes on."
    ),
    examples=(30000,),
    kind=ParameterKind.INTEGER,
    bounds=(MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
)
IDEMPOTENCY_KEY = CallParameter(
    name="idempotency_key",
    description="Any text of your own; the same request with the same key is the same run.",
    examples=("checkout-oom-1",),
    max_length=MAX_KEY_LENGTH,
    recorded=False,
)
DRY_RUN = CallParameter(
    name="dry_run",
    description="true: change nothing, return what would be created.",
    examples=(True,),
    kind=ParameterKind.BOOLEAN,
)
INVOCATION_ID = CallParameter(
    name="invocation_id",
    description="invocation_id of an answer of invoke_workflow.",
    examples=("inv-0123456789abcdef0123",),
    required=True,
)
WAIT_MS = CallParameter(
    name="wait_ms",
    description="How long to wait for a change, in milliseconds; 0 without it.",
    examples=(30000,),
    kind=ParameterKind.INTEGER,
    bounds=(0, MAX_WAIT_MS),
)
AFTER_REVISION = CallParameter(
    name="after_revision",
    description="revision of the last answer: returns at once if there is a newer one.",
    examples=(2,),
    kind=ParameterKind.INTEGER,
    bounds=(0, 2**53 - 1),
)
DECISION = CallParameter(
    name="decision",
    description="Approve or Reject.",
    examples=("Approve",),
    required=True,
    suggested=("Approve", "Reject"),
)
REASON = CallParameter(
    name="reason",
    description="Reason, recorded in the audit trail.",
    examples=("Checked with the team that owns it.",),
    max_length=MAX_REASON_LENGTH,
)
DIGEST = CallParameter(
    name="digest",
    description="content.digest of the run; an approval with it counts for that content alone.",
    examples=("sha256:" + "0" * 64,),
    max_length=100,
)

SEARCH = (QUERY, *LABELS, EXCLUDE_KEYWORDS, MIN_CONFIDENCE, TOP_K)
DETAILS = (WORKFLOW_ID, VERSION)
SELECTION = (WORKFLOW_ID, VERSION, REASONING, SEARCH_ID, CONFIDENCE)
INVOCATION = (WORKFLOW_ID, VERSION, INPUT, TIMEOUT_MS, IDEMPOTENCY_KEY, DRY_RUN, SEARCH_ID)
INVOCATION_STATUS = (INVOCATION_ID, WAIT_MS, AFTER_REVISION)
APPROVAL = (DECISION, REASON, DIGEST)
