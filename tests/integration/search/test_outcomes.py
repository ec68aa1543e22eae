"""What came of runs, in search results and details: from real runs, and nothing where there were none."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.runs.outcome import Outcome
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.errors import FormularyError
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import playing
from support.manifest import text
from support.runnable import STAGING, runnable, runnable_database
from support.services import open_parts, service_on
from support.serving import load

UNKNOWN = (None, None)


@pytest.fixture
async def dsn(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with runnable_database(postgres, tmp_path_factory.mktemp("manifests")) as database:
        yield database


@pytest.fixture
async def parts(dsn: str) -> AsyncIterator[CatalogParts]:
    async with open_parts(dsn) as opened:
        yield opened


async def run(parts: CatalogParts, workflow_id: str, **others: Any) -> None:
    service = Services.on(parts, settings=Settings()).invocations
    request = InvocationRequest(workflow_id=workflow_id, input={"REPLICAS": 1}, **others)
    try:
        await service.invoke(request, context=STAGING, caller=LOCAL)
    except FormularyError:
        return


async def seen(parts: CatalogParts, workflow_id: str) -> tuple[float | None, float | None]:
    """Success rate and duration, which search and details agree upon."""
    catalog = service_on(parts)
    details = await catalog.details(workflow_id, context=ContextReference(), caller=LOCAL)
    found = await catalog.search(search_request(query=workflow_id, top_k=50), caller=LOCAL)
    (hit,) = [hit for hit in found.workflows if hit.version_id == details.version_id]
    shown = ("success_rate", "success_interval", "runs_counted", "median_duration_seconds")
    assert hit.model_dump(include={*shown}) == details.model_dump(include={*shown})
    return details.success_rate, details.median_duration_seconds


async def test_nothing_is_known_of_what_never_ran(parts: CatalogParts) -> None:
    assert await seen(parts, "scale-out") == UNKNOWN


async def test_success_and_duration_come_from_real_runs_of_this_version(parts: CatalogParts, dsn: str) -> None:
    endings = iter([playing.GOOD, playing.BAD, playing.GOOD, playing.GOOD])
    async with playing.operator(dsn, ends=lambda _: next(endings)):
        for _ in range(4):
            await run(parts, "scale-out")
    owner = await asyncpg.connect(dsn)
    await owner.execute(
        """
        update formulary.invocation set started_at = finished_at - make_interval(secs => n.seconds)
        from (select id, 10 * row_number() over (order by created_at) as seconds from formulary.invocation) as n
        where invocation.id = n.id
        """
    )
    await owner.close()
    async with playing.operator(dsn):
        await run(parts, "scale-out")
        await run(parts, "scale-out")
    assert (await seen(parts, "scale-out"))[0] is None
    await playing.decide(dsn, *[Outcome.HELPED] * 3, Outcome.NOT_HELPED, Outcome.UNKNOWN, Outcome.HELPED)

    rate, duration = await seen(parts, "scale-out")
    assert rate == pytest.approx(4 / 5)
    # The good ones took 10, 30, 40 and almost no seconds.
    assert duration == pytest.approx(10, abs=1)
    assert await seen(parts, "slow") == UNKNOWN


async def test_only_failures_leave_the_duration_unknown(parts: CatalogParts, dsn: str) -> None:
    async with playing.operator(dsn, ends=lambda _: playing.LATE):
        await run(parts, "fragile")

    await playing.decide(dsn, Outcome.NOT_HELPED)
    assert await seen(parts, "fragile") == UNKNOWN


async def test_dry_and_cancelled_runs_say_nothing(parts: CatalogParts, dsn: str) -> None:
    async with playing.operator(dsn, ends=lambda _: None) as runs:
        await run(parts, "scale-out", dry_run=True)
        await run(parts, "scale-out", timeout_ms=60_000)
        (going,) = await runs.active()
        await asyncio.wait_for(_until_running(runs, going.id), timeout=10)
        await runs.cancel(going.id, message="deleted")

    assert await seen(parts, "scale-out") == UNKNOWN


async def _until_running(runs: Any, invocation_id: str) -> None:
    while (await runs.find(invocation_id)).started_at is None:  # noqa: ASYNC110 - the row is changed by SQL
        await asyncio.sleep(0.02)


async def test_a_new_version_begins_without_a_past(parts: CatalogParts, dsn: str, tmp_path: Any) -> None:
    async with playing.operator(dsn):
        for _ in range(5):
            await run(parts, "scale-out")
    await playing.decide(dsn, *[Outcome.HELPED] * 5)
    newer = tmp_path / "newer.yaml"
    newer.write_text(text(runnable("scale-out", version="1.1.0")))
    await load([newer], dsn=dsn, embedder=None)

    old = await service_on(parts).details("scale-out@1.0.0", context=ContextReference(), caller=LOCAL)
    assert (old.success_rate, old.success_interval, old.runs_counted) == (1.0, [0.5655, 1.0], 5)
    new = await service_on(parts).details("scale-out@1.1.0", context=ContextReference(), caller=LOCAL)
    assert new.success_rate is None
