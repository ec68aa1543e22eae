"""The wheel in an environment of its own, in a bare directory, without a network: what `pip install` gives."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.control_plane import free_port
from support.source_tree import newcomers_environment, started

# A network namespace starts with its loopback interface down.
_WITH_LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH22x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
os.execv(sys.argv[1], sys.argv[1:])
"""


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment or None)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def home(place: Path, request: pytest.FixtureRequest) -> Path:
    """An empty home directory."""
    directory = place / f"home-{request.node.name}"
    directory.mkdir()
    return directory


def test_the_pinned_packages_are_all_that_the_wheel_requires(installed: Path) -> None:
    assert "No broken requirements found." in run(installed / "bin" / "python", "-m", "pip", "check")


def test_without_a_network_the_first_search_ranks_by_meaning(installed: Path, home: Path) -> None:
    formulary = installed / "bin" / "formulary"
    bare = home / "bare"
    bare.mkdir()
    port = free_port()
    environment = newcomers_environment(home, FORMULARY_DATA_DIR=str(home / "data"))
    if offline := _without_network():
        serving: Sequence[str | Path] = [*offline, sys.executable, "-c", _WITH_LOOPBACK, formulary]
    else:
        closed = f"http://127.0.0.1:{free_port()}"
        environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), closed)
        environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        serving = [formulary]

    with started(
        [*serving, "up", "--port", str(port)], directory=bare, environment=environment, printed_to=home / "printed"
    ) as up:
        up.wait_for("mode hybrid")
        enter = ["nsenter", "--target", str(up.process.pid), "--net"] if offline else []
        search = ["search", "pods cannot resolve names", "--json", "--url", f"http://127.0.0.1:{port}"]
        found = json.loads(run(*enter, formulary, *search, **environment))
        assert up.press_control_c() == 0

    assert found["search_mode"] == "hybrid"
    assert found["workflows"]
    assert "Traceback" not in up.printed()
    assert list(bare.iterdir()) == []


def _without_network() -> list[str]:
    """What runs a command in a network of its own; empty if this user may not."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return []
    command = ["unshare", "--net", "--"]
    return command if subprocess.run([*command, "true"], capture_output=True).returncode == 0 else []
