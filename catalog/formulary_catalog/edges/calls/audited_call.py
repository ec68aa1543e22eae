"""Finds the incident or target and reads the arguments of a call, and records the call if one of them is refused.

Every tool and endpoint of the catalog goes through it: also what never reached a service leaves an event in the trail.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.datastructures import Headers

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.incident import context_reference
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.errors import FormularyError
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.target import with_target

if TYPE_CHECKING:
    from formulary_catalog.kernel.trail import Trail

_T = TypeVar("_T")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")


async def checked(
    read: Callable[[ContextReference], _T],
    *,
    action: str,
    given: Callable[[], Mapping[str, Any]],
    headers: Headers | None,
    meta: Mapping[str, Any] | None = None,
    address: str | None = None,
    trail: "Trail",
    readiness: Readiness,
    caller: Caller,
) -> tuple[ContextReference, _T]:
    """The incident that the call names, and its arguments as `read` has them. `given`: what the trail keeps if refused.

    From here on each line that the call logs carries the ids of its incident and of the client's trace. That of the
    audit trail follows once it is known (`kernel.trail`).

    Raises:
        FormularyError: either is refused, or the catalog is not loaded; the audit trail then holds it as a refused
            `action`.
    """
    from structlog.contextvars import bind_contextvars  # slow, and `stdio` answers `initialize` without it

    context = ContextReference()
    try:
        context = context_reference(headers=headers, meta=meta, address=address)
        bind_contextvars(**_log_ids(context, headers=headers))
        readiness.require_loaded()
        arguments = read(context)
        if isinstance(arguments, Arguments):
            context = with_target(context, arguments)
        return context, arguments
    except FormularyError as error:
        await trail.refused(action, caller=caller, reference=context, arguments=given(), error=error)
        raise


def _log_ids(context: ContextReference, *, headers: Headers | None) -> dict[str, str]:
    traced = _TRACEPARENT.fullmatch(headers.get("traceparent", "")) if headers is not None else None
    ids = {
        "remediation_id": next(iter(context.ids), ""),
        "analysis": context.analysis,
        "client_trace_id": traced.group(1) if traced else "",
    }
    return {name: value for name, value in ids.items() if value}
