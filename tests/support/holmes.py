"""HolmesGPT itself, the client that matters most, in a virtual environment of its own.

Its pins contradict ours (another `mcp`, another `uvicorn`), so the chats run in a subprocess that
`clients/holmes_driver.py` drives and reports from.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from support.toolcache import installed, run_installer

HOLMESGPT = "0.45.0"

_TOKEN = "FORMULARY_TOKEN"

_DRIVER = Path(__file__).parents[1] / "clients" / "holmes_driver.py"


@dataclass(frozen=True)
class ToolCall:
    """What the scripted model asks for: a tool and the arguments just as a model would write them."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Chat:
    """One conversation: the headers of the request that opened it and the calls the model makes, in order."""

    headers: Mapping[str, str]
    calls: tuple[ToolCall, ...]


class CallReport(BaseModel):
    """One tool call as HolmesGPT saw it. `read_by_model` is the text that went back to the model."""

    tool: str
    status: str
    data: str | None
    error: str | None
    read_by_model: str


class ChatReport(BaseModel):
    answer: str | None
    calls: list[CallReport]


class ToolsetReport(BaseModel):
    """The outcome of the start-up check, which runs before any request and so with an empty header."""

    status: str
    error: str | None
    tools: list[str]


class Report(BaseModel):
    """All that was seen in one HolmesGPT process. `offered` is the tool list the model received, by tool name;
    `shown` is every request to the model, whole; `dialled` names every address outside this machine that anything tried
    to reach."""

    version: str
    toolset: ToolsetReport
    offered: dict[str, dict[str, Any]]
    shown: list[str]
    chats: dict[str, ChatReport]
    dialled: list[str]


def converse(*, url: str, chats: Mapping[str, Chat], token: str = "") -> Report:
    """Hold all `chats` at once in one HolmesGPT process that is configured with the MCP endpoint `url`.

    With a `token` the process has it in its environment, and sends it with everything.
    """
    home = installed(name=f"holmesgpt-{HOLMESGPT}-{sys.implementation.cache_tag}", install=_install)
    headers = {"Authorization": f"Bearer {{{{ env.{_TOKEN} }}}}"} if token else {}
    plan = {"url": url, "headers": headers, "chats": {name: asdict(chat) for name, chat in chats.items()}}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [home / "bin" / "python", _DRIVER],
            input=json.dumps(plan),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=scratch,
            # HolmesGPT takes configuration from the environment and from its home directory: it gets neither of ours.
            env={"PATH": os.defpath, "HOME": scratch, "LITELLM_LOCAL_MODEL_COST_MAP": "True", _TOKEN: token},
        )
    if done.returncode != 0:
        raise RuntimeError(f"HolmesGPT broke down with {done.returncode}:\n{done.stderr[-4000:]}")
    return Report.model_validate_json(done.stdout)


def _install(home: Path) -> None:
    # Old versions of pip need three times as long to resolve its 180 packages.
    run_installer([sys.executable, "-m", "venv", "--upgrade-deps", home])
    run_installer([home / "bin" / "python", "-m", "pip", "install", "--no-compile", f"holmesgpt=={HOLMESGPT}"])
