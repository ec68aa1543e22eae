"""A real MCP client, as an agent would use it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ErrorData, RequestParamsMeta, TextContent

ERAS = ("auto", "legacy")


@asynccontextmanager
async def agent(
    url: str, *, mode: str = "auto", headers: Mapping[str, str] | None = None, path: str = "/mcp"
) -> AsyncIterator[Client]:
    """A client of the server at `url` that sends `headers` with everything."""
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(f"{url}{path}", http_client=http), mode=mode) as client:
            yield client


async def call(
    url: str,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> CallToolResult:
    """The result of one tool call."""
    async with agent(url, mode=mode, headers=headers) as client:
        return await client.call_tool(tool, {**arguments}, meta=cast(RequestParamsMeta | None, meta))


async def protocol_error(
    url: str,
    request: Callable[[Client], Awaitable[object]],
    *,
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
) -> ErrorData:
    """The JSON-RPC error that the server answers a request with."""
    async with agent(url, mode=mode, headers=headers) as client:
        with pytest.raises(MCPError) as raised:
            await request(client)
    return raised.value.error


def text_of(result: CallToolResult) -> str:
    """The one text block of a result."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def answer_of(result: CallToolResult) -> dict[str, Any]:
    """The answer of a call that succeeded: the same as text and as structured content."""
    text = text_of(result)
    assert not result.is_error, text
    answer: dict[str, Any] = json.loads(text)
    assert result.structured_content == answer
    return answer


def found(result: CallToolResult) -> list[str]:
    """The workflow ids of a search, in order."""
    return [hit["workflow_id"] for hit in answer_of(result)["workflows"]]


def refused(result: CallToolResult) -> str:
    """The text of a call that failed: one line, without anything of the inside."""
    text = text_of(result)
    assert result.is_error, text
    assert "\n" not in text
    assert not any(word in text.lower() for word in ("traceback", "pydantic", "asyncpg", "validation error"))
    assert "select " not in text, "our statements are in lower case, examples are not"
    return text
