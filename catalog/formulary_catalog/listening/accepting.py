"""Sockets that connections are accepted from, also while the process is out of files."""

import errno
import os
import socket
from typing import Any

from formulary_catalog.errors import StartupError
from formulary_catalog.listening.connection_limits import ConnectionLimits

_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def bound(*, host: str, port: int) -> socket.socket:
    """A socket bound to an address.

    Raises:
        StartupError: the address cannot be listened on.
    """
    try:
        # The protocol has to be named: asyncio turns off Nagle's algorithm only where it reads TCP, and with it on,
        # each small answer waits 40 ms for the client's acknowledgement.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise StartupError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another port or address"
        ) from error
    return listening


class Accepting(socket.socket):
    """A listening socket that keeps one file in reserve.

    Without files, asyncio logs a traceback for each of the connections that wait, again and again, and accepts none.
    Here the reserve is given up for a moment, the client is sent away, and a connection that waits for its own client
    is closed.
    """

    def __init__(self, listening: socket.socket, *, limits: ConnectionLimits) -> None:
        """Takes the socket over."""
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        self._limits = limits
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise
        os.close(self._spare)
        try:
            turned_away, address = super().accept()
            turned_away.close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        self._limits.refused("files", address=str(address[0]))
        self._limits.make_room()
        raise BlockingIOError  # "none just now": the loop asks again

    def close(self) -> None:
        if self.fileno() != -1:
            os.close(self._spare)
        super().close()
