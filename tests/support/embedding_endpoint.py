"""An embedding endpoint on loopback that speaks both protocols, and fails in whatever way it is told to."""

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import numpy.typing as npt

Answer = Callable[["Handler", bytes], None]
SHA = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """What the endpoint is, and what it was asked. Everything may be changed while it runs."""

    port: int = 0
    model: str = "acme/small"
    sha: str | None = SHA
    dimensions: int = 384
    most_texts: int | None = None
    """More than that at once get `refusal`."""
    most_characters: int = 100_000
    """A longer text does, too."""
    refusal: int = 413
    answer: Answer | None = None
    """Sends what would have been the answer, in its own way; None: properly."""
    requests: list[tuple[str, Any, Mapping[str, str]]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def tei(self) -> str:
        return f"tei+http://127.0.0.1:{self.port}"

    @property
    def openai(self) -> str:
        return f"openai+http://127.0.0.1:{self.port}/v1#{self.model}"

    def texts(self) -> list[str]:
        """All texts that it was sent, in order."""
        return [text for _, body, _ in self.requests if body for text in body.get("inputs", body.get("input"))]

    def asked(self) -> int:
        """How often it was asked for vectors."""
        return sum(body is not None for _, body, _ in self.requests)

    def vector(self, text: str) -> npt.NDArray[np.float64]:
        """A unit vector that the model and the text decide."""
        seed = hashlib.sha256(f"{self.model}@{self.sha}: {text}".encode()).digest()
        vector = np.random.default_rng(list(seed)).standard_normal(self.dimensions)
        return np.asarray(vector / np.linalg.norm(vector))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    endpoint: Endpoint
    connections: set[socket.socket]

    def setup(self) -> None:
        super().setup()
        self.connections.add(self.connection)

    def finish(self) -> None:
        self.connections.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self.endpoint.requests.append((self.path, None, dict(self.headers)))
        info = {"model_id": self.endpoint.model, "model_sha": self.endpoint.sha, "max_client_batch_size": 32}
        self._answer(info | {"model_type": {"embedding": {"pooling": "mean"}}} if self.path == "/info" else None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.endpoint.requests.append((self.path, body, dict(self.headers)))
        texts = body.get("inputs", body.get("input"))
        too_many = self.endpoint.most_texts is not None and len(texts) > self.endpoint.most_texts
        if too_many or max(map(len, texts)) > self.endpoint.most_characters:
            self.send(b"{}", status=self.endpoint.refusal)
            return
        rows = [self.endpoint.vector(text)[: body.get("dimensions")].tolist() for text in texts]
        if self.path == "/embed":
            self._answer(rows)
        elif self.path == "/v1/embeddings":
            data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
            self._answer({"object": "list", "model": body["model"], "data": data[::-1]})
        else:
            self._answer(None)

    def send(self, content: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """An answer that HTTP has nothing against."""
        self.send_response(status)
        told = {"Content-Type": "application/json", "Content-Length": str(len(content))} | dict(headers or {})
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def drip(self, content: bytes, *, seconds: float) -> None:
        """One byte after the other, until the other side has had enough."""
        for byte in content:
            self.wfile.write(bytes([byte]))
            if self.endpoint.closing.wait(seconds):
                return

    def log_message(self, *_: Any) -> None:
        """Nothing: the test says what was asked."""

    def _answer(self, content: Any) -> None:
        if content is None:
            self.send(b"{}", status=404)
            return
        try:
            encoded = json.dumps(content).encode()
            if self.endpoint.answer is None:
                self.send(encoded)
            else:
                self.endpoint.answer(self, encoded)
        except OSError:  # the other side did not wait for the end
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the other side broke is what these tests are about."""


@contextmanager
def running(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Serve, on its port if it has one, else on a free one; afterwards the port refuses connections.

    Connections that are open then are cut.
    """

    class Bound(Handler):
        pass

    Bound.endpoint, Bound.connections = endpoint, set()
    endpoint.closing.clear()
    with _Server(("127.0.0.1", endpoint.port), Bound) as server:
        endpoint.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.closing.set()
            server.shutdown()
            thread.join()
            for connection in tuple(Bound.connections):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def seconds_of(work: Callable[[], object]) -> float:
    """How long something takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def cosines(one: npt.ArrayLike, other: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Of unit vectors, pair by pair."""
    products: npt.NDArray[np.float64] = np.asarray(one, np.float64) * np.asarray(other, np.float64)
    return np.asarray(products.sum(axis=1))
