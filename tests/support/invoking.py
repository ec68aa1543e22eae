"""What tests of runs ask, as whom, and what they find afterwards."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.services.runs.service import InvocationService
from support.access import Rights

NOWHERE = ContextReference()
VISIBLE = {"see": ["formulary"], "use": ["shop"]}


def asked(workflow_id: str = "scale-out", **others: Any) -> InvocationRequest:
    return InvocationRequest(**({"workflow_id": workflow_id, "input": {"REPLICAS": 3}} | others))


def never(run: Invocation) -> None:
    """A run that goes on and on."""


def caller(name: str, **rights: list[str]) -> Caller:
    return Caller(name=name, access=Rights(**{**VISIBLE, **rights}))


async def rows(owner: asyncpg.Connection) -> int:
    count: int = await owner.fetchval("select count(*) from formulary.invocation")
    return count


async def trail(owner: asyncpg.Connection, trace_id: str) -> list[tuple[str, dict[str, Any]]]:
    found = await owner.fetch("select kind, body from formulary.trace_event where trace_id = $1 order by seq", trace_id)
    return [(row["kind"], json.loads(row["body"])["payload"]) for row in found]


@contextmanager
def taking(*, at_least: float = 0, at_most: float) -> Iterator[None]:
    """The block takes so many seconds."""
    started = time.monotonic()
    yield
    assert at_least <= time.monotonic() - started <= at_most


async def followed(service: InvocationService, answer: InvocationAnswer) -> InvocationAnswer:
    while answer.state in ("pending", "running"):
        answer = await service.status(
            answer.invocation_id, caller=LOCAL, wait_seconds=5, after_revision=answer.revision
        )
    return answer
