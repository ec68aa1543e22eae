"""Nothing is left of a node or of the lab, however its owner ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lab.node.formulary_image import ROOT
from lab.node.layers import cache
from lab.node.node import start_node
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("programs")]


def nodes() -> list[str]:
    """The names of those whose files are there."""
    return [path.name for path in (cache() / "nodes").glob("node-*")]


def left_behind(*, others: Collection[str]) -> list[str]:
    """What nodes leave on this machine: files, cgroups, mounts and processes, but for those of the `others`.

    What runs inside a node ends with its first process, whose command has the name of the node, too.
    """
    found = [*nodes(), *map(str, Path("/sys/fs/cgroup").glob("*/node-*"))]
    lines = [*Path("/proc/self/mounts").read_text().splitlines(), *_commands()]
    found += [line for line in lines if "/nodes/node-" in line]
    return [each for each in found if not any(other in each for other in others)]


def test_nothing_is_left_when_a_node_ends() -> None:
    others = nodes()
    with start_node():
        assert left_behind(others=others)
    assert left_behind(others=others) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_nothing_is_left_of_a_node_whose_owner_is(number: signal.Signals) -> None:
    others = nodes()
    with _started("lab.node") as owner:
        assert owner.stdout is not None
        assert any("KUBECONFIG=" in line for line in owner.stdout)
        owner.send_signal(number)

    wait_until(lambda: not left_behind(others=others), what="the end of all of it")


@contextmanager
def _started(*module: str) -> Iterator[subprocess.Popen[str]]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    with subprocess.Popen(
        [sys.executable, "-m", *module],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    ) as owner:
        try:
            yield owner
        except BaseException:
            owner.kill()
            raise


def _commands() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
