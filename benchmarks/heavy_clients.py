"""Clients in a process of their own that run heavy statements, each again as soon as it is answered: the load of
`bench_analytics.py`. It ends when its standard input does, and prints how often what came back."""

import asyncio
import json
import sys
from collections import Counter
from itertools import count

from support.wire import Wire

STATEMENTS = (
    "select count(*) from insight.candidates as a join insight.candidates as b on a.cosine < b.cosine",
    "select a.workflow, count(*), percentile_cont(0.95) within group (order by b.confidence)"
    " from insight.candidates as a, insight.candidates as b group by 1 order by 2 desc",
    "select length(string_agg(md5(a.query || b.query), ',')) from insight.searches as a, insight.searches as b",
    "select count(*) from generate_series(1, 100000000)",
    "select query, mode, rank() over (partition by mode order by duration_ms) from insight.searches order by 3 desc",
)
_PAUSE = 2.0
"""Seconds that a client waits after it was sent away, as the server asks."""


async def _client(url: str, outcomes: Counter[str], *, first: int) -> None:
    async with Wire(url) as wire:
        for number in count(first):
            statement = STATEMENTS[number % len(STATEMENTS)]
            result = (await wire.tool("execute_query", {"sql": statement})).json()["result"]
            if not result.get("isError", False):
                outcomes["answered"] += 1
            elif "are being answered" in result["content"][0]["text"]:
                outcomes["sent away"] += 1
                await asyncio.sleep(_PAUSE)
            else:
                outcomes["ended"] += 1


async def main(url: str, clients: int) -> None:
    """Load the server until standard input ends."""
    outcomes: Counter[str] = Counter()
    tasks = [asyncio.create_task(_client(url, outcomes, first=number)) for number in range(clients)]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    failures = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(each, Exception)]
    if failures:
        raise failures[0]
    print(json.dumps(outcomes))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
