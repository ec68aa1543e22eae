"""The MCP servers of two vector databases, for `bench_mcp_peers.py`: each in an environment of its own, offline."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_sessions import KeptSession
from mcp_stdio import StdioSession, stdio_session
from peer_model import FASTEMBED
from support.toolcache import installed, run_installer

TOP = 10
_COLLECTION = "workflows"
_PORTION = 100
_START_SECONDS = 120.0

Call = Callable[[str], tuple[str, dict[str, Any]]]
"""From a query to a tool and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What to install, how to start it on a data directory, how to fill it, and how a query is a call of a tool.

    `http` are its arguments for HTTP; empty where it speaks over standard input and output alone.
    """

    name: str
    packages: tuple[str, ...]
    environment: Callable[[Path, Path], Mapping[str, str]]
    fill: Callable[[StdioSession, Sequence[str]], None]
    call: Call
    http: tuple[str, ...] = ()

    @contextmanager
    def stdio(self, *, home: Path, data: Path) -> Iterator[StdioSession]:
        """A session with a server that is started for it."""
        environment = self._environment(home, data)
        with stdio_session(self._command(), environment=environment, log=data.with_suffix(".log")) as session:
            yield session

    @contextmanager
    def served(self, *, home: Path, data: Path, port: int) -> Iterator[str]:
        """The URL of a server."""
        url = f"http://127.0.0.1:{port}/mcp/"
        environment = os.environ | {**self._environment(home, data), "FASTMCP_SERVER_PORT": str(port)}
        command = [*self._command(), *self.http]
        with (
            data.with_suffix(".http.log").open("w") as log,
            subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
        ):
            try:
                _await(url, process=process)
                yield url
            finally:
                process.terminate()

    def _environment(self, home: Path, data: Path) -> dict[str, str]:
        return {"HOME": str(home), "HF_HUB_OFFLINE": "1", "FASTMCP_LOG_LEVEL": "ERROR", **self.environment(home, data)}

    def _command(self) -> list[str]:
        def install(directory: Path) -> None:
            run_installer([sys.executable, "-m", "venv", "--upgrade-deps", directory])
            run_installer([directory / "bin" / "python", "-m", "pip", "install", "--no-compile", *self.packages])

        versions = "-".join(package.replace("==", "-") for package in self.packages)
        programs = installed(name=f"{versions}-{sys.implementation.cache_tag}", install=install) / "bin"
        # The program names the directory in which it was installed, which had another name then.
        return [str(programs / "python"), str(programs / self.name)]


def _await(url: str, *, process: "subprocess.Popen[bytes]") -> None:
    """Until it answers."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            KeptSession(url).close()
        except ConnectionError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"{process.args!r} did not start")


def _qdrant_environment(home: Path, data: Path) -> dict[str, str]:
    return {
        "FASTEMBED_CACHE_PATH": str(home / FASTEMBED),
        "QDRANT_LOCAL_PATH": str(data),
        "COLLECTION_NAME": _COLLECTION,
        "QDRANT_SEARCH_LIMIT": str(TOP),
    }


def _fill_qdrant(session: StdioSession, documents: Sequence[str]) -> None:
    for document in documents:
        session.call("qdrant-store", {"information": document})


def _chroma_environment(home: Path, data: Path) -> dict[str, str]:
    return {"CHROMA_CLIENT_TYPE": "persistent", "CHROMA_DATA_DIR": str(data), "ANONYMIZED_TELEMETRY": "False"}


def _fill_chroma(session: StdioSession, documents: Sequence[str]) -> None:
    session.call("chroma_create_collection", {"collection_name": _COLLECTION})
    for start in range(0, len(documents), _PORTION):
        portion = list(documents[start : start + _PORTION])
        ids = [str(start + number) for number in range(len(portion))]
        metadatas = [{"number": each} for each in ids]
        arguments = {"collection_name": _COLLECTION, "documents": portion, "ids": ids, "metadatas": metadatas}
        session.call("chroma_add_documents", arguments)


QDRANT = Peer(
    name="mcp-server-qdrant",
    packages=("mcp-server-qdrant==0.8.1",),
    environment=_qdrant_environment,
    fill=_fill_qdrant,
    call=lambda query: ("qdrant-find", {"query": query}),
    http=("--transport", "streamable-http"),
)
CHROMA = Peer(
    name="chroma-mcp",
    # Its MCP library is pinned to one that does not work with later versions of pydantic.
    packages=("chroma-mcp==0.2.6", "pydantic==2.10.6"),
    environment=_chroma_environment,
    fill=_fill_chroma,
    call=lambda query: (
        "chroma_query_documents",
        {"collection_name": _COLLECTION, "query_texts": [query], "n_results": TOP},
    ),
)
PEERS = (QDRANT, CHROMA)
