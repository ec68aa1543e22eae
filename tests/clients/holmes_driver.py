"""Runs inside HolmesGPT's own virtual environment: chats through its real library, with a scripted model.

Reads a plan from standard input, `{"url", "headers", "chats": {name: {"headers", "calls": [{"tool", "arguments"}]}}}`,
and prints one JSON document (`support.holmes.Report`). The model is an OpenAI-compatible server on loopback that plays
the calls which the user's message holds; everything between it and the MCP server is HolmesGPT.
"""

import contextlib
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
TOOLSET = "formulary"

dialled: list[str] = []


def stay_home(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: nothing leaves this machine, and every attempt is reported."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if host not in LOOPBACK:
        dialled.append(str(host))
        raise ConnectionRefusedError(f"'{host}' is not on this machine")


class ScriptedModel(BaseHTTPRequestHandler):
    """Answers a chat completion with the next call of the script that the user's message is, then with a text.

    It keeps nothing between requests: the number of results already in the conversation says which call is next.
    """

    offered: ClassVar[dict[str, dict[str, Any]]] = {}
    shown: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.shown.append(body)
        request = json.loads(body)
        self.offered.update({tool["function"]["name"]: tool["function"] for tool in request["tools"]})
        messages = request["messages"]
        script = json.loads(next(message["content"] for message in messages if message["role"] == "user"))
        played = sum(message["role"] == "tool" for message in messages)
        self.answer(tool_call(script[played], number=played) if played < len(script) else closing_text())

    def answer(self, choice: dict[str, Any]) -> None:
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        completion = {"id": "scripted", "object": "chat.completion", "created": 0, "model": "scripted"}
        body = json.dumps({**completion, "choices": [{"index": 0, **choice}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


def tool_call(call: dict[str, Any], *, number: int) -> dict[str, Any]:
    function = {"name": call["tool"], "arguments": json.dumps(call["arguments"])}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}]
    return {"finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": calls}}


def closing_text() -> dict[str, Any]:
    return {"finish_reason": "stop", "message": {"role": "assistant", "content": "That is all."}}


def configuration(*, url: str, headers: dict[str, str], model_port: int) -> dict[str, Any]:
    """What an operator writes into HolmesGPT's `config.yaml`, as JSON, which is YAML too."""
    header = "{{ request_context.headers['X-Remediation-Id'] }}"
    connection = {
        "url": url,
        "mode": "streamable-http",
        "headers": headers,
        "extra_headers": {"X-Remediation-Id": header},
    }
    return {
        "model": "openai/scripted",
        "api_key": "none",
        "api_base": f"http://127.0.0.1:{model_port}/v1",
        "mcp_servers": {TOOLSET: {"description": "Remediation workflow catalog", "config": connection}},
    }


def start_holmes(config: dict[str, Any]) -> Any:
    """HolmesGPT as its own server starts it: configuration from a file, toolsets checked at start-up.

    Imported here and not above, so that the audit hook sees what its import does.
    """
    settings = import_module("holmes.config").Config
    cache = import_module("holmes.core.toolset_manager").PrerequisiteCacheMode
    path = Path("config.yaml")
    path.write_text(json.dumps(config))
    return settings.load_from_file(path).create_toolcalling_llm(
        enable_all_toolsets_possible=False, prerequisite_cache=cache.DISABLED
    )


def hold(chat: dict[str, Any], *, holmes: Any) -> dict[str, Any]:
    """One conversation from the user's question to the closing text."""
    system = {"role": "system", "content": "You look for the remedy of an incident."}
    question = {"role": "user", "content": json.dumps(chat["calls"])}
    assistant = holmes.with_executor(holmes.tool_executor)  # one for each request, as the server has it
    result = assistant.call([system, question], request_context={"headers": chat["headers"]})
    read = {message["tool_call_id"]: message["content"] for message in result.messages if message["role"] == "tool"}
    calls = [
        {
            "tool": call.tool_name,
            "status": call.result.status.value,
            "data": call.result.data,
            "error": call.result.error,
            "read_by_model": read[call.tool_call_id],
        }
        for call in result.tool_calls
    ]
    return {"answer": result.result, "calls": calls}


def run(plan: dict[str, Any]) -> dict[str, Any]:
    model = ThreadingHTTPServer(("127.0.0.1", 0), ScriptedModel)
    threading.Thread(target=model.serve_forever, daemon=True).start()

    holmes = start_holmes(configuration(url=plan["url"], headers=plan["headers"], model_port=model.server_port))
    toolset = next(toolset for toolset in holmes.tool_executor.toolsets if toolset.name == TOOLSET)
    tools = [tool.name for tool in toolset.tools]
    chats = plan["chats"]
    with ThreadPoolExecutor(max_workers=len(chats)) as pool:
        held = dict(zip(chats, pool.map(lambda chat: hold(chat, holmes=holmes), chats.values()), strict=True))
    return {
        "version": version("holmesgpt"),
        "toolset": {"status": toolset.status.value, "error": toolset.error, "tools": tools},
        "offered": {name: ScriptedModel.offered[name] for name in tools},
        "shown": ScriptedModel.shown,
        "chats": held,
        "dialled": dialled,
    }


if __name__ == "__main__":
    sys.addaudithook(stay_home)
    with contextlib.redirect_stdout(sys.stderr):
        report = run(json.load(sys.stdin))
    print(json.dumps(report))
