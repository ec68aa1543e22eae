"""Arguments of the tools and endpoints that run workflows: asking for a run, following it, approving it."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AliasGenerator, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Flag, Object
from formulary_catalog.operations.arguments.catalog import DetailsArguments, SearchId
from formulary_catalog.services.runs.request import (
    MAX_KEY_LENGTH,
    MAX_REASON_LENGTH,
    MAX_TIMEOUT_MS,
    MAX_WAIT_MS,
    MIN_TIMEOUT_MS,
)

INPUT_EXAMPLE = {
    "NAMESPACE": "shop",
    "WORKLOAD": "deployment/checkout",
    "SELECTOR": "app=checkout",
    "CONTAINER": "app",
    "MEMORY_LIMIT": "512Mi",
}


class _Run(DetailsArguments):
    input: Object = Field(
        default_factory=dict,
        repr=False,
        description="Values of the parameters, by input_schema.",
        examples=[{"NAMESPACE": "shop", "MEMORY_LIMIT": "512Mi"}],
    )


class _Options(Arguments):
    timeout_ms: int | None = Field(
        None,
        ge=MIN_TIMEOUT_MS,
        le=MAX_TIMEOUT_MS,
        description=f"Deadline of the run; up to {MAX_WAIT_MS} the call waits for its end. Without it a run that needs "
        "longer goes on.",
        examples=[30000],
    )
    idempotency_key: str = Field(
        "",
        max_length=MAX_KEY_LENGTH,
        repr=False,
        description="Your own text: the same call again is the same run.",
        examples=["checkout-oom-1"],
    )
    dry_run: Flag = Field(False, description="true: change nothing, return what would be created.", examples=[True])


def _both_spellings(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


class RunArguments(_Options, _Run):
    """The run that is asked for, as the tool takes it: each argument also as JSON-RPC spells it."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=_both_spellings))

    search_id: SearchId = ""


class RpcOptions(_Options):
    """The options of a run, as JSON-RPC spells them."""

    model_config = ConfigDict(alias_generator=to_camel)


class RpcRunArguments(_Run):
    """The run that is asked for, as JSON-RPC takes it."""

    search_id: SearchId = ""
    options: RpcOptions = Field(RpcOptions(), examples=[{"timeoutMs": 30000}])


class StatusArguments(Arguments):
    """Which run is to be followed, and how long."""

    invocation_id: str = Field(
        max_length=MAX_LABEL_LENGTH,
        description="invocation_id of an answer of invoke_workflow.",
        examples=["inv-0123456789abcdef0123"],
    )
    wait_ms: int = Field(
        0,
        ge=0,
        le=MAX_WAIT_MS,
        description="How long to wait for a change; 0 without it.",
        examples=[30000],
    )
    after_revision: int | None = Field(
        None,
        ge=0,
        le=2**53 - 1,
        description="revision of the last answer.",
        examples=[2],
    )


def _capitalized(value: Any) -> Any:
    return value.strip().capitalize() if isinstance(value, str) else value


class ApprovalArguments(Arguments):
    """What somebody says to a run that waits."""

    decision: Annotated[Literal["Approve", "Reject"], BeforeValidator(_capitalized)] = Field(
        description="Approve or Reject.", examples=["Approve"]
    )
    reason: str = Field(
        "",
        max_length=MAX_REASON_LENGTH,
        description="Reason, recorded in the audit trail.",
        examples=["Checked with the team that owns it."],
    )
    digest: str = Field(
        "",
        max_length=100,
        description="content.digest of the run; an approval with it counts for that content alone.",
        examples=["sha256:" + "0" * 64],
    )
