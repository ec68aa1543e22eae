"""How a failed call is reported, one rule for all edges (DESIGN section 7, errors)."""

import asyncio
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from formulary_catalog.errors import FormularyError, InvalidInput

CALL_SECONDS = 15.0
"""Deadline of one call; a search waits at most two seconds for its context, so this is only met when all is stuck."""

_TIMEOUT_CODE = -32004
_FAILED_CODE = -32003
_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a caller is told. `code` is for JSON-RPC, `status` for HTTP; `field` is the argument at fault, if any."""

    code: int
    status: int
    message: str
    retryable: bool
    unexpected: bool = False
    field: str | None = None

    @property
    def outcome(self) -> str:
        """The call in one word, for logs and metrics: `refused` is the caller's doing, `failed` is ours."""
        return "failed" if self.unexpected or self.retryable else "refused"

    @property
    def advice(self) -> str:
        """The message with the word on retrying that a model needs, unless it says so itself."""
        if "retry" in self.message:
            return self.message
        retry = "yes, the same call may succeed in a few seconds" if self.retryable else "no, change the call first"
        return f"{self.message}. Retry: {retry}."


def failure_of(error: Exception) -> Failure:
    """The report of an exception. What is not ours is logged under an id, and nothing but that id is told."""
    if isinstance(error, FormularyError):
        return Failure(
            code=error.rpc_code,
            status=error.http_status,
            message=str(error),
            retryable=error.retryable,
            field=error.field if isinstance(error, InvalidInput) else None,
        )
    if isinstance(error, TimeoutError):
        return Failure(
            code=_TIMEOUT_CODE,
            status=408,
            message=f"the call took longer than {CALL_SECONDS:g} s and was given up; the catalog may be overloaded",
            retryable=True,
            unexpected=True,
        )
    return _internal(exc_info=error)


def secret_failure_of(error: Exception) -> Failure:
    """The same for an exception whose text may hold a secret: of what is not ours, its type alone is logged."""
    return failure_of(error) if isinstance(error, FormularyError) else _internal(kind=type(error).__name__)


def _internal(**logged: object) -> Failure:
    incident = uuid.uuid4().hex[:12]
    _log.error("internal_error", incident=incident, **logged)
    return Failure(
        code=_FAILED_CODE,
        status=500,
        message=f"internal error {incident}; retry once, then report this id to the operators of the catalog",
        retryable=True,
        unexpected=True,
    )


async def within_deadline(call: Awaitable[_T]) -> _T:
    """The result of the call.

    Raises:
        TimeoutError: it took longer than `CALL_SECONDS`.
    """
    async with asyncio.timeout(CALL_SECONDS):
        return await call
