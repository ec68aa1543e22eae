"""The snippets of docs/mcp.md for clients that install from PyPI and npm do what the page says (DESIGN section 7)."""

import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.toolcache import installed, run_installer

# The first run on a machine also installs the clients.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8080"
TOOLS = {"search_workflow_catalog", "get_workflow_details", "invoke_workflow"}
CLAUDE_CODE = "2.1.328"
CLIENTS = {"LangGraph": "langchain-mcp-adapters==0.3.2", "Google ADK": "google-adk[mcp]==2.13.0"}


def snippet(client: str, *, url: str) -> str:
    """The block of Python below the line that begins with the client's name."""
    block = re.search(rf"^{client},.*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert ADDRESS in block[1]
    return block[1].replace(ADDRESS, url)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_snippet_lists_the_tools(client: str, formulary_url: str, tmp_path: Path) -> None:
    package = CLIENTS[client]

    def install(home: Path) -> None:
        run_installer([sys.executable, "-m", "venv", "--upgrade-deps", home])
        run_installer([home / "bin" / "python", "-m", "pip", "install", "--no-compile", package])

    home = installed(name=f"{re.sub('[^a-z0-9.-]', '-', package)}-{sys.implementation.cache_tag}", install=install)
    body = "".join(f"    {line}\n" for line in snippet(client, url=formulary_url).splitlines())
    listing = "    print(','.join(each.name for each in tools))"
    program = f"import asyncio\n\nasync def main():\n{body}{listing}\n\nasyncio.run(main())\n"
    done = subprocess.run(
        [home / "bin" / "python", "-c", program],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert set(done.stdout.split()[-1].split(",")) >= TOOLS


def test_claude_code_connects_with_the_command(formulary_url: str, tmp_path: Path) -> None:
    architecture = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"claude-code-{sys.platform}-{architecture}"

    def install(home: Path) -> None:
        wanted = f"@anthropic-ai/{package}@{CLAUDE_CODE}"
        run_installer(["npm", "install", "--prefix", home, "--ignore-scripts", "--no-audit", "--no-fund", wanted])

    home = installed(name=f"{package}-{CLAUDE_CODE}", install=install)
    command = re.search(r"`claude (mcp add [^`]+)`", PAGE)
    assert command is not None
    claude = home / "node_modules" / "@anthropic-ai" / package / "claude"
    said = ""
    for arguments in (shlex.split(command[1].replace(ADDRESS, formulary_url)), ["mcp", "list"]):
        done = subprocess.run(
            [claude, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env={"PATH": os.defpath, "HOME": str(tmp_path), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        )
        assert done.returncode == 0, done.stderr[-4000:]
        said = done.stdout

    assert re.search(r"^formulary: .*Connected$", said, re.MULTILINE), said
