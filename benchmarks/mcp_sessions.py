"""How clients of MCP call a tool over HTTP, with next to no cost of their own: one call on a kept connection, or a
whole session for each call, as HolmesGPT does it."""

import http.client
import json
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from support.wire import META, MODERN

Json = dict[str, Any]
HANDSHAKE = "2025-11-25"
_SESSION = "mcp-session-id"
_TIMEOUT = 30


class ToolFailed(Exception):
    """What the server said instead of a result."""


class KeptConnection:
    """A client of the newest protocol: each call is one request, all on one connection."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._http = _Http(url, headers={"MCP-Protocol-Version": MODERN, **(headers or {})})

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """The result of a tool. Raises `ToolFailed`."""
        params = {"name": tool, "arguments": dict(arguments), "_meta": META}
        headers = {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        return result_of(self._http.request("tools/call", params, headers=headers))

    def close(self) -> None:
        self._http.close()


class SessionEachCall:
    """A client of the older protocols that keeps nothing: handshake, call, list of tools, on a connection of its own.

    Where the server keeps sessions, it is ended as well. The stream that such a server offers beside is not opened.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._headers = dict(headers or {})

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """The result of a tool. Raises `ToolFailed`."""
        session = _Http(self._url, headers=self._headers)
        try:
            session.begin()
            result = result_of(session.request("tools/call", {"name": tool, "arguments": dict(arguments)}))
            session.request("tools/list", {})
            if _SESSION in session.headers:
                session.end()
        finally:
            session.close()
        return result


class KeptSession:
    """A client of the older protocols that keeps its session."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._http = _Http(url, headers=headers or {})
        self._http.begin()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """The result of a tool. Raises `ToolFailed`."""
        return result_of(self._http.request("tools/call", {"name": tool, "arguments": dict(arguments)}))

    def tools(self) -> list[Json]:
        """What the server lists by default."""
        listed: list[Json] = result_of(self._http.request("tools/list", {}))["tools"]
        return listed

    def close(self) -> None:
        self._http.close()


class _Http:
    """JSON-RPC on one connection; answers come as JSON, or as a stream of one event."""

    def __init__(self, url: str, *, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT)
        self._path = parts.path or "/mcp"
        self._ids = count(1)
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        }

    def request(self, method: str, params: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> Json:
        """The answer to a request."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        answer: Json = json.loads(_data(self._send(message, headers=headers)))
        return answer

    def notify(self, method: str) -> None:
        """Tell what has no answer."""
        self._send({"jsonrpc": "2.0", "method": method})

    def begin(self) -> None:
        """Shake hands."""
        answer = self.request("initialize", hello())
        self.headers["MCP-Protocol-Version"] = answer["result"]["protocolVersion"]
        self.notify("notifications/initialized")

    def end(self) -> None:
        """End the session."""
        self._connection.request("DELETE", self._path, headers=self.headers)
        self._connection.getresponse().read()

    def close(self) -> None:
        self._connection.close()

    def _send(self, message: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> bytes:
        body = json.dumps(message)
        sent = {**self.headers, **(headers or {})}
        try:
            response = self._exchange(body, headers=sent)
        except ConnectionError:  # idle for so long that the server has closed it
            self._connection.close()
            response = self._exchange(body, headers=sent)
        if session := response.headers.get(_SESSION):
            self.headers[_SESSION] = session
        return response.read()

    def _exchange(self, body: str, *, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        self._connection.request("POST", self._path, body=body, headers=headers)
        return self._connection.getresponse()


def _data(body: bytes) -> bytes:
    """The JSON of a body: all of it, or what its one event says."""
    if body.startswith(b"{"):
        return body
    return next(line.removeprefix(b"data:") for line in body.splitlines() if line.startswith(b"data: {"))


def hello() -> Json:
    """The parameters of `initialize`."""
    return {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def result_of(answer: Json) -> Json:
    """The result of an answer to a call. Raises `ToolFailed`."""
    if "error" in answer or answer["result"].get("isError"):
        raise ToolFailed(str(answer)[:500])
    result: Json = answer["result"]
    return result
