"""Arguments of the tools and endpoints that run workflows: asking for a run, following it, approving it."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.search.request import MAX_LABEL_LENGTH
from formulary_catalog.runs.request import (
    MAX_KEY_LENGTH,
    MAX_REASON_LENGTH,
    MAX_TIMEOUT_MS,
    MAX_WAIT_MS,
    MIN_TIMEOUT_MS,
)
from formulary_catalog.server.calls.arguments import Arguments, Object
from formulary_catalog.server.calls.catalog_arguments import SearchId, Version, WorkflowId

INPUT_EXAMPLE = {
    "NAMESPACE": "shop",
    "WORKLOAD": "deployment/checkout",
    "SELECTOR": "app=checkout",
    "CONTAINER": "app",
    "MEMORY_LIMIT": "512Mi",
}
Input = Annotated[
    Object,
    Field(
        repr=False,
        description="Values of the workflow's parameters by name, as input_schema of get_workflow_details asks for.",
        examples=[INPUT_EXAMPLE],
    ),
]
TimeoutMs = Annotated[
    int | None,
    Field(
        ge=MIN_TIMEOUT_MS,
        le=MAX_TIMEOUT_MS,
        description=(
            f"Deadline of the run in milliseconds; up to {MAX_WAIT_MS} the call waits for its end. {MAX_WAIT_MS} "
            "without it, and then a run that needs longer goes on."
        ),
        examples=[30000],
    ),
]
IdempotencyKey = Annotated[
    str,
    Field(
        max_length=MAX_KEY_LENGTH,
        repr=False,
        description="Any text of your own; the same request with the same key is the same run.",
        examples=["checkout-oom-1"],
    ),
]
DryRun = Annotated[bool, Field(description="true: change nothing, return what would be created.", examples=[True])]


class RunArguments(Arguments):
    """The run that is asked for, as the tool takes it."""

    workflow_id: WorkflowId
    version: Version = ""
    input: Input = Field(default_factory=dict)
    timeout_ms: TimeoutMs = None
    idempotency_key: IdempotencyKey = ""
    dry_run: DryRun = False
    search_id: SearchId = ""


class RunOptions(Arguments):
    """The options of a run, as JSON-RPC takes them."""

    model_config = ConfigDict(alias_generator=to_camel)

    timeout_ms: TimeoutMs = None
    idempotency_key: IdempotencyKey = ""
    dry_run: DryRun = False


class RunParams(Arguments):
    """The run that is asked for, as JSON-RPC takes it."""

    workflow_id: WorkflowId
    version: Version = ""
    input: Input = Field(default_factory=dict)
    search_id: SearchId = ""
    options: Annotated[RunOptions, Field(examples=[{"timeoutMs": 30000}])] = RunOptions()


class StatusArguments(Arguments):
    """Which run is to be followed, and how long."""

    invocation_id: Annotated[
        str,
        Field(
            max_length=MAX_LABEL_LENGTH,
            description="invocation_id of an answer of invoke_workflow.",
            examples=["inv-0123456789abcdef0123"],
        ),
    ]
    wait_ms: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_WAIT_MS,
            description="How long to wait for a change, in milliseconds; 0 without it.",
            examples=[30000],
        ),
    ] = 0
    after_revision: Annotated[
        int | None,
        Field(
            ge=0,
            le=2**53 - 1,
            description="revision of the last answer: returns at once if there is a newer one.",
            examples=[2],
        ),
    ] = None


def _capitalized(value: Any) -> Any:
    return value.strip().capitalize() if isinstance(value, str) else value


class ApprovalArguments(Arguments):
    """What somebody says to a run that waits."""

    decision: Annotated[
        Literal["Approve", "Reject"],
        BeforeValidator(_capitalized),
        Field(description="Approve or Reject.", examples=["Approve"]),
    ]
    reason: Annotated[
        str,
        Field(
            max_length=MAX_REASON_LENGTH,
            description="Reason, recorded in the audit trail.",
            examples=["Checked with the team that owns it."],
        ),
    ] = ""
    digest: Annotated[
        str,
        Field(
            max_length=100,
            description="content.digest of the run; an approval with it counts for that content alone.",
            examples=["sha256:" + "0" * 64],
        ),
    ] = ""
