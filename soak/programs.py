"""The programs of a soak: each a process of its own, on the code of this tree."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.announced_address import announced

START_SECONDS = 120.0
_STOP_SECONDS = 30.0
_SIGNS = ("Traceback", "internal_error")
_SHOWN_OF_LOG = 4000


@asynccontextmanager
async def program(module: str, *arguments: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program of the soak; ended with the block."""
    root = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, (str(root), str(root / "tests"), os.environ.get("PYTHONPATH"))))
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"PYTHONPATH": path},
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), timeout=_STOP_SECONDS)


async def address_of(server: asyncio.subprocess.Process) -> str:
    """Where the server listens, as soon as it does."""
    assert server.stdout is not None
    return announced((await asyncio.wait_for(server.stdout.readline(), timeout=START_SECONDS)).decode())


def unexpected(log: str) -> list[str]:
    """The first that nobody foresaw, with what follows it."""
    return [
        f"the log of the server: {log[found : found + _SHOWN_OF_LOG]}"
        for sign in _SIGNS
        if (found := log.find(sign)) >= 0
    ]
