"""MCP over standard input and output, for clients that start the server themselves."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Collection
from io import TextIOWrapper
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError
from starlette.datastructures import Headers

from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.edges.calls.incident import REMEDIATION_HEADER
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.mcp.server import mcp_server
from formulary_catalog.errors import InvalidInput
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.json_text import parsed
from formulary_catalog.settings import Settings, Toolset

_LEAVES_SECONDS = 0.1
"""Within so long an answer that needs no catalog has left."""


async def run_stdio(
    *,
    opening: Opening,
    settings: Settings,
    metrics: Metrics,
    remediation_id: str = "",
    toolsets: Collection[Toolset] = (),
    greeted: asyncio.Event | None = None,
) -> None:
    """Serve one client until it closes standard input. Nothing else may read or write the two streams meanwhile.

    `toolsets` are those to list; none are those of the settings. `greeted` is set when the first request is answered.
    All calls belong to the incident of `remediation_id`, as if each sent it in the header; without it, to that of
    their `_meta`.
    """
    server = mcp_server(
        opening=opening,
        settings=settings,
        readiness=Readiness(),
        metrics=metrics,
        caller_of=lambda _: LOCAL,
        own_headers=Headers({REMEDIATION_HEADER: remediation_id}),
        toolsets=toolsets,
    )
    if greeted is not None:
        server.middleware.append(_Greeted(greeted))
    lines = _Lines(_standard_input())
    async with stdio_server(stdin=lines) as (incoming, outgoing):
        lines.refusals = outgoing
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Greeted:
    """Sets an event once the first request is answered. A middleware of the SDK, behind which the answer leaves."""

    def __init__(self, greeted: asyncio.Event) -> None:
        self._greeted = greeted

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        # What needs the catalog waits for it, so that no answer may have to come first.
        asyncio.get_running_loop().call_later(_LEAVES_SECONDS, self._greeted.set)
        return await call_next(ctx)


class _Lines(anyio.AsyncFile[str]):
    """The messages of the client. One that has a member twice is refused, as over HTTP: the SDK takes the last."""

    refusals: MemoryObjectSendStream[SessionMessage]

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in super().__aiter__():
            refusal = _refusal(line)
            if refusal is None:
                yield line
            else:
                await self.refusals.send(SessionMessage(refusal))


def _refusal(line: str) -> JSONRPCError | None:
    """The answer to a message that has a member twice; what is no JSON, or no message, is left to the SDK."""
    try:
        parsed(line)
    except InvalidInput as twice:
        error = ErrorData(code=INVALID_REQUEST, message=str(twice), data={"retry": False})
        return JSONRPCError(jsonrpc="2.0", id=_id_of(json.loads(line)), error=error)
    except (ValueError, RecursionError):
        return None
    return None


def _id_of(message: Any) -> str | int | None:
    given = message.get("id") if isinstance(message, dict) else None
    return given if type(given) in (str, int) else None


def _standard_input() -> TextIOWrapper:
    """Standard input, on a descriptor of its own: whatever is started meanwhile reads none of it."""
    wire = os.dup(sys.stdin.fileno())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    # A thread may still read when the server ends: the descriptor must not be closed under it.
    return TextIOWrapper(os.fdopen(wire, "rb", closefd=False), encoding="utf-8", errors="replace")
