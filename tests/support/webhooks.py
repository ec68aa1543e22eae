"""A receiver of notifications on loopback, which fails in whatever way it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from support.serving import listening

_PATIENCE_SECONDS = 30.0


@dataclass
class Hook:
    """A receiver on loopback: what it was sent, and how it answers."""

    url: str = ""
    status: int = 204
    hangs: bool = False
    taken: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        asked = Request(scope, receive)
        body = await asked.body()
        self.bodies.append(body)
        self.headers.append(dict(asked.headers))
        self.arrived.set()
        if self.hangs:
            await self.closing.wait()
        if self.status == 204:
            self.taken.append(json.loads(body))
        await Response(status_code=self.status, headers={"Location": self.url + "/elsewhere"})(scope, receive, send)

    async def received(self, id: str) -> dict[str, Any]:
        """The event with the beginning of this id, once it has come."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                self.arrived.clear()
                if found := next((each for each in self.taken if each["id"].startswith(id)), None):
                    return found
                await self.arrived.wait()

    @property
    def ids(self) -> list[str]:
        """The ids that it took, without that of the subject."""
        return [each["id"].partition(".")[2] for each in self.taken]


@asynccontextmanager
async def hooked() -> AsyncIterator[Hook]:
    """One that listens."""
    hook = Hook()
    async with listening(hook) as url:
        hook.url = url
        try:
            yield hook
        finally:
            hook.closing.set()
