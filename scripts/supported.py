"""Says in one line why this Python or machine is not supported, and fails; else says nothing: `python3 supported.py`.

Run before anything is installed, by whichever Python is there: its syntax is kept to what Python 3.6 reads. What is
supported is in `requirements/platforms.json`, which `make platforms` writes.
"""

import json
import os
import platform
import struct
import sys
import sysconfig
from typing import Any

PLATFORMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "requirements", "platforms.json")


def main() -> int:
    with open(PLATFORMS) as file:
        supported = json.load(file)
    problem = python_problem(supported["pythons"]) or machine_problem(supported["platforms"])
    if problem:
        sys.stderr.write(problem + "\n")
    return 1 if problem else 0


def python_problem(pythons: "list[str]") -> str:
    """Why this Python cannot be used; empty if it can."""
    here = f"{platform.python_implementation()} {platform.python_version()}"
    if struct.calcsize("P") != 8:
        here += ", 32 bit"
    elif sysconfig.get_config_var("Py_GIL_DISABLED"):
        here += ", free-threaded"
    elif platform.python_implementation() == "CPython" and ".".join(map(str, sys.version_info[:2])) in pythons:
        return ""
    return (
        f"{here} is not supported: not every dependency has a build for it. "
        f"Name CPython {pythons[0]} to {pythons[-1]}: make PYTHON=/path/to/python{pythons[-1]} ..."
    )


def machine_problem(platforms: "list[dict[str, Any]]") -> str:
    """Why this machine cannot be used; empty if it can."""
    library, release = _library()
    here = (platform.system(), platform.machine(), library)
    why = ""
    for known in platforms:
        if (known["system"], known["machine"], known["library"]) != here:
            continue
        if known["at_least"] and _numbers(release) >= _numbers(known["at_least"]):
            return ""
        why = f" has no build of {', '.join(known['missing'])} and"
    names = [f"{known['name']} ({known['library']} {known['at_least']})" for known in platforms if known["at_least"]]
    machine = " ".join(filter(None, (*here, release)))
    return f"{machine}{why} is not supported. The oldest supported systems are {', '.join(names)}."


def _library() -> "tuple[str, str]":
    """What wheels are built against, and its release."""
    if platform.system() == "Darwin":
        return "macOS", platform.mac_ver()[0]
    name, release = platform.libc_ver()
    return ("musl" if platform.system() == "Linux" and name != "glibc" else name), release


def _numbers(release: str) -> "list[int]":
    return [int(part) for part in release.split(".") if part.isdigit()]


if __name__ == "__main__":
    sys.exit(main())
