"""The process that outlives the owner of a node and removes what namespaces do not: `keeper.py HOME MODULE ARGUMENT...`

It runs a module in new namespaces and waits for its end. When its standard input ends, because the owner has closed it
or was killed, it kills the module, and with it all other processes of its namespaces.
"""

import fcntl
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from lab.node.kubernetes import remove_cgroups

PID_FILE, LOCK_FILE = "pid", "lock"
_NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")
_EMPTY_SECONDS = 20.0


def main() -> None:
    """Run the module, then leave nothing of its node."""
    home = Path(sys.argv[1])
    with (home / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # bash is the init of the namespace: it reaps what its parents have left.
        module = ("bash", "-c", '"$@"; exit $?', "init", sys.executable, "-m", *sys.argv[2:])
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *_NAMESPACES, *module], pass_fds=_descriptors()
        )
        (home / PID_FILE).write_text(_init_of(process))
        threading.Thread(target=_kill_at_end_of_input, args=(process,), daemon=True).start()
        code = process.wait()
        clean_up(home)
    sys.exit(code)


def clean_up(home: Path) -> None:
    """Remove the cgroups and files of a node whose processes have been killed."""
    until = time.monotonic() + _EMPTY_SECONDS
    while True:
        try:
            remove_cgroups(home.name)
            break
        except OSError:  # the kernel has not ended them all yet
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    shutil.rmtree(home, ignore_errors=True)


def sweep(nodes: Path) -> int:
    """Clean up after keepers that were killed themselves. Returns after how many."""
    swept = 0
    for home in nodes.glob("*/"):
        with suppress(BlockingIOError, FileNotFoundError), (home / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clean_up(home)
            swept += 1
    return swept


def _init_of(process: subprocess.Popen[bytes]) -> str:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        if found := children.read_text().split():
            return found[0]
        time.sleep(0.01)
    return ""


def _descriptors() -> tuple[int, ...]:
    """The listener, which is the last argument of a node's init."""
    return (int(sys.argv[-1]),) if sys.argv[-1].isdecimal() else ()


def _kill_at_end_of_input(process: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    process.kill()


if __name__ == "__main__":
    main()
