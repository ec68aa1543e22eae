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
from lab.node.programs import find_programs
from support.control_plane import Cluster, KubectlFailed
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("programs")]
_OF_TRIALS = f"{ROOT}/lab/functions.sh"


def nodes() -> list[str]:
    """The names of those whose files are there."""
    return [path.name for path in (cache() / "nodes").glob("node-*")]


def left_behind(*, others: Collection[str]) -> list[str]:
    """What nodes leave on this machine: files, cgroups, mounts and processes, but for those of the `others`.

    What runs inside a node ends with its first process, whose command has the name of the node, too.
    """
    found = [*nodes(), *map(str, Path("/sys/fs/cgroup").glob("*/node-*"))]
    lines = [*Path("/proc/self/mounts").read_text().splitlines(), *_commands()]
    found += [line for line in lines if "/nodes/node-" in line or _OF_TRIALS in line]
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


@pytest.mark.parametrize(("command", "namespace"), [("try", "formulary"), ("check", "shipping")])
def test_a_lab_that_is_stopped_at_its_work_ends_soon_and_leaves_nothing(
    command: str, namespace: str, tmp_path: Path
) -> None:
    others = nodes()
    with _started("lab", command, "quota-pods") as owner:
        wait_until(lambda: _has_pods(namespace, others=others, home=tmp_path), what="the work to begin", seconds=180)
        owner.terminate()
        owner.wait(20)

    wait_until(lambda: not left_behind(others=others), what="the end of all of it", seconds=5)


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


def _has_pods(namespace: str, *, others: Collection[str], home: Path) -> bool:
    """Whether there are pods in this namespace of the new node."""
    for kubeconfig in (cache() / "nodes").glob("*/kubeconfig"):
        if kubeconfig.parent.name not in others:
            node = Cluster(kubectl=find_programs().control_plane / "kubectl", kubeconfig=kubeconfig, home=home)
            try:
                return bool(node.get("pods", f"--namespace={namespace}")["items"])
            except KubectlFailed:
                return False
    return False


def _commands() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
