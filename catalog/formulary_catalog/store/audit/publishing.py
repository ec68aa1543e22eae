"""Checkpoints outside the database: its owner cannot take back what was published of them.

What is published are lines `NUMBER:HASH`, the newest last. One of today is enough: all before it follow from its hash.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import httpx2
import structlog

from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem
from formulary_catalog.domain.audit.checkpoint import Seen
from formulary_catalog.errors import FormularyError, InvalidInput, StartupError, Unavailable
from formulary_catalog.store.audit.checkpoints import CheckpointStore

KEPT = 100
"""Lines that a place keeps which is written as a whole."""
_SECONDS = 10.0
_NOT_FOUND = 404
_log = structlog.get_logger(__name__)


class CheckpointPlace(Protocol):
    """Where checkpoints are published."""

    async def read(self) -> tuple[Seen, ...]:
        """What was published there, the newest last.

        Raises:
            FormularyError: it cannot be read, or holds something else.
        """

    async def write(self, published: Sequence[Seen], new: Sequence[Seen]) -> None:
        """Publish the new ones behind those that were read.

        Raises:
            FormularyError: it cannot be written.
        """


class FilePlace:
    """A file to which lines are only ever added, so that its file system can be set to allow no more than that."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> tuple[Seen, ...]:
        try:
            text = await asyncio.to_thread(self._path.read_text, encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StartupError(f"{self._path} cannot be read: {error.strerror}; name another file") from error
        return parse_lines(text, place=str(self._path))

    async def write(self, published: Sequence[Seen], new: Sequence[Seen]) -> None:
        try:
            await asyncio.to_thread(self._append, spell_lines(new))
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}") from error

    def _append(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())


class UrlPlace:
    """An object behind a URL, read with GET and written with PUT; its user and password may be in the URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def read(self) -> tuple[Seen, ...]:
        response = await self._ask("GET")
        return parse_lines(response.text, place=self._host) if response.status_code != _NOT_FOUND else ()

    async def write(self, published: Sequence[Seen], new: Sequence[Seen]) -> None:
        response = await self._ask("PUT", content=spell_lines([*published, *new][-KEPT:]))
        if not response.is_success:
            raise Unavailable(f"{self._host} answers {response.status_code} where checkpoints are published")

    @property
    def _host(self) -> str:
        """What messages may name of the URL."""
        return httpx2.URL(self._url).host

    async def _ask(self, method: str, *, content: str | None = None) -> httpx2.Response:
        try:
            async with httpx2.AsyncClient(timeout=_SECONDS) as client:
                response = await client.request(method, self._url, content=content)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"{self._host} does not answer where checkpoints are published") from error
        if method == "GET" and not response.is_success and response.status_code != _NOT_FOUND:
            raise Unavailable(f"{self._host} answers {response.status_code} where checkpoints are published")
        return response


def place_of(setting: str) -> CheckpointPlace | None:
    """The place that `FORMULARY_AUDIT_PUBLISHED` names; None if it names none."""
    if not setting:
        return None
    return UrlPlace(setting) if setting.startswith(("http://", "https://")) else FilePlace(Path(setting))


def spell_lines(checkpoints: Sequence[Seen]) -> str:
    """A line for each."""
    return "".join(f"{each.id}:{each.hash}\n" for each in checkpoints)


def parse_lines(text: str, *, place: str) -> tuple[Seen, ...]:
    """The checkpoints that lines name.

    Raises:
        InvalidInput: a line names none.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        return tuple(Seen.parse(line) for line in lines)
    except ValueError:
        raise InvalidInput(
            f"{place} holds something else than published checkpoints, lines such as 7:0f3a…; restore it from a copy",
            field="published",
        ) from None


async def publish(store: CheckpointStore, place: CheckpointPlace) -> list[IntegrityFinding]:
    """Publish the checkpoints that are new. What is wrong, if the newest published one is not there as it was.

    Nothing is published then: what stands there is evidence.

    Raises:
        FormularyError: the place or the database is not to be had.
    """
    published = await place.read()
    last = published[-1] if published else None
    there = await store.since(last.id if last is not None else 0, at_most=KEPT)
    if last is not None and last not in there:
        return [disagreement(last, found=next((each for each in there if each.id == last.id), None))]
    if new := [each for each in there if last is None or each.id > last.id]:
        await place.write(published, new)
    return []


def disagreement(published: Seen, *, found: Seen | None) -> IntegrityFinding:
    """What it means that a published checkpoint is not there, or that another one is."""
    if found is None:
        problem, message = Problem.CHECKPOINT_MISSING, "this was published, and is gone"
    else:
        problem, message = Problem.CHECKPOINT_EDITED, "another one was published in its place"
    return IntegrityFinding(problem=problem, message=message, seq=published.id, last=published.id)


async def keep_publishing(store: CheckpointStore, place: CheckpointPlace, *, every_seconds: float) -> None:
    """Publish until cancelled; an outage, and what is wrong, goes to the log."""
    while True:
        try:
            for finding in await publish(store, place):
                _log.error("trail_broken", checkpoint=finding.seq, problem=finding.problem, reason=finding.message)
        except FormularyError as error:
            _log.warning("trace_not_published", reason=str(error))
        await asyncio.sleep(every_seconds)
