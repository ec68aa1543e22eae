"""A server that is killed while alerts arrive: what it answered is stored, what is sent again is the same one."""

import asyncio

import asyncpg
import httpx2

from formulary_catalog.store.database.connection import Database
from support.alerts import TOKEN, alert, body, report
from support.operator_process import Daemon, server
from support.waiting import wait_until

PATH, COUNT, BEFORE_THE_KILL = "/api/v1/incidents/shop/alerts", 60, 15
SIGNED = {"Authorization": f"Bearer {TOKEN}"}


async def _stored(dsn: str) -> list[tuple[str, int, bool]]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "select fingerprint, episode, firing from formulary.alert where fingerprint ~ '^k'"
        )
        return sorted((row["fingerprint"], row["episode"], row["firing"]) for row in rows)
    finally:
        await connection.close()


def _start(daemon: Daemon) -> None:
    """Start it; it takes alerts before it has a model to search with."""

    def answers() -> bool:
        try:
            return httpx2.get(f"{daemon.url}/healthz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    daemon.start()
    wait_until(answers, what="the server to answer", seconds=60)


async def _send(daemon: Daemon, fingerprints: list[str], *, answered: set[str], many: asyncio.Event) -> None:
    """Send each once; those that fail are left out, as after a loss of the connection."""
    async with httpx2.AsyncClient(base_url=daemon.url, timeout=30) as http:
        for each in fingerprints:
            try:
                sent = await http.post(PATH, json=body(alert(each)), headers=SIGNED)
            except httpx2.HTTPError:
                continue
            if sent.status_code == 200:
                answered.add(each)
            if len(answered) >= BEFORE_THE_KILL:
                many.set()


async def test_what_was_answered_is_stored_and_what_is_sent_again_is_the_same_incident(
    database: str, writing: Database
) -> None:
    await report(writing, namespace="shop")
    fingerprints, answered, many = [f"k{number:02}" for number in range(COUNT)], set[str](), asyncio.Event()
    with server(dsn=database) as daemon:
        await asyncio.to_thread(_start, daemon)
        sending = [
            asyncio.create_task(_send(daemon, fingerprints[part::3], answered=answered, many=many)) for part in range(3)
        ]
        await many.wait()
        await asyncio.to_thread(daemon.kill)
        await asyncio.gather(*sending)
        kept = {name for name, _, _ in await _stored(database)}

        assert answered <= kept
        assert len(answered) < COUNT, "the server was killed too late to show anything"
        await asyncio.to_thread(_start, daemon)
        await _send(daemon, fingerprints, answered=answered, many=many)

    assert await _stored(database) == [(each, 1, True) for each in fingerprints]
