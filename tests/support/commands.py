"""The command line as a process, run to its end."""

import asyncio
import os
import subprocess
from dataclasses import dataclass

from support.process import FORMULARY

_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


def formulary_now(*arguments: str, typed: str = "", **environment: str) -> Finished:
    """Run `formulary` with these arguments and `typed` on standard input.

    Nothing of the caller's FORMULARY_* settings is passed on.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FORMULARY_")}
    done = subprocess.run(
        [FORMULARY, *arguments],
        env=inherited | {"COLUMNS": "80"} | environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


async def formulary(*arguments: str, typed: str = "", **environment: str) -> Finished:
    """`formulary_now` for tests that serve something in their event loop meanwhile."""
    return await asyncio.to_thread(formulary_now, *arguments, typed=typed, **environment)


def assert_one_line(done: Finished, *, code: int, saying: str) -> None:
    """Ended with that code and one line on standard error, as JSON on standard output where that was asked for."""
    assert done.code == code
    assert done.err.startswith("formulary: ")
    assert saying in done.err
    assert done.err.count("\n") == 1
