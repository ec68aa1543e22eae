"""Running the HTTP application in the event loop of the caller until it is told to stop."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from formulary_catalog.errors import StartupError

GRACE_SECONDS = 10
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(app: ASGIApp, *, host: str, port: int, on_ready: Callable[[int], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish the running calls and return; a second SIGINT does not wait.

    `on_ready` is called once with the port that is listened on, which differs from `port` if that is 0.

    Raises:
        StartupError: the address cannot be listened on.
    """
    listening = _listen(host=host, port=port)
    config = uvicorn.Config(
        app,
        http="httptools",
        access_log=False,
        log_config=None,
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config, on_started=lambda: on_ready(listening.getsockname()[1]))
    with contextlib.closing(listening):
        await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn, telling when it listens, and stopping without raising the signal again."""

    def __init__(self, config: uvicorn.Config, *, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _listen(*, host: str, port: int) -> socket.socket:
    """A bound socket; uvicorn's own way ends the whole process when it cannot bind."""
    try:
        # The protocol has to be named: asyncio turns off Nagle's algorithm only where it reads TCP, and with it on,
        # each small answer waits 40 ms for the client's acknowledgement.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as undo:
            listening = undo.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            undo.pop_all()
    except OSError as error:
        raise StartupError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another with --port or --host"
        ) from error
    return listening
