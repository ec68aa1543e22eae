"""How a failed call is reported, one rule for all edges (DESIGN section 7, errors).

MCP, REST and the console turn each exception into a `Failure` here, and each renders it in its own form. Errors of our
tree are shown; anything else gets a number, and its text goes to the log alone.
"""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from formulary_catalog.domain.visible import all_visible, visible
from formulary_catalog.errors import (
    FormularyError,
    InputRefused,
    InvalidInput,
    NotFound,
    NoWorkflowName,
    RateLimited,
    RunFailed,
    RunRefused,
    UnknownDocument,
    UnknownWorkflow,
)
from formulary_catalog.operations.operation import CALL_SECONDS

_TIMEOUT_CODE = -32004
_FAILED_CODE = -32003
_QUOTED = re.compile(r"'[^']*'")
"""What a message repeats of the call."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a caller is told. `code` is for JSON-RPC, `status` for HTTP; `field` is the argument at fault, if any.

    `details` says more to programs that read `data`; `retry_after` in seconds is set where it is known.
    """

    code: int
    status: int
    message: str
    retryable: bool
    unexpected: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    field: str | None = None

    @property
    def outcome(self) -> str:
        """The call in one word, for logs and metrics: `refused` is the caller's doing, `failed` is ours."""
        return "failed" if self.unexpected or self.retryable else "refused"

    @property
    def advice(self) -> str:
        """The message with the word on retrying that a model needs, unless it says so itself."""
        if "retry" in _QUOTED.sub("", self.message):
            return self.message
        retry = "yes, the same call may succeed in a few seconds" if self.retryable else "no, change the call first"
        end = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{end} Retry: {retry}."


def failure_of(error: Exception) -> Failure:
    """The report of an exception. What is not ours is logged under an id, and nothing but that id is shown.

    What it repeats of the call is shown as `visible` has it.
    """
    if isinstance(error, FormularyError):
        return Failure(
            code=error.rpc_code,
            status=error.http_status,
            message=visible(str(error)),
            retryable=error.retryable,
            field=_writable(error.field) if isinstance(error, InvalidInput) else None,
            details=all_visible(_details(error)),
            retry_after=error.retry_after if isinstance(error, RateLimited) else None,
        )
    if isinstance(error, TimeoutError):
        return Failure(
            code=_TIMEOUT_CODE,
            status=408,
            message="the call took longer than it may and was given up; the catalog may be overloaded",
            retryable=True,
            unexpected=True,
        )
    return _internal(exc_info=error)


def secret_failure_of(error: Exception) -> Failure:
    """The same for an exception whose text may hold a secret: of what is not ours, its type alone is logged."""
    return failure_of(error) if isinstance(error, FormularyError) else _internal(kind=type(error).__name__)


def _details(error: FormularyError) -> dict[str, Any]:
    match error:
        case InputRefused():
            return {"problems": [dict(problem) for problem in error.problems]}
        case RunRefused():
            return {"invocation_id": error.invocation_id, "decision": dict(error.decision)}
        case RunFailed():
            return {"invocation_id": error.invocation_id}
        case RateLimited():
            return {"retry_after_seconds": error.retry_after}
        case UnknownWorkflow():
            return {"workflow_id": error.reference, "reference": error.reference, "nearest": list(error.nearest)}
        case NoWorkflowName():
            return {"workflow_id": error.workflow_id}
        case UnknownDocument():
            return {"reference": error.reference, "nearest_documents": list(error.nearest)}
        case NotFound():
            return {"reference": error.reference}
    return {}


def _writable(field: str | None) -> str | None:
    """The name of a member is the caller's own: it may hold half of a surrogate pair, which no answer can, or hide."""
    return field and visible(field.encode(errors="replace").decode())


def _internal(**logged: object) -> Failure:
    import structlog  # slow, and `stdio` answers `initialize` without it

    incident = uuid.uuid4().hex[:12]
    structlog.get_logger(__name__).error("internal_error", incident=incident, **logged)
    return Failure(
        code=_FAILED_CODE,
        status=500,
        message=f"internal error {incident}; retry once, then report this id to the operators of the catalog",
        retryable=True,
        unexpected=True,
    )


async def within_deadline(call: Awaitable[_T], *, seconds: float | None = None) -> _T:
    """The result of the call.

    Raises:
        TimeoutError: it took longer than `seconds`, without which it has `CALL_SECONDS`.
    """
    async with asyncio.timeout(CALL_SECONDS if seconds is None else seconds):
        return await call
