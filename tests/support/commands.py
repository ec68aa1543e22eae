"""The command line, run to its end: in the test's process, or as a process of its own.

`formulary` and `formulary_now` call `main()` in a thread of the test's process: imports and the bundled model are
loaded once, and whatever a command leaves open fails its test. A command has the arguments, environment, standard input
and exit code of a process, and standard output and standard error of its own. Threads that ran before it, such as the
event loop of a test that serves something, keep the usual streams.

Streams and environment belong to a whole process, so one command at a time runs in it. `formulary_process` is for what
a thread cannot have: a command that runs beside another one, signals, pipes, the file /dev/stdin. Commands that serve
always run as processes: they handle signals and set up logging. `test_cli_processes` holds both ways equal.
"""

import asyncio
import functools
import io
import logging
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

import pytest

from formulary_catalog.edges.cli import main
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.embedding.model import BUNDLED
from formulary_catalog.runtime import model_watch
from support.process import FORMULARY

_SECONDS = 180
_SERVING = {"up", "demo", "serve", "stdio"}
_running = threading.Lock()


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
    if _SERVING.intersection(arguments[:1]):
        return formulary_process(*arguments, typed=typed, **environment)
    if not _running.acquire(timeout=_SECONDS):
        raise AssertionError("another command runs in this process; start one of them with formulary_process")
    try:
        return _finished_here(arguments, typed=typed, environment=environment)
    finally:
        _running.release()


async def formulary(*arguments: str, typed: str = "", **environment: str) -> Finished:
    """`formulary_now` for tests that serve something in their event loop meanwhile."""
    return await asyncio.to_thread(formulary_now, *arguments, typed=typed, **environment)


def formulary_process(*arguments: str, typed: str = "", **environment: str) -> Finished:
    """`formulary_now` as a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FORMULARY_")}
    done = subprocess.run(
        [FORMULARY, *arguments],
        env=inherited | _own(environment),
        input=typed,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def assert_one_line(done: Finished, *, code: int, saying: str) -> None:
    """Ended with that code and one line on standard error, as JSON on standard output where that was asked for."""
    assert done.code == code
    assert done.err.startswith("formulary: ")
    assert saying in done.err
    assert done.err.count("\n") == 1


def answer_of(source: str) -> str:
    """What a command without a verdict says last, to standard error, of the server or database that it worked on."""
    return f"answer of {source}\n"


class _Stream:
    """A standard stream: the command's own, for threads that ran before the command the usual one."""

    def __init__(self, usual: TextIO, *, errors: str) -> None:
        self._usual = usual
        self._written = io.BytesIO()
        self._own = io.TextIOWrapper(self._written, encoding="utf-8", errors=errors, write_through=True)
        self._others = set(threading.enumerate())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual if threading.current_thread() in self._others else self._own, name)

    def text(self) -> str:
        """What the command wrote, with the line ends that `subprocess` would read."""
        self._own.flush()
        return io.TextIOWrapper(io.BytesIO(self._written.getvalue()), encoding="utf-8").read()


def _finished_here(arguments: Sequence[str], *, typed: str, environment: Mapping[str, str]) -> Finished:
    """Run it in a new thread, which has neither an event loop nor variables of the caller's context."""
    out, err = _Stream(sys.stdout, errors="strict"), _Stream(sys.stderr, errors="backslashreplace")
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(_exit_code(arguments)), name="command", daemon=True)
    with _as_in_a_process(environment, typed=typed, out=out, err=err):
        thread.start()
        thread.join(_SECONDS)
    if not codes:
        raise AssertionError(f"formulary {' '.join(arguments)} did not end:\n{out.text()}{err.text()}")
    return Finished(codes[0], out.text(), err.text())


def _exit_code(arguments: Sequence[str]) -> int:
    """Does what the installed program does, and the interpreter at its end."""
    try:
        main(list(arguments), prog_name="formulary")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    return 1


@contextmanager
def _as_in_a_process(environment: Mapping[str, str], *, typed: str, out: _Stream, err: _Stream) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, _warnings_on_stderr():
        for name in [name for name in os.environ if name.startswith("FORMULARY_")]:
            patch.delenv(name)
        for name, value in _own(environment).items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode()), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(model_watch, "load_embedder", _load_embedder)
        yield


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Print what is logged as a process does that has not set up logging; pytest's handlers would prevent that."""
    assert logging.lastResort is not None
    logging.root.addHandler(logging.lastResort)
    try:
        yield
    finally:
        logging.root.removeHandler(logging.lastResort)


def _own(environment: Mapping[str, str]) -> dict[str, str]:
    return {"COLUMNS": "80", **environment}


def _load_embedder(model: str = BUNDLED, **options: Any) -> Embedder:
    """Loads the bundled model once for all commands of the session."""
    if model == BUNDLED and options.get("backend") == "openvino":
        return _bundled()
    return load_embedder(model, **options)


@functools.cache
def _bundled() -> Embedder:
    return load_embedder()
