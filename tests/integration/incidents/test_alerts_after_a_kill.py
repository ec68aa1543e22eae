"""A server that is killed while alerts arrive: what it answered is stored, what is sent again is the same one."""

import asyncio
import time

import asyncpg
import httpx2
import pytest

from formulary_catalog.store.database.connection import Database
from support.alerts import TOKEN, alert, body, report
from support.operator_process import Daemon, server
from support.waiting import wait_until

PATH, COUNT, BEFORE_THE_KILL = "/api/v1/incidents/shop/alerts", 60, 15
SIGNED = {"Authorization": f"Bearer {TOKEN}"}
MANY, AT_ONCE, KILLS = 5000, 2, (800, 2200, 4100)
"""Alerts of five minutes at a thousand each, in one message, and after how many of them the server is killed."""


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


class _Alertmanager:
    """Sends each message until it is answered with 200, as Alertmanager does, and says how many alerts were."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_there = asyncio.Event()
        self.answered = 0
        self._progress = asyncio.Condition()

    async def send(self, fingerprints: list[str]) -> None:
        async with httpx2.AsyncClient(base_url=self._url, timeout=30) as http:
            for start in range(0, len(fingerprints), AT_ONCE):
                group = fingerprints[start : start + AT_ONCE]
                while not await self._is_taken(http, group):
                    await self.is_there.wait()
                async with self._progress:
                    self.answered += len(group)
                    self._progress.notify_all()

    async def until_answered(self, count: int) -> None:
        async with self._progress:
            await self._progress.wait_for(lambda: self.answered >= count)

    async def _is_taken(self, http: httpx2.AsyncClient, group: list[str]) -> bool:
        try:
            return (await http.post(PATH, json=body(*map(alert, group)), headers=SIGNED)).status_code == 200
        except httpx2.HTTPError:
            return False


@pytest.mark.long
async def test_of_a_thousand_alerts_a_minute_none_is_lost_by_kills_and_each_is_one_incident(
    database: str, writing: Database
) -> None:
    await report(writing, namespace="shop")
    fingerprints = [f"k{number:04}" for number in range(MANY)]
    with server(dsn=database) as daemon:
        await asyncio.to_thread(_start, daemon)
        alertmanager, began = _Alertmanager(daemon.url), time.monotonic()
        alertmanager.is_there.set()
        sending = [asyncio.create_task(alertmanager.send(fingerprints[part::4])) for part in range(4)]
        for count in KILLS:
            await alertmanager.until_answered(count)
            alertmanager.is_there.clear()
            await asyncio.to_thread(daemon.kill)
            await asyncio.to_thread(_start, daemon)
            alertmanager.is_there.set()
        await asyncio.gather(*sending)
        took = time.monotonic() - began

    assert await _stored(database) == [(each, 1, True) for each in fingerprints]
    assert took < MANY / 1000 * 60, "it took fewer than a thousand alerts a minute"
