"""The time until the services are there: over stdio a client connects before the catalog is open.

`edges.mcp.requests` lets calls wait with it.
"""

import asyncio
from contextlib import suppress

from formulary_catalog.errors import FormularyError, StartupError, Unavailable
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.waiting import Progress, no_progress

OPENING_SECONDS = 45.0
"""How long a call waits for services that are being opened; a first start loads a database. Clients wait 60 s."""
_REPORT_SECONDS = 1.0


class Opening:
    """Services that may still be on their way. A server answers `initialize` and `tools/list` meanwhile."""

    def __init__(self, services: Services | None = None) -> None:
        self.services = services
        """None until they are open."""
        self._failure: Exception | None = None
        self._settled = asyncio.Event()

    def opened(self, services: Services) -> None:
        """The services are there."""
        self.services = services
        self._settled.set()

    def failed(self, failure: Exception) -> None:
        """There will be no services."""
        self._failure = failure
        self._settled.set()

    async def until_open(self, progress: Progress = no_progress) -> Services:
        """The services, waited for as long as a call may wait; `progress` is reported meanwhile.

        Raises:
            Unavailable: they are not there yet.
            StartupError: they could not be opened.
        """
        if self.services is None:
            await self._until_settled(progress)
        if isinstance(self._failure, FormularyError):
            raise StartupError(
                f"the catalog could not be opened: {self._failure}; correct that and start the server again"
            )
        if self._failure is not None:
            raise self._failure
        assert self.services is not None
        return self.services

    async def _until_settled(self, progress: Progress) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        while not self._settled.is_set():
            if (waited := clock() - started) >= OPENING_SECONDS:
                raise Unavailable("the catalog is still being opened; retry in a few seconds")
            await progress(waited, OPENING_SECONDS, "the catalog is being opened")
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_REPORT_SECONDS, OPENING_SECONDS - waited)):
                    await self._settled.wait()
