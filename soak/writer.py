"""The process that edits the catalog all the time, and tells each edit before it begins and after it is done."""

import asyncio
import json
import random
import sys
import time
from itertools import count

from soak.catalog import NAMES, NAMESPACE, state

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.errors import Unavailable
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import fill

PAUSE_SECONDS = 0.25
_AGAIN_SECONDS = 0.1


def _tell(event: str, name: str, number: int) -> None:
    print(json.dumps({"event": event, "name": name, "number": number, "at": time.monotonic()}), flush=True)


async def _write(writer: CatalogWriter, name: str, number: int, *, embedder: Embedder) -> None:
    document = state(name, number)
    if document is None:
        await writer.suspend(namespace=NAMESPACE, name=name)
    else:
        await fill(writer, [document], namespace=NAMESPACE, embedder=embedder)


async def _edit(writer: CatalogWriter, name: str, number: int, *, embedder: Embedder) -> None:
    """Write the state until it is known to be there: a lost write may have happened or not, and is repeated."""
    _tell("begun", name, number)
    while True:
        try:
            await _write(writer, name, number, embedder=embedder)
        except Unavailable:
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            break
    _tell("done", name, number)


async def main(dsn: str) -> None:
    """Edit until the process is ended: first everything once, then one after the other in a random order."""
    embedder = await asyncio.to_thread(load_embedder)
    database = await Database.open(dsn, role=Role.WRITER, deadline=5)
    writer, numbers, chance = CatalogWriter(database), {name: count() for name in NAMES}, random.Random(5)
    for name in NAMES:
        await _edit(writer, name, next(numbers[name]), embedder=embedder)
    while True:
        name = chance.choice(NAMES)
        await _edit(writer, name, next(numbers[name]), embedder=embedder)
        await asyncio.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
