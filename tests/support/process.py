"""`formulary up` as a process of its own, as a user runs it."""

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue

FORMULARY = str(Path(sys.executable).with_name("formulary"))
READY_SECONDS = 120
_READY = re.compile(r"MCP (http://[0-9.:]+)/mcp")


@dataclass(slots=True, kw_only=True)
class Up:
    """A running `formulary up`; `output` is what it has printed so far, both streams."""

    process: subprocess.Popen[str]
    url: str = ""
    output: list[str] = field(default_factory=list)


@contextmanager
def formulary_up(
    *arguments: str, data_dir: Path, manifests: Sequence[Path], seconds: float = READY_SECONDS
) -> Iterator[Up]:
    """Start it on a free port, wait until it says that it is ready, and stop it at the end."""
    command = [FORMULARY, "up", "--port", "0", "--data-dir", str(data_dir)]
    for directory in manifests:
        command += ["--manifests", str(directory)]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    up = Up(process=process)
    addresses: Queue[str] = Queue()
    reader = threading.Thread(target=_read, args=(up, addresses), daemon=True)
    reader.start()
    try:
        try:
            up.url = addresses.get(timeout=seconds)
        except Empty:
            up.url = ""
        if not up.url:
            raise AssertionError("formulary up did not get ready:\n" + "".join(up.output))
        yield up
    finally:
        process.terminate()
        process.wait(timeout=30)
        reader.join(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def private_directory() -> Iterator[Path]:
    """A temporary directory."""
    with tempfile.TemporaryDirectory(prefix="formulary-test-") as directory:
        yield Path(directory)


def _read(up: Up, addresses: "Queue[str]") -> None:
    """Follow the output to its end, so that the process never waits for a reader; an end without an address tells."""
    assert up.process.stdout is not None
    for line in up.process.stdout:
        up.output.append(line)
        if found := _READY.search(line):
            addresses.put(found.group(1))
    addresses.put("")
