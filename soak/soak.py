"""`make soak MINUTES=30`: mixed traffic on a server of its own while one thing after another goes wrong.

Prints a table, writes JSON where asked to, and ends with exit code 1 if anything was wrong, lost, unclear or late.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

import psutil
from soak import trail, verdict
from soak.catalog import NAMES, incident
from soak.faults import Fault, Faults, move_trail, small_disk
from soak.oracle import Oracle
from soak.programs import START_SECONDS, address_of, program, unexpected
from soak.table import show
from soak.traffic import KINDS, Client, Tally
from soak.verdict import Harm, Verdict

from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter

CLIENTS = 8
_CALM_SECONDS = verdict.RECOVERY_SECONDS + 4
"""Longer than calls may be refused after a fault: what comes later is not excused by it."""
_SHORT_CALM_SECONDS = 1.0
_LONG_CALM_SECONDS = 20.0
_LONG_MINUTES = 10
_MEGABYTE = 1024**2


class Soak:
    """One soak of a given length, or of one fault without waiting for what comes long after it."""

    def __init__(
        self, *, minutes: float, only: str, directory: Path, postgres: EmbeddedPostgres, disk: Path | None
    ) -> None:
        self._seconds = minutes * 60
        self._only = only
        self._calm = _SHORT_CALM_SECONDS if only else _CALM_SECONDS
        if minutes >= _LONG_MINUTES:
            self._calm = _LONG_CALM_SECONDS
        self._directory = directory
        self._dsn = postgres.dsn()
        self._disk = disk
        self._fails_while = directory / "embedder-fails"
        self._oracle, self._tally = Oracle(), Tally()
        self._faults = Faults(
            postgres,
            dsn=self._dsn,
            embedder_fails_while=self._fails_while,
            disk=disk,
            failures=lambda: len(verdict.failures(self._tally)),
        )
        self._resident: list[tuple[float, int]] = []
        self._done: list[tuple[Fault, float, float]] = []
        self._problems: list[str] = []
        self._over = False

    async def run(self) -> Verdict:
        """Set up, let it run, and judge."""
        await self._prepare()
        server_log = self._directory / "server.log"
        async with AsyncExitStack() as stack:
            writer = await stack.enter_async_context(
                program("soak.writer", self._dsn, log=self._directory / "writer.log")
            )
            listening = asyncio.create_task(self._listen(writer))
            await self._until_everything_is_written(writer)
            server = await stack.enter_async_context(
                program("soak.server", self._dsn, str(self._fails_while), log=server_log)
            )
            url = await address_of(server)
            watching = asyncio.create_task(self._watch(psutil.Process(server.pid)))
            await self._work(url)
            programs = {"server": server, "writer": writer}
            ended = [f"the {name} ended" for name, process in programs.items() if process.returncode is not None]
            if writer.returncode is None:
                writer.terminate()
            await asyncio.gather(listening, watching)
        return await self._judge([*self._problems, *ended, *unexpected(await asyncio.to_thread(server_log.read_text))])

    async def _prepare(self) -> None:
        await asyncio.to_thread(migrate, self._dsn)
        if self._disk is not None:
            owner = next((self._directory / "data").rglob("PG_VERSION")).stat()
            await move_trail(self._dsn, disk=self._disk, owner=(owner.st_uid, owner.st_gid))
        database = await Database.open(self._dsn, role=Role.WRITER)
        contexts = ContextWriter(database)
        for number in range(CLIENTS):
            await contexts.save(incident(number).context)
        await database.close()

    async def _listen(self, writer: asyncio.subprocess.Process) -> None:
        assert writer.stdout is not None
        async for line in writer.stdout:
            self._oracle.hear(line)

    async def _until_everything_is_written(self, writer: asyncio.subprocess.Process) -> None:
        async with asyncio.timeout(START_SECONDS):
            while self._oracle.edits < len(NAMES):
                if writer.returncode is not None:
                    raise RuntimeError((self._directory / "writer.log").read_text())
                await asyncio.sleep(0.1)

    async def _watch(self, server: psutil.Process) -> None:
        while not self._over and server.is_running():
            self._resident.append((time.monotonic(), server.memory_info().rss))
            await asyncio.sleep(0.5)

    async def _work(self, url: str) -> None:
        clients = [
            asyncio.create_task(
                Client(number, incident=incident(number), url=url, tally=self._tally).work(lambda: self._over)
            )
            for number in range(CLIENTS)
        ]
        try:
            await self._harm_until(time.monotonic() + self._seconds)
        finally:
            self._over = True
            await asyncio.gather(*clients)

    async def _harm_until(self, end: float) -> None:
        """Each fault once, and again as long as there is time, with calm before each and at the end."""
        self._problems += [f"the start: {missing}" for missing in await self._missing_once_calm()]
        faults = [fault for fault in self._faults.all() if self._only in ("", fault.name)]
        turn = 0
        while turn < len(faults) or time.monotonic() + self._calm < end:
            fault = faults[turn % len(faults)]
            begun = time.monotonic()
            await fault.harm()
            self._done.append((fault, begun, time.monotonic()))
            self._problems += [f"after {fault.name}: {missing}" for missing in await self._missing_once_calm()]
            turn += 1

    async def _missing_once_calm(self) -> list[str]:
        """What did not happen in the calm, nor until it had to."""
        edits, answers, begun = self._oracle.edits, len(self._tally.answered), time.monotonic()
        await asyncio.sleep(self._calm)
        while True:
            answered = {answer.call.kind for answer in self._tally.answered[answers:]}
            missing = [f"no {kind} was answered" for kind in sorted(KINDS - answered)]
            missing += ["no workflow could be edited"] if self._oracle.edits == edits else []
            if not missing or time.monotonic() - begun > _CALM_SECONDS:
                return missing
            await asyncio.sleep(0.1)

    async def _judge(self, problems: list[str]) -> Verdict:
        tally, trail_of_all = self._tally, await trail.recorded(self._dsn)
        harms = [
            verdict.harm(fault.name, begun=begun, healed=healed, tally=tally) for fault, begun, healed in self._done
        ]
        grown, hourly = verdict.growth(self._resident)
        lost = trail_of_all.lost(tally.answered)
        bent = await asyncio.to_thread(trail.finding, self._dsn)
        problems += [f"wrong answer: {said}" for said in verdict.sampled(verdict.wrong_answers(tally, self._oracle))]
        problems += [f"lost from the trail: {said}" for said in verdict.sampled(lost)]
        problems += [f"the trail is not as it was written: {bent}"] if bent else []
        problems += verdict.refusal_problems(tally, harms)
        problems += _missing_effects(harms)
        problems += verdict.growth_problems(self._resident)
        return Verdict(
            answers=dict(Counter(answer.call.kind for answer in tally.answered)),
            refusals=len(verdict.failures(tally)),
            not_found=sum(each.not_found for each in tally.refused),
            edits=self._oracle.edits,
            events=trail_of_all.events,
            harms=harms,
            resident_megabytes=self._resident[-1][1] / _MEGABYTE,
            growth_megabytes=grown / _MEGABYTE,
            growth_megabytes_per_hour=hourly / _MEGABYTE,
            skipped=[] if self._disk is not None else ["disk full for the trail: mounts are not permitted here"],
            problems=problems,
        )


def _missing_effects(harms: list[Harm]) -> list[str]:
    """Faults that nobody noticed: then the soak proves nothing of them."""
    return [f"{each.name}: no call noticed it" for each in harms if not each.refused and not each.words_only]


def soak(*, minutes: float = 0, only: str = "") -> Verdict:
    """Run one, on a database and a disk of its own; with `only` one fault of this name."""
    with (
        tempfile.TemporaryDirectory(prefix="formulary-soak-") as name,
        small_disk(megabytes=int(192 + 64 * minutes)) as disk,
    ):
        directory = Path(name)
        directory.chmod(0o711)
        with EmbeddedPostgres(data_dir=directory / "data") as postgres:
            return asyncio.run(
                Soak(minutes=minutes, only=only, directory=directory, postgres=postgres, disk=disk).run()
            )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--json", type=Path, help="where to write the result")
    given = parser.parse_args()
    result = soak(minutes=given.minutes)
    show(result)
    if given.json:
        given.json.write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
