"""HTTP over one kept connection with next to no cost of its own, for many clients on the cores of the server."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back, and how many seconds that took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection to a server; made anew where it was lost."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._drop()

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Reply:
        return await self._exchange("GET", path, body=b"", headers=headers or {})

    async def post(self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> Reply:
        return await self._exchange("POST", path, body=json.dumps(body).encode(), headers=headers or {})

    async def rpc(
        self, method: str, params: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, path: str = "/mcp"
    ) -> Reply:
        """A request to the MCP side, as a client of the newest protocol sends it."""
        named = {"Mcp-Name": str(params["name"])} if "name" in params else {}
        told = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            **named,
            **(headers or {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        return await self.post(path, body, headers=told)

    async def tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        path: str = "/mcp",
    ) -> Reply:
        """A call of a tool."""
        return await self.rpc("tools/call", {"name": name, "arguments": dict(arguments)}, headers=headers, path=path)

    async def hung_up(self) -> None:
        """Return when the server ended this connection between two calls."""
        reader, _ = await self._connection()
        await reader.read()

    async def _exchange(self, method: str, path: str, *, body: bytes, headers: Mapping[str, str]) -> Reply:
        started = time.perf_counter()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", f"Content-Length: {len(body)}"]
        lines += ["Content-Type: application/json", *(f"{name}: {value}" for name, value in headers.items())]
        try:
            reader, writer = await self._connection()
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            status, told, answered = await _answer(reader)
        except BaseException:
            self._drop()
            raise
        if told.get("connection") == "close":
            self._drop()
        return Reply(status=status, headers=told, body=answered, seconds=time.perf_counter() - started)

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            host, _, port = self._host.rpartition(":")
            self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self._reader, self._writer

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Raises `ConnectionError` where the server hangs up before."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("the server hung up") from None
    return int(head[0].split(" ")[1]), headers, body
