"""Other stores of vectors, in an environment of their own: what they need would not go with ours."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.toolcache import installed, run_installer

REQUIREMENTS = (
    "chromadb==1.5.9",
    "faiss-cpu==1.15.1",
    "lancedb==0.40.0",
    "pysqlite3-binary==0.5.4.post2",
    "qdrant-client==1.20.0",
    "sqlite-vec==0.1.9",
)
_DRIVER = Path(__file__).with_name("peers_driver.py")


class Peers:
    """The process in which all of them run, one after the other; it answers one line with one line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def call(self, **request: Any) -> Any:
        """Have the driver do something. Raises `RuntimeError` if it has ended or could not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of the peers ended at {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{request}: {answer['error']}")
        return answer["result"]


@contextmanager
def peers(scratch: Path) -> Iterator[Peers]:
    """Start the driver; what it stores lies in `scratch`."""
    identity = hashlib.sha256("\n".join(REQUIREMENTS).encode()).hexdigest()[:12]
    home = installed(name=f"peers-{identity}-{sys.implementation.cache_tag}", install=_install)
    command: Sequence[str | Path] = [home / "bin" / "python", _DRIVER, scratch]
    with (
        (scratch / "peers.log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=scratch
        ) as process,
    ):
        try:
            yield Peers(process)
        finally:
            process.kill()


def _install(home: Path) -> None:
    run_installer([sys.executable, "-m", "venv", "--upgrade-deps", home])
    run_installer([home / "bin" / "python", "-m", "pip", "install", "--no-compile", *REQUIREMENTS])
