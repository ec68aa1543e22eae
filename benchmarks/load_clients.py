"""Clients in a process of their own, each calling again as soon as it is answered: the load of `bench_mcp.py`."""

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import count
from typing import Any

from support.wire import Wire


class Load:
    """So many clients on one server; each `wording` of a query is another one if it holds `{}`.

    `run` goes into these, so that no run asks what another has asked: the server remembers queries.
    """

    def __init__(self, url: str, *, run: str, wording: str, headers: dict[str, str]) -> None:
        self._url = url
        self._run = run
        self._wording = wording
        self._headers = headers
        self._numbers = count()
        self._outcomes: Counter[str] = Counter()
        self._times: list[float] = []

    async def run(self, *, clients: int, seconds: float) -> dict[str, Any]:
        """Seconds of every answered call, how often what else came back, and how long it all took."""
        started = time.perf_counter()
        await asyncio.gather(*(self._client(until=started + seconds) for _ in range(clients)))
        return {
            "times": self._times,
            "outcomes": dict(self._outcomes),
            "seconds": time.perf_counter() - started,
        }

    async def _client(self, *, until: float) -> None:
        async with Wire(self._url) as wire:
            while time.perf_counter() < until:
                query = self._wording.format(f"{self._run}{next(self._numbers)}")
                reply = await wire.tool("search_workflow_catalog", {"query": query}, headers=self._headers)
                failed = reply.status != 200 or reply.json()["result"].get("isError", False)
                self._outcomes["refused" if failed else "answered"] += 1
                if not failed:
                    self._times.append(reply.seconds)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    result = asyncio.run(
        Load(told["url"], run=told["run"], wording=told["wording"], headers=told["headers"]).run(
            clients=told["clients"], seconds=told["seconds"]
        )
    )
    print(json.dumps(result))
