"""Answers searches in a process of its own: `python -m support.search_process DSN [--together]`, requests on its input.

The input is a list of keyword arguments of `search_request`, as JSON; `incident` stands for the remediation id of its
context. The output is one line for each answer, as it leaves the service, without its id, in the order of the requests:
first those of a service with an embedder, then of one without. With `--together` all are asked at once.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.services.search.service import CatalogService
from support.services import open_parts, service_on

_AT_ONCE = 8


async def answers(
    requests: Sequence[dict[str, Any]], *, dsn: str, at_once: int, embedder: Embedder | None
) -> list[str]:
    """The answers of a service that has answered nothing before."""
    places = asyncio.Semaphore(at_once)

    async def answer(request: dict[str, Any], *, service: CatalogService) -> str:
        context = ContextReference(remediation_id=request.get("incident", ""))
        asked = search_request(
            **{name: value for name, value in request.items() if name != "incident"}, context=context
        )
        async with places:
            found = await service.search(asked, caller=Caller(name="process", access=EVERYTHING))
        return found.model_dump_json(exclude={"search_id", "time_ms"})

    async with open_parts(dsn, embedder=embedder) as parts:
        service = service_on(parts)
        return list(await asyncio.gather(*(answer(each, service=service) for each in requests)))


def main() -> None:
    """Read requests, print answers."""
    at_once = _AT_ONCE if "--together" in sys.argv else 1
    requests = json.load(sys.stdin)
    for embedder in (load_embedder(), None):
        for line in asyncio.run(answers(requests, dsn=sys.argv[1], at_once=at_once, embedder=embedder)):
            print(line)


if __name__ == "__main__":
    main()
