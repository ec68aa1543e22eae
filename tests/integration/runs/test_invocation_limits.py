"""What one caller may ask for: counted in PostgreSQL, so that replicas agree."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from support import playing
from support.access import KnownCallers, Rights
from support.agent import call, refused
from support.runnable import TARGET
from support.services import open_parts
from support.serving import serving

STAGING = {"X-Remediation-Id": "rr-staging"}
REPEATED = """
    insert into formulary.invocation
    select (jsonb_populate_record(run, jsonb_build_object('id', id || number))).*
    from formulary.invocation run, generate_series(2, 120) number where dry_run
"""
"""Makes 120 dry runs of one."""


@pytest.fixture(scope="module")
async def replicas(dsn: str) -> AsyncIterator[tuple[CatalogParts, CatalogParts]]:
    """Two servers' worth of connections to one database."""
    async with open_parts(dsn) as one, open_parts(dsn) as other:
        yield one, other


@pytest.fixture(autouse=True)
async def nothing_asked_for(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    await connection.execute("delete from formulary.invocation")
    yield connection
    await connection.close()


def request(**options: Any) -> dict[str, Any]:
    params = {"workflow_id": "scale-out", "input": {"REPLICAS": 3}, "options": options}
    return {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": params}


async def ask(url: str, *, headers: dict[str, str] = STAGING, **options: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=50) as http:
        return await http.post(f"{url}/api/v1/invoke", json=request(**options), headers=headers)


async def test_the_hourly_limit_holds_over_replicas_and_says_when_there_is_room(
    replicas: tuple[CatalogParts, CatalogParts], dsn: str, nothing_asked_for: asyncpg.Connection
) -> None:
    one, other = replicas
    async with (
        serving(one, invocations_per_hour=2) as here,
        serving(other, invocations_per_hour=2) as there,
        playing.operator(dsn),
    ):
        answers = [await ask(here), await ask(there), await ask(here), await ask(there)]
        await nothing_asked_for.execute(
            "update formulary.invocation set created_at = created_at - interval '59 minutes 50 seconds'"
        )
        soon = await ask(here)
        message = refused(
            await call(
                there, "invoke_workflow", {"workflow_id": "scale-out", "input": {"REPLICAS": 3}}, headers=STAGING
            )
        )
        await nothing_asked_for.execute("update formulary.invocation set created_at = created_at - interval '1 minute'")
        again = await ask(there)

    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert 3500 < int(answers[2].headers["Retry-After"]) <= 3600
    assert (answers[2].json()["error"]["code"], answers[2].json()["error"]["data"]["retry"]) == (-32003, True)
    assert 1 <= int(soon.headers["Retry-After"]) <= 11
    assert "retry in" in message
    assert again.status_code == 200


async def test_the_limit_of_concurrent_runs_counts_what_is_not_over(
    replicas: tuple[CatalogParts, CatalogParts], dsn: str
) -> None:
    one, other = replicas
    async with (
        serving(one, concurrent_invocations=3) as here,
        serving(other, concurrent_invocations=3) as there,
        playing.run_writer(dsn) as runs,
    ):
        await runs.announce()
        at_once = await asyncio.gather(*(ask(url, timeoutMs=60000) for url in (here, there) * 5))
        accepted = [answer for answer in at_once if answer.status_code == 200]
        await runs.cancel(accepted[0].json()["result"]["invocation_id"], message="deleted")
        again = await ask(here, timeoutMs=60000)

    assert len(accepted) == 3
    assert {answer.status_code for answer in at_once} == {200, 429}
    assert all("Retry-After" in answer.headers for answer in at_once if answer.status_code == 429)
    assert again.status_code == 200


async def test_a_repeat_of_a_run_needs_no_room(replicas: tuple[CatalogParts, CatalogParts], dsn: str) -> None:
    async with serving(replicas[0], invocations_per_hour=1) as url, playing.operator(dsn):
        first = await ask(url, idempotencyKey="k")
        again = await ask(url, idempotencyKey="k")
        other = await ask(url)

    assert first.json()["result"]["invocation_id"] == again.json()["result"]["invocation_id"]
    assert other.status_code == 429


async def test_dry_runs_have_an_hourly_limit_of_their_own(
    replicas: tuple[CatalogParts, CatalogParts], dsn: str
) -> None:
    one, other = replicas
    async with (
        serving(one, dry_runs_per_hour=2) as here,
        serving(other, dry_runs_per_hour=2) as there,
        playing.operator(dsn),
    ):
        answers = [await ask(url, dryRun=True, idempotencyKey=url) for url in (here, there)]
        refusal = await ask(here, dryRun=True)
        again = await ask(there, dryRun=True, idempotencyKey=here)
        real = await ask(there)

    assert [answer.status_code for answer in (*answers, refusal, again, real)] == [200, 200, 429, 200, 200]
    assert 3500 < int(refusal.headers["Retry-After"]) <= 3600
    assert "2 dry runs within an hour" in refusal.json()["error"]["message"]


async def test_each_caller_has_limits_of_its_own(replicas: tuple[CatalogParts, CatalogParts], dsn: str) -> None:
    rights = Rights(see=["formulary"], use=["shop"], invoke=[TARGET])
    known = KnownCallers(ann=rights, bob=rights)
    serving_two = serving(replicas[0], authenticator=known, invocations_per_hour=1)
    async with serving_two as url, playing.operator(dsn):
        statuses = [
            (await ask(url, headers={**STAGING, "Authorization": f"Bearer {name}"})).status_code
            for name in ("ann", "ann", "bob")
        ]

    assert statuses == [200, 429, 200]


async def test_the_longest_timeout_is_a_setting(replicas: tuple[CatalogParts, CatalogParts], dsn: str) -> None:
    async with serving(replicas[0], max_timeout_ms=20_000) as url, playing.operator(dsn):
        longer = await ask(url, timeoutMs=20_001)
        allowed = await ask(url, timeoutMs=20_000)
        unsaid = await ask(url)

    assert (longer.status_code, longer.json()["error"]["code"]) == (400, -32002)
    assert longer.json()["error"]["message"].startswith("options.timeoutMs 20001 is out of bounds; give 1000 to 20000")
    assert [allowed.status_code, unsaid.status_code] == [200, 200]


async def test_without_settings_real_runs_have_no_limits_and_dry_ones_have(
    replicas: tuple[CatalogParts, CatalogParts], dsn: str, nothing_asked_for: asyncpg.Connection
) -> None:
    async with serving(replicas[0]) as url, playing.operator(dsn):
        answers = await asyncio.gather(*(ask(url) for _ in range(12)))
        await ask(url, dryRun=True)
        await nothing_asked_for.execute(REPEATED)
        refusal = await ask(url, dryRun=True)

    assert {answer.status_code for answer in answers} == {200}
    assert (refusal.status_code, "120 dry runs" in refusal.json()["error"]["message"]) == (429, True)
