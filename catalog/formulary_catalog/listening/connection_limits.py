"""The limits of a server: how many connections it holds, in all and of one address, and until when each may wait.

A connection waits while its client owes it something: a TLS handshake, a request, or the reading of an answer. Where
there are too many, one that waits gives way to the next, so that a client that holds connections open for nothing keeps
nobody out. One whose request is worked on is never closed.
"""

import asyncio
import math
import resource
from enum import Enum
from typing import Protocol

import structlog

from formulary_catalog.log import Throttle
from formulary_catalog.metrics import ConnectionMetrics
from formulary_catalog.settings import ConnectionSettings

WORKED_ON = math.inf
"""`due` of a connection whose client owes nothing."""
_OTHER_FILES = 192
"""Of the files that the process may open: those that are no connections, and those accepted at the same moment."""
_FEWEST = 16
_FOR_PROBES = 8
_LOOK_SECONDS = 1.0
_log = structlog.get_logger(__name__)


class Connection(Protocol):
    """A connection as the limits see it."""

    address: str
    due: float
    """When the client must have done what it is waited for, by the clock of the event loop; or `WORKED_ON`."""

    def end(self) -> None:
        """Close it: it is past due."""

    def abort(self) -> None:
        """Close it at once, to make room."""


class Slot(Enum):
    """What a new connection gets."""

    FULL = "full"
    PROBES = "probes"
    """A place in the reserve, which is for health checks and scrapes alone."""
    NONE = "none"


class ConnectionLimits:
    """The connections of one server."""

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        server: str,
        metrics: ConnectionMetrics,
        probes: frozenset[str] = frozenset(),
    ) -> None:
        """`server` names it in metrics and logs; requests to the paths of `probes` have a reserve of connections."""
        self.settings = settings
        self.probes = probes
        self.now = 0.0
        """The time of the event loop, at most a second ago."""
        self._server = server
        self._metrics = metrics
        self._most = min(settings.max_connections, _files_for_connections())
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._open = 0
        self._reserve: dict[Connection, None] = {}
        self._throttle = Throttle()

    def enter(self, connection: Connection) -> Slot:
        """A place for a new connection. One that waits for its client may lose its own for that."""
        own = self._by_address.get(connection.address, {})
        if len(own) >= self.settings.max_connections_per_address:
            return self._enter(connection, among=own, reason="address")
        if self._open >= self._most:
            return self._enter(connection, among=max(self._by_address.values(), key=len), reason="connections")
        return self._take(connection)

    def leave(self, connection: Connection) -> None:
        """A connection is closed. May be called again."""
        self._reserve.pop(connection, None)
        own = self._by_address.get(connection.address)
        if own is not None and connection in own:
            del own[connection]
            self._opened(-1)
            if not own:
                del self._by_address[connection.address]

    def make_room(self) -> None:
        """Close one that waits, of the address that has most: the process is out of files."""
        crowd: dict[Connection, None] = max(self._by_address.values(), key=len, default={})
        self._close_first(crowd)

    def refused(self, reason: str, *, address: str) -> None:
        """Count something that was refused; one line of a kind in ten seconds."""
        self._metrics.count_refusal(self._server, reason)
        count = self._throttle.admit(reason)
        if count:
            _log.warning("connection_refused", server=self._server, reason=reason, client=address, count=count)

    async def keep_closing(self) -> None:
        """Close what is past due, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.now = loop.time()
            everyone = [*self._reserve, *(each for own in self._by_address.values() for each in own)]
            for connection in everyone:
                if connection.due <= self.now:
                    connection.end()
            await asyncio.sleep(_LOOK_SECONDS)

    def _enter(self, connection: Connection, *, among: dict[Connection, None], reason: str) -> Slot:
        self.refused(reason, address=connection.address)
        if self._close_first(among):
            return self._take(connection)
        if not self.probes or (len(self._reserve) >= _FOR_PROBES and not self._close_first(self._reserve)):
            return Slot.NONE
        self._reserve[connection] = None
        return Slot.PROBES

    def _take(self, connection: Connection) -> Slot:
        self._by_address.setdefault(connection.address, {})[connection] = None
        self._opened(1)
        return Slot.FULL

    def _close_first(self, connections: dict[Connection, None]) -> bool:
        """Whether one of the given connections waited: the oldest such one is closed."""
        waiting = next((connection for connection in connections if connection.due < WORKED_ON), None)
        if waiting is None:
            return False
        self.leave(waiting)
        waiting.abort()
        return True

    def _opened(self, connections: int) -> None:
        self._open += connections
        self._metrics.set_open(self._server, self._open)


def _files_for_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_FEWEST, soft - _OTHER_FILES) if soft != resource.RLIM_INFINITY else 2**31
