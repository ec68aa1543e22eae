"""A client of MCP over standard input and output that keeps its session."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from mcp_sessions import hello, result_of


class StdioSession:
    """A session with a server that it started; `meta` goes along with each call."""

    def __init__(self, process: "subprocess.Popen[str]", *, meta: Mapping[str, str] | None = None) -> None:
        self._process = process
        self._meta = {"_meta": dict(meta)} if meta else {}
        self._ids = count(1)
        self._request("initialize", hello())
        self._tell({"method": "notifications/initialized"})

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool. Raises `ToolFailed`."""
        return result_of(self._request("tools/call", {"name": tool, "arguments": dict(arguments), **self._meta}))

    def tools(self) -> list[dict[str, Any]]:
        """What the server lists by default."""
        listed: list[dict[str, Any]] = result_of(self._request("tools/list", {}))["tools"]
        return listed

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        number = next(self._ids)
        self._tell({"id": number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # some print what has no place there
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                return answer
        raise SystemExit(f"{self._process.args!r} ended early")

    def _tell(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self._process.stdin, flush=True)


@contextmanager
def stdio_session(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    log: Path,
    meta: Mapping[str, str] | None = None,
) -> Iterator[StdioSession]:
    """Start a server whose errors go to `log`, and end it."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield StdioSession(process, meta=meta)
        finally:
            process.terminate()
