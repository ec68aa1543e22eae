"""Outside programs that tests run, installed once from their package registry and kept in the user's cache.

Only tools that cannot live in the test environment itself belong here: another runtime, or a Python program whose
pins contradict ours.
"""

import fcntl
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from platformdirs import user_cache_path

NODE = "22.23.3"
"""Programs of npm that tests run need it; what distributions ship is older."""


def location(name: str) -> Path:
    """Where tool `name` is once it is installed."""
    return user_cache_path("formulary") / "tools" / name


def installed(*, name: str, install: Callable[[Path], None]) -> Path:
    """The directory of tool `name`; `install` fills it on first use.

    `name` holds every version that matters: another name is another tool. An install appears under its name only
    when it is complete, so one that was interrupted is begun again, and of several processes one installs while
    the others wait.
    """
    home = location(name)
    tools = home.parent
    tools.mkdir(parents=True, exist_ok=True)
    with (tools / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            partial = tools / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            install(partial)
            partial.rename(home)
    return home


def run_installer(command: Sequence[str | Path]) -> None:
    """Run one step of an install. Raises `RuntimeError` with the end of its output if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        shown = " ".join(map(str, command))
        raise RuntimeError(f"'{shown}' ended with {done.returncode}:\n{done.stdout[-2000:]}")


def npm_packages(name: str, *packages: str) -> Path:
    """The `node_modules` with these packages of npm, such as `oidc-provider@9.13.3`, and Node in its `.bin`."""

    def install(home: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(f"npm is missing, which installs {', '.join(packages)} for tests: apt-get install npm")
        architecture = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        # The platform's own package rather than `node`: that one needs an install script to fetch this one.
        node = f"node-{sys.platform}-{architecture}@{NODE}"
        options = ("--ignore-scripts", "--no-audit", "--no-fund")
        run_installer([npm, "install", "--prefix", home, *options, *packages, node])

    return installed(name=f"{name}-node-{NODE}", install=install) / "node_modules"


def debian_packages(name: str, *packages: str, adapt: Callable[[Path], None] = lambda home: None) -> Path:
    """The directory with these packages of Debian, such as `registry` or `registry=2.8`, unpacked and not installed.

    `adapt` changes once what is to be where it is not installed.
    """

    def unpack(home: Path) -> None:
        run_installer(["sh", "-c", 'cd "$0" && apt-get download -qq "$@"', home, *packages])
        for package in home.glob("*.deb"):
            run_installer(["dpkg", "-x", package, home])
            package.unlink()
        adapt(home)

    return installed(name=name, install=unpack)
